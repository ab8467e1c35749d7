"""NVIDIA's devices, asked of the driver's management library (NVML) by ctypes; nothing is installed for it.

Each question may go unanswered (an old driver, a device that cannot say); what is not known is left out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

from pool.gpus.device import MIB, Device, Fact, Megahertz, cores_per_unit

LIBRARIES: Final = ("libnvidia-ml.so.1", "libnvidia-ml.so")
TEXT_BYTES: Final = 128
_CLOCK_SM: Final = 1
_TEMPERATURE_GPU: Final = 0
_ECC_SINGLE, _ECC_DOUBLE = 0, 1
_ECC_AGGREGATE: Final = 1

NOT_THERE: Final = 13
"""NVML's own status for a function that the library lacks."""

Handle = ctypes.c_void_p


class Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Pci(ctypes.Structure):
    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    )


def nvidia_devices() -> list[Device]:
    """All devices of this machine; none when there is no driver."""
    nvml = load()
    if nvml is None or not nvml.call("nvmlInit_v2"):
        return []
    try:
        return list(nvml.devices())
    finally:
        nvml.call("nvmlShutdown")


def load() -> Nvml | None:
    """The driver's library; None when there is none."""
    for name in LIBRARIES:
        try:
            return Nvml(ctypes.CDLL(name))
        except OSError:
            continue
    return None


class Nvml:
    """The library's functions, each answering None for what cannot be had."""

    def __init__(self, library: object) -> None:
        self._library = library

    def call(self, function: str, *arguments: Any) -> bool:
        """Whether the function is there and says that it went well."""
        return self.status(function, *arguments) == 0

    def status(self, function: str, *arguments: Any) -> int:
        """What the function says: 0 when it went well, NOT_THERE when there is no such function."""
        found = getattr(self._library, function, None)
        return NOT_THERE if found is None else int(found(*arguments))

    def number(self, function: str, *arguments: Any, kind: Any = ctypes.c_uint) -> int | None:
        """A function's one number."""
        value = kind()
        return int(value.value) if self.call(function, *arguments, ctypes.byref(value)) else None

    def text(self, function: str, *arguments: Any) -> str | None:
        """A function's text."""
        buffer = ctypes.create_string_buffer(TEXT_BYTES)
        if not self.call(function, *arguments, buffer, ctypes.c_uint(TEXT_BYTES)):
            return None
        return buffer.value.decode(errors="replace")

    def devices(self) -> Iterator[Device]:
        """All devices; of one that is divided its instances instead."""
        machine = self._machine_facts()
        for index in range(self.number("nvmlDeviceGetCount_v2") or 0):
            handle = Handle()
            if not self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle)):
                continue
            parts = list(self._parts(handle))
            properties = {**self._properties(handle), **machine}
            extra = self._extra(handle, properties)
            if not parts:
                uuid = (self.text("nvmlDeviceGetUUID", handle) or f"GPU-{index:08x}").removeprefix("GPU-")
                properties["DeviceUuid"] = uuid
                yield Device(index, uuid, _known(properties), _known(extra), _known(self._dynamic(handle)))
            for part in parts:
                uuid = self.text("nvmlDeviceGetUUID", part) or ""
                own = properties | {"DeviceUuid": uuid, "GlobalMemoryMb": self._memory(part), "DeviceName": None}
                yield Device(index, uuid, _known(own), _known(extra | {"ComputeUnits": None}))

    def _parts(self, handle: Handle) -> Iterator[Handle]:
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        if not self.call("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending)):
            return
        if current.value:
            for number in range(self.number("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
                part = Handle()
                if self.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(number), ctypes.byref(part)):
                    yield part

    def _machine_facts(self) -> dict[str, Fact | None]:
        version = self.number("nvmlSystemGetCudaDriverVersion_v2", kind=ctypes.c_int)
        return {
            "DriverVersion": _version(version),
            "MaxSupportedVersion": version,
        }

    def _memory(self, handle: Handle) -> int | None:
        memory = Memory()
        known = self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        return memory.total // MIB if known else None

    def _properties(self, handle: Handle) -> dict[str, Fact | None]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        capable = self.call("nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        ecc = self.call("nvmlDeviceGetEccMode", handle, ctypes.byref(current), ctypes.byref(pending))
        pci = _Pci()
        placed = self.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        return {
            "Capability": float(f"{major.value}.{minor.value}") if capable else None,
            "DeviceName": self.text("nvmlDeviceGetName", handle),
            "DevicePciBusId": f"{pci.domain:04X}:{pci.bus:02X}:{pci.device:02X}.0" if placed else None,
            "ECCEnabled": bool(current.value) if ecc else None,
            "GlobalMemoryMb": self._memory(handle),
        }

    def _extra(self, handle: Handle, properties: dict[str, Fact | None]) -> dict[str, Fact | None]:
        capability = properties.get("Capability")
        per_unit = cores_per_unit(str(capability)) if capability is not None else None
        clock = self.number("nvmlDeviceGetMaxClockInfo", handle, ctypes.c_int(_CLOCK_SM))
        cores = self.number("nvmlDeviceGetNumGpuCores", handle)
        return {
            "ClockMhz": Megahertz(clock) if clock is not None else None,
            "ComputeUnits": cores // per_unit if cores and per_unit else None,
            "CoresPerCU": per_unit,
        }

    def _dynamic(self, handle: Handle) -> dict[str, Fact | None]:
        errors = {
            name: self.number(
                "nvmlDeviceGetTotalEccErrors",
                handle,
                ctypes.c_int(kind),
                ctypes.c_int(_ECC_AGGREGATE),
                kind=ctypes.c_ulonglong,
            )
            for name, kind in (("EccErrorsSingleBit", _ECC_SINGLE), ("EccErrorsDoubleBit", _ECC_DOUBLE))
        }
        return {
            **errors,
            "DieTempC": self.number("nvmlDeviceGetTemperature", handle, ctypes.c_int(_TEMPERATURE_GPU)),
            "FanSpeedPct": self.number("nvmlDeviceGetFanSpeed", handle),
            "PowerUsage_mw": self.number("nvmlDeviceGetPowerUsage", handle),
        }


def _version(number: int | None) -> float | None:
    """11020 as 11.2."""
    return number // 1000 + number % 1000 // 10 / 10 if number else None


def _known(facts: dict[str, Fact | None]) -> dict[str, Fact]:
    return {name: fact for name, fact in facts.items() if fact is not None}
