"""How busy NVIDIA's devices are, asked of NVML: samples of their use, and the memory that is taken.

What the driver will not say ends the monitor with a message that names the device and the call; devices that this
process may not look at are left out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pynvml
from pynvml import NVMLError

from pool.base.errors import PoolError
from pool.gpus.driver import LIBRARY
from pool.gpus.nvml import known
from pool.gpus.utilization import DeviceSample, monitor

CHURN_S: Final = 1024.0


class GpuTrouble(PoolError):
    """The devices cannot be watched."""


@contextmanager
def _asking(call: str) -> Iterator[None]:
    """What goes wrong inside is this call's."""
    try:
        yield
    except NVMLError as error:
        raise GpuTrouble(f"{call} failed ({error.value})") from None


@dataclass(frozen=True)
class DeviceMeter:
    """One device: its index and UUID, and how many samples its driver keeps."""

    handle: Any
    index: int
    uuid: str
    samples_max: int

    def samples(self, since: int) -> list[DeviceSample]:
        """What was measured after `since`, a time of the driver's; none when there is nothing new."""
        with _asking(f"nvmlDeviceGetSamples({self.index})"):
            try:
                _kind, found = pynvml.nvmlDeviceGetSamples(self.handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, since)
            # What the driver says where nothing was sampled since.
            except pynvml.NVMLError_NotFound:
                return []
        return [DeviceSample(one.timeStamp, one.sampleValue.uiVal) for one in found]

    def memory_used(self) -> int:
        """How many bytes of its memory are taken."""
        with _asking(f"nvmlDeviceGetMemoryInfo({self.index})"):
            return int(pynvml.nvmlDeviceGetMemoryInfo(self.handle).used)


def meters() -> list[DeviceMeter]:
    """All devices that can be watched; GpuTrouble when there are none."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        raise GpuTrouble(f"NVIDIA's management library ({LIBRARY}) is not there") from None
    except NVMLError as error:
        raise GpuTrouble(f"nvmlInit() failed ({error.value})") from None
    found = [one for index in range(known(pynvml.nvmlDeviceGetCount) or 0) if (one := _meter(index))]
    if not found:
        raise GpuTrouble("Found 0 devices that can be watched")
    return found


def _meter(index: int) -> DeviceMeter | None:
    with _asking(f"nvmlDeviceGetHandleByIndex({index})"):
        try:
            # A device of another container: it is seen and may not be asked.
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError_NoPermission:
            return None
    kind, samples_max = _buffer(handle, index)
    if kind != pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        raise GpuTrouble(f"nvmlDeviceGetSamples({index}) has samples of an unexpected type ({kind})")
    uuid = (known(pynvml.nvmlDeviceGetUUID, handle) or "").removeprefix("GPU-")
    return DeviceMeter(handle, index, uuid, max(1, samples_max))


def _buffer(handle: Any, index: int) -> tuple[int, int]:
    """Of which type a device's samples are, and how many its driver keeps; the bindings ask that, but do not tell."""
    # With no room given the driver tells how much it would need.
    kind, count = ctypes.c_uint(), ctypes.c_uint()
    status = pynvml.nvmlLib.nvmlDeviceGetSamples(
        handle,
        ctypes.c_uint(pynvml.NVML_GPU_UTILIZATION_SAMPLES),
        ctypes.c_ulonglong(0),
        ctypes.byref(kind),
        ctypes.byref(count),
        None,
    )
    if status:
        raise GpuTrouble(f"nvmlDeviceGetSamples({index}) failed while asked for the number of samples ({status})")
    return kind.value, count.value


def watch(
    *,
    write: Callable[[str], None],
    complain: Callable[[str], object],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Report for ever, or say why not and stay all the same: a startd starts a program that ends again and again."""
    try:
        monitor(meters(), write=write, now=now, sleep=sleep)
    except GpuTrouble as error:
        complain(f"{error}, aborting.\nHanging to prevent process churn.\n")
    while True:
        sleep(CHURN_S)
