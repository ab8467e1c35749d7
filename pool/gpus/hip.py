"""AMD's devices, asked of the HIP runtime (ROCm) by ctypes; nothing is installed for it.

The library is the vendor's code: whoever asks does so in a process that may come to harm.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from pool.gpus.device import MIB, Device, Fact, Megahertz, Say

LIBRARIES: Final = (("libamdhip64.so.7", 7), ("libamdhip64.so.6", 6), ("libamdhip64.so", 0))
"""What to load, the newest first, and the release that the name tells."""
PROPERTIES_BYTES: Final = 16384
"""Room for the properties of a device: several times what today's libraries write."""
DEVICES_MAX: Final = 1024
_HEXADECIMAL: Final = frozenset(b"0123456789abcdef")


class _Properties(ctypes.Structure):
    """hipDeviceProp_t (R0600) as far as something of it is read."""

    _fields_ = (
        ("name", ctypes.c_char * 256),
        ("uuid", ctypes.c_ubyte * 16),
        ("luid", ctypes.c_char * 8),
        ("luidDeviceNodeMask", ctypes.c_uint),
        ("totalGlobalMem", ctypes.c_size_t),
        ("sharedMemPerBlock", ctypes.c_size_t),
        ("regsPerBlock", ctypes.c_int),
        ("warpSize", ctypes.c_int),
        ("memPitch", ctypes.c_size_t),
        ("maxThreads", ctypes.c_int * 7),  # per block, in each dimension of a block, of a grid
        ("clockRate", ctypes.c_int),
        ("totalConstMem", ctypes.c_size_t),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("textureAlignment", ctypes.c_size_t),
        ("texturePitchAlignment", ctypes.c_size_t),
        ("deviceOverlap", ctypes.c_int),
        ("multiProcessorCount", ctypes.c_int),
        ("modes", ctypes.c_int * 4),
        ("texturesAndSurfaces", ctypes.c_int * 40),
        ("surfaceAlignment", ctypes.c_size_t),
        ("concurrentKernels", ctypes.c_int),
        ("ECCEnabled", ctypes.c_int),
        ("pciBusID", ctypes.c_int),
        ("pciDeviceID", ctypes.c_int),
        ("pciDomainID", ctypes.c_int),
        ("tccDriver", ctypes.c_int),
        ("asyncEngineCount", ctypes.c_int),
        ("unifiedAddressing", ctypes.c_int),
    )


def hip_devices(say: Say, fix_uuid: int = 0) -> list[Device] | None:
    """All devices of this machine; None when there is no such library.

    `fix_uuid`: the model that takes the place of what is missing in the UUIDs of ROCm 6, which are no UUIDs.
    """
    found = _load(say)
    if found is None:
        return None
    hip, release = found
    count = ctypes.c_int()
    if not _call(hip, "hipGetDeviceCount", ctypes.byref(count)):
        say("hipGetDeviceCount fails")
        return []
    version = ctypes.c_int()
    known = _call(hip, "hipDriverGetVersion", ctypes.byref(version)) and version.value > 0
    machine = _driver(version.value) if known else _of_release(release)
    return [_device(hip, index, machine, fix_uuid) for index in range(min(count.value, DEVICES_MAX))]


def _load(say: Say) -> tuple[Any, int] | None:
    for name, release in LIBRARIES:
        try:
            return ctypes.CDLL(name), release
        except OSError as error:
            say(f"no HIP library: {error}")
    return None


def _call(hip: Any, function: str, *arguments: Any) -> bool:
    """Whether the library has the function, and it says that it went well."""
    found = getattr(hip, function, None)
    return found is not None and int(found(*arguments)) == 0


def _driver(version: int) -> dict[str, Fact]:
    """60342131 is release 6, and version 6.3.42131."""
    major, minor, patch = version // 10_000_000, version % 10_000_000 // 100_000, version % 100_000
    return {"Rocm": major, "AmdDriverVersion": f"{major}.{minor}.{patch}"} if major else {}


def _of_release(release: int) -> dict[str, Fact]:
    return {"Rocm": release} if release else {}


def _device(hip: Any, index: int, machine: dict[str, Fact], fix_uuid: int) -> Device:
    # The library writes its whole structure, which grows with each release: into less it would write past the end.
    room = ctypes.create_string_buffer(PROPERTIES_BYTES)
    if not _call(hip, "hipGetDevicePropertiesR0600", room, ctypes.c_int(index)):
        return Device(index, "", dict(machine))
    it = _Properties.from_buffer(room)
    _call(hip, "hipDeviceGetUuid", ctypes.byref(it, _Properties.uuid.offset), ctypes.c_int(index))
    uuid = written_uuid(bytes(it.uuid), fix_uuid)
    properties: dict[str, Fact] = {
        **machine,
        "Capability": float(f"{it.major}.{it.minor}"),
        "DeviceName": it.name.decode(errors="replace"),
        "ECCEnabled": bool(it.ECCEnabled),
        "GlobalMemoryMb": round(it.totalGlobalMem / MIB),
        "WarpSize": it.warpSize,
        "xNACK": it.unifiedAddressing,
    }
    if uuid:
        properties["DeviceUuid"] = uuid
    if it.pciBusID or it.pciDeviceID:
        properties["DevicePciBusId"] = f"{it.pciDomainID:04X}:{it.pciBusID:02X}:{it.pciDeviceID:02X}.0"
    extra: dict[str, Fact] = {"ClockMhz": Megahertz(it.clockRate / 1000)}
    if it.multiProcessorCount > 0:
        extra["ComputeUnits"] = it.multiProcessorCount
    return Device(index, uuid, properties, extra)


def written_uuid(said: bytes, fix: int = 0) -> str:
    """The 16 bytes as a UUID; empty when they are none.

    ROCm 6 writes 16 hexadecimal digits, half a UUID, in the place of 16 bytes. By `fix` the digits become the first
    byte and the last seven, as AMD's own tools show them.
    """
    # What a driver writes that knows none.
    if set(said) in ({0x00}, {0xFF}):
        return ""
    if set(said) <= _HEXADECIMAL:
        if not fix:
            return ""
        digits = bytes.fromhex(said.decode())
        said = digits[:1] + bytes((0xFF, fix >> 8 & 0xFF, fix & 0xFF, 0, 0, 0x10, 0, 0x80)) + digits[1:]
    text = said.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
