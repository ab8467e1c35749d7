"""GPUs that an OpenCL library knows, asked by ctypes; nothing is installed for it.

The library is the vendors' code: whoever asks does so in a process that may come to harm.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any, Final

from pool.gpus.device import MIB, Device, Fact, Say

LIBRARY: Final = "libOpenCL.so"
PLATFORMS_MAX: Final = 64
DEVICES_MAX: Final = 1024
"""Of one platform."""
TEXT_BYTES: Final = 1024
_NO_DEVICE, _NO_PLATFORM = -1, -1001
_TYPE_GPU: Final = 1 << 2
_COMPUTE_UNITS: Final = 0x1002
_CLOCK_FREQUENCY: Final = 0x100C
_MEMORY: Final = 0x101F
_ERROR_CORRECTION: Final = 0x1024
_NAME: Final = 0x102B
_VERSION: Final = 0x102F

Handle = ctypes.c_void_p


def opencl_devices(say: Say) -> list[Device] | None:
    """All GPUs of this machine, of one platform after another; None when there is no such library."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        say(f"no OpenCL library: {error}")
        return None
    found = [handle for platform in _platforms(library, say) for handle in _gpus(library, platform)]
    return [_device(library, index, handle) for index, handle in enumerate(found)]


def _call(library: Any, function: str, *arguments: Any) -> int:
    """What the function says: 0 when it went well, as of one that is not there never."""
    found = getattr(library, function, None)
    if found is None:
        return _NO_PLATFORM
    found.restype = ctypes.c_int
    return int(found(*arguments))


def _platforms(library: Any, say: Say) -> list[int | None]:
    count, handles = ctypes.c_uint(), (Handle * PLATFORMS_MAX)()
    status = _call(library, "clGetPlatformIDs", ctypes.c_uint(PLATFORMS_MAX), handles, ctypes.byref(count))
    if status:
        if status not in (_NO_DEVICE, _NO_PLATFORM):
            say(f"clGetPlatformIDs fails with {status}")
        return []
    # The library tells how many there are, and writes no more than there was room for.
    return list(handles[: min(count.value, PLATFORMS_MAX)])


def _gpus(library: Any, platform: int | None) -> Iterator[Handle]:
    count, handles = ctypes.c_uint(), (Handle * DEVICES_MAX)()
    asked = Handle(platform), ctypes.c_ulonglong(_TYPE_GPU), ctypes.c_uint(DEVICES_MAX)
    if _call(library, "clGetDeviceIDs", *asked, handles, ctypes.byref(count)) == 0:
        yield from (Handle(handle) for handle in handles[: min(count.value, DEVICES_MAX)])


def _info(library: Any, device: Handle, what: int, value: Any) -> bool:
    asked = device, ctypes.c_uint(what), ctypes.c_size_t(ctypes.sizeof(value))
    return _call(library, "clGetDeviceInfo", *asked, ctypes.byref(value), None) == 0


def _text(library: Any, device: Handle, what: int) -> str:
    buffer = ctypes.create_string_buffer(TEXT_BYTES)
    return buffer.value.decode(errors="replace") if _info(library, device, what, buffer) else ""


def _number(library: Any, device: Handle, what: int, kind: Any = ctypes.c_uint) -> int | None:
    value = kind()
    return int(value.value) if _info(library, device, what, value) else None


def _device(library: Any, index: int, handle: Handle) -> Device:
    """It has no UUID: such devices are known by their numbers."""
    memory = _number(library, handle, _MEMORY, ctypes.c_ulonglong)
    ecc = _number(library, handle, _ERROR_CORRECTION)
    properties: dict[str, Fact | None] = {
        "DeviceName": _text(library, handle, _NAME) or None,
        "ECCEnabled": bool(ecc) if ecc is not None else None,
        "GlobalMemoryMb": round(memory / MIB) if memory is not None else None,
        "OpenCLVersion": _version(_text(library, handle, _VERSION)),
    }
    extra = {
        "ClockMhz": _number(library, handle, _CLOCK_FREQUENCY),
        "ComputeUnits": _number(library, handle, _COMPUTE_UNITS),
    }
    return Device(index, "", _known(properties), _known(extra))


def _version(said: str) -> float | None:
    """3.0 of `OpenCL 3.0 CUDA`."""
    found = re.match(r"OpenCL (\d+\.\d+)", said)
    return float(found[1]) if found else None


def _known(facts: dict[str, Any]) -> dict[str, Fact]:
    return {name: fact for name, fact in facts.items() if fact is not None}
