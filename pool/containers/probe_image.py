"""An image that every engine can run: one program of a few bytes, which exits with status 37. No registry is needed."""

from __future__ import annotations

import io
import struct
import tarfile
from typing import Final

PROGRAM: Final = "/exit_37"
STATUS: Final = 37
_BASE: Final = 0x400000
_HEADERS: Final = 64 + 56
_MACHINES: Final = {
    "x86_64": (62, bytes.fromhex("bf25000000b83c0000000f05")),  # mov edi, 37; mov eax, 60; syscall
    "aarch64": (183, bytes.fromhex("a00480d2a80b80d2010000d4")),  # mov x0, 37; mov x8, 93; svc 0
}
_NAMESPACE: Final = {  # readlink, write of as many bytes to standard output, exit with status 37
    "x86_64": "b859000000488d3d2b000000488d742480ba400000000f0589c2488d"
    "742480bf01000000b8010000000f05bf25000000b83c0000000f05",
    "aarch64": "600c8092c1010010ff0301d1e2030091030880d2c80980d2010000d4"
    "e20300aae1030091200080d2080880d2010000d4a00480d2a80b80d2010000d4",
}
_LINK: Final = b"/proc/self/ns/user\0"


def program(machine: str) -> bytes | None:
    """The program as an executable for that kind of machine; None where it is not known."""
    found = _MACHINES.get(machine)
    return None if found is None else _executable(*found)


def namespace_program(machine: str) -> bytes | None:
    """A program that prints which user namespace it is in (`user:[4026531837]`), and exits with the same status."""
    if machine not in _NAMESPACE:
        return None
    return _executable(_MACHINES[machine][0], bytes.fromhex(_NAMESPACE[machine]) + _LINK)


def _executable(number: int, code: bytes) -> bytes:
    size = _HEADERS + len(code)
    # 64 bits, little end first, version 1 (elf(5)); what is 0 stands for System V.
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, number, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    # One segment that is loaded whole and may be read and executed (PT_LOAD, PF_R | PF_X).
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code


def archive(machine: str) -> bytes | None:
    """The image's files, as `docker import` takes them."""
    found = program(machine)
    if found is None:
        return None
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo(PROGRAM.lstrip("/"))
        entry.size, entry.mode = len(found), 0o755
        tar.addfile(entry, io.BytesIO(found))
    return made.getvalue()
