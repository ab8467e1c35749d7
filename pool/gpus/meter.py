"""How busy NVIDIA's devices are, asked of NVML: samples of their use, and the memory that is taken.

What the driver will not say ends the monitor with a message that names the device and the call; devices that this
process may not look at are left out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pool.errors import PoolError
from pool.gpus.nvml import Handle, Memory, Nvml
from pool.gpus.utilization import Sample, monitor

CHURN_S: Final = 1024.0
_UTILIZATION: Final = 1
_UNSIGNED: Final = 1
_NO_PERMISSION: Final = 4
_NOT_FOUND: Final = 6


class GpuTrouble(PoolError):
    """The devices cannot be watched."""


class _Value(ctypes.Union):
    _fields_ = (("uiVal", ctypes.c_uint), ("ullVal", ctypes.c_ulonglong), ("dVal", ctypes.c_double))


class _Sample(ctypes.Structure):
    _fields_ = (("timeStamp", ctypes.c_ulonglong), ("sampleValue", _Value))


@dataclass(frozen=True)
class Meter:
    """One device: its index and UUID, and how many samples its driver keeps."""

    nvml: Nvml
    handle: Handle
    index: int
    uuid: str
    samples_max: int

    def samples(self, since: int) -> list[Sample]:
        """What was measured after `since`, a time of the driver's; none when there is nothing new."""
        kind, count = ctypes.c_int(), ctypes.c_uint(self.samples_max)
        found = (_Sample * self.samples_max)()
        status = self.nvml.status(
            "nvmlDeviceGetSamples",
            self.handle,
            ctypes.c_int(_UTILIZATION),
            ctypes.c_ulonglong(since),
            ctypes.byref(kind),
            ctypes.byref(count),
            found,
        )
        if status == _NOT_FOUND:
            return []
        if status:
            raise GpuTrouble(f"nvmlDeviceGetSamples({self.index}) failed ({status})")
        return [Sample(one.timeStamp, one.sampleValue.uiVal) for one in found[: count.value]]

    def memory_used(self) -> int:
        """How many bytes of its memory are taken."""
        memory = Memory()
        status = self.nvml.status("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(memory))
        if status:
            raise GpuTrouble(f"nvmlDeviceGetMemoryInfo({self.index}) failed ({status})")
        return int(memory.used)


def meters(nvml: Nvml | None) -> list[Meter]:
    """All devices that can be watched; GpuTrouble when there are none."""
    if nvml is None:
        raise GpuTrouble("NVIDIA's management library (libnvidia-ml.so.1) is not there")
    if status := nvml.status("nvmlInit_v2"):
        raise GpuTrouble(f"nvmlInit() failed ({status})")
    found = [one for index in range(nvml.number("nvmlDeviceGetCount_v2") or 0) if (one := _meter(nvml, index))]
    if not found:
        raise GpuTrouble("Found 0 devices that can be watched")
    return found


def _meter(nvml: Nvml, index: int) -> Meter | None:
    handle = Handle()
    status = nvml.status("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    if status == _NO_PERMISSION:
        return None
    if status:
        raise GpuTrouble(f"nvmlDeviceGetHandleByIndex({index}) failed ({status})")
    kind, count = ctypes.c_int(), ctypes.c_uint()
    status = nvml.status(
        "nvmlDeviceGetSamples",
        handle,
        ctypes.c_int(_UTILIZATION),
        ctypes.c_ulonglong(0),
        ctypes.byref(kind),
        ctypes.byref(count),
        None,
    )
    if status:
        raise GpuTrouble(f"nvmlDeviceGetSamples({index}) failed while asked for the number of samples ({status})")
    if kind.value != _UNSIGNED:
        raise GpuTrouble(f"nvmlDeviceGetSamples({index}) has samples of an unexpected type ({kind.value})")
    uuid = (nvml.text("nvmlDeviceGetUUID", handle) or "").removeprefix("GPU-")
    return Meter(nvml, handle, index, uuid, max(1, count.value))


def watch(
    nvml: Nvml | None,
    *,
    write: Callable[[str], None],
    complain: Callable[[str], object],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Report for ever, or say why not and stay all the same: a startd starts a program that ends again and again."""
    try:
        monitor(meters(nvml), write=write, now=now, sleep=sleep)
    except GpuTrouble as error:
        complain(f"{error}, aborting.\nHanging to prevent process churn.\n")
    while True:
        sleep(CHURN_S)
