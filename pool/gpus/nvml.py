"""NVIDIA's devices, asked of the driver's management library (NVML) by NVIDIA's own bindings, nvidia-ml-py.

Each question may go unanswered (an old driver, a device that cannot say); what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pynvml
from pynvml import NVMLError

from pool.gpus.device import MIB, Device, Fact, Megahertz, cores_per_unit

T = TypeVar("T")


def nvidia_devices() -> list[Device]:
    """All devices of this machine; none when there is no driver."""
    try:
        pynvml.nvmlInit()
    except NVMLError:
        return []
    try:
        return list(_devices())
    finally:
        known(pynvml.nvmlShutdown)


def known(question: Callable[..., T], *arguments: Any) -> T | None:
    """What the driver answers, if it does."""
    try:
        return question(*arguments)
    except NVMLError:
        return None


def _devices() -> Iterator[Device]:
    """All devices; of one that is divided its instances instead."""
    machine = _machine_facts()
    for index in range(known(pynvml.nvmlDeviceGetCount) or 0):
        handle = known(pynvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            continue
        parts = list(_parts(handle))
        properties = {**_properties(handle), **machine}
        extra = _extra(handle, properties)
        if not parts:
            # A device that tells no UUID gets one by its place, so that slots can name it.
            uuid = (known(pynvml.nvmlDeviceGetUUID, handle) or f"GPU-{index:08x}").removeprefix("GPU-")
            properties["DeviceUuid"] = uuid
            yield Device(index, uuid, _facts(properties), _facts(extra), _facts(_dynamic(handle)))
        for part in parts:
            uuid = known(pynvml.nvmlDeviceGetUUID, part) or ""
            own = properties | {"DeviceUuid": uuid, "GlobalMemoryMb": _memory(part), "DeviceName": None}
            yield Device(index, uuid, _facts(own), _facts(extra | {"ComputeUnits": None}))


def _parts(handle: Any) -> Iterator[Any]:
    """The instances that a device is divided into (MIG)."""
    # What holds now: a mode that was set counts after the next reset of the device.
    current, _pending = known(pynvml.nvmlDeviceGetMigMode, handle) or (0, 0)
    if current:
        for number in range(known(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            part = known(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            if part is not None:
                yield part


def _machine_facts() -> dict[str, Fact | None]:
    version = known(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    return {
        "DriverVersion": _version(version),
        "MaxSupportedVersion": version,
        "NvidiaDriver": known(pynvml.nvmlSystemGetDriverVersion),
    }


def _memory(handle: Any) -> int | None:
    memory = known(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return memory.total // MIB if memory is not None else None


def _properties(handle: Any) -> dict[str, Fact | None]:
    capability = known(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    ecc = known(pynvml.nvmlDeviceGetEccMode, handle)
    pci = known(pynvml.nvmlDeviceGetPciInfo, handle)
    return {
        "Capability": float(f"{capability[0]}.{capability[1]}") if capability is not None else None,
        "DeviceName": known(pynvml.nvmlDeviceGetName, handle),
        "DevicePciBusId": f"{pci.domain:04X}:{pci.bus:02X}:{pci.device:02X}.0" if pci is not None else None,
        "ECCEnabled": bool(ecc[0]) if ecc is not None else None,
        "GlobalMemoryMb": _memory(handle),
    }


def _extra(handle: Any, properties: dict[str, Fact | None]) -> dict[str, Fact | None]:
    capability = properties.get("Capability")
    per_unit = cores_per_unit(str(capability)) if capability is not None else None
    clock = known(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM)
    cores = known(pynvml.nvmlDeviceGetNumGpuCores, handle)
    return {
        "ClockMhz": Megahertz(clock) if clock is not None else None,
        # The driver counts cores, and HTCondor shows multiprocessors.
        "ComputeUnits": cores // per_unit if cores and per_unit else None,
        "CoresPerCU": per_unit,
    }


def _dynamic(handle: Any) -> dict[str, Fact | None]:
    kinds = {
        "EccErrorsSingleBit": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        "EccErrorsDoubleBit": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    }
    return {
        **{
            name: known(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_AGGREGATE_ECC)
            for name, kind in kinds.items()
        },
        "DieTempC": known(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        "FanSpeedPct": known(pynvml.nvmlDeviceGetFanSpeed, handle),
        "PowerUsage_mw": known(pynvml.nvmlDeviceGetPowerUsage, handle),
    }


def _version(number: int | None) -> float | None:
    """11020 as 11.2."""
    return number // 1000 + number % 1000 // 10 / 10 if number else None


def _facts(found: dict[str, Fact | None]) -> dict[str, Fact]:
    return {name: fact for name, fact in found.items() if fact is not None}
