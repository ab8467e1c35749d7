"""Requests of the kernel's FUSE protocol, 7.31 and later, and the answers: bytes in, bytes out, and no device.

A request is a header and what belongs to its operation; names are bytes that end with a zero. An answer is a header,
and nothing else when it says no. Structures that are read from their fronts only are as long as this side needs them.

Source: Linux, include/uapi/linux/fuse.h and Documentation/filesystems/fuse.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final

from protocol.files.facts import Facts

MAJOR: Final = 7
MINOR: Final = 31
MINOR_LEAST: Final = 28
"""The first version that negotiates how many pages a request may have (Linux 4.20)."""
ROOT_ID: Final = 1
HEAD_BYTES_MAX: Final = 4096
"""Beyond the data of a write, a request is no longer than this."""


class Op(IntEnum):
    """What is asked; for any other operation the kernel is told that there is none (ENOSYS)."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    READDIRPLUS = 44
    RENAME2 = 45


class Init(IntFlag):
    """What both sides can do."""

    ASYNC_READ = 1 << 0
    BIG_WRITES = 1 << 5
    AUTO_INVAL_DATA = 1 << 12
    DO_READDIRPLUS = 1 << 13
    READDIRPLUS_AUTO = 1 << 14
    PARALLEL_DIROPS = 1 << 18
    MAX_PAGES = 1 << 22


WANTED: Final = (
    Init.ASYNC_READ
    | Init.BIG_WRITES
    | Init.AUTO_INVAL_DATA
    | Init.DO_READDIRPLUS
    | Init.READDIRPLUS_AUTO
    | Init.PARALLEL_DIROPS
    | Init.MAX_PAGES
)


class Change(IntFlag):
    """What a SETATTR sets."""

    MODE = 1 << 0
    UID = 1 << 1
    GID = 1 << 2
    SIZE = 1 << 3
    ATIME = 1 << 4
    MTIME = 1 << 5
    ATIME_NOW = 1 << 7
    MTIME_NOW = 1 << 8


KEEP_CACHE: Final = 1 << 1
"""Of an opened file: what the kernel has of its bytes is still true."""

_INVAL_INODE: Final = 2
_CHANGED: Final = Struct("=Qqq")
_IN: Final = Struct("=IIQQIIII")
_OUT: Final = Struct("=IiQ")
_ATTR: Final = Struct("=6Q10I")
_ENTRY: Final = Struct("=4Q2I")
_ATTR_OUT: Final = Struct("=QII")
_OPEN_OUT: Final = Struct("=QIi")
_WRITE_OUT: Final = Struct("=II")
_INIT_IN: Final = Struct("=4I")
_INIT_OUT: Final = Struct("=4IHHIIHH32x")
_STATFS: Final = Struct("=5Q4I24x")
_DIRENT: Final = Struct("=QQII")
OPEN_IN: Final = Struct("=II")
CREATE_IN: Final = Struct("=4I")
READ_IN: Final = Struct("=QQIIQII")
RELEASE_IN: Final = Struct("=QII")
FSYNC_IN: Final = Struct("=QII")
MODE_IN: Final = Struct("=4I")
MKDIR_IN: Final = Struct("=II")
RENAME_IN: Final = Struct("=Q")
RENAME2_IN: Final = Struct("=QII")
NUMBER_IN: Final = Struct("=Q")
GETATTR_IN: Final = Struct("=IIQ")
SETATTR_IN: Final = Struct("=II6Q8I")
ACCESS_IN: Final = Struct("=I")
_FORGOTTEN: Final = Struct("=QQ")
_COUNT: Final = Struct("=II")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: `body` is what belongs to its operation."""

    op: int
    unique: int
    node: int
    body: memoryview

    def fields(self, form: Struct) -> tuple[int, ...]:
        """The structure at its front."""
        return form.unpack_from(self.body)

    def names(self, form: Struct | None = None) -> list[str]:
        """The names behind the structure."""
        rest = bytes(self.body[form.size if form is not None else 0 :])
        return [name.decode("utf-8", "surrogateescape") for name in rest.split(b"\0")[:-1]]


BLOCK_BYTES: Final = 128 * 1024
"""How much programs are advised to read or write at once."""


def read_request(data: memoryview) -> Asked:
    """The request that came from the device, whole."""
    _length, op, unique, node, _uid, _gid, _pid, _ = _IN.unpack_from(data)
    return Asked(op, unique, node, data[_IN.size :])


def refusal(unique: int, number: int) -> bytes:
    """No, with the errno."""
    return _OUT.pack(_OUT.size, -number, unique)


def header(unique: int, size: int) -> bytes:
    """What stands before an answer's `size` bytes."""
    return _OUT.pack(_OUT.size + size, 0, unique)


def changed(node: int) -> bytes:
    """Said without being asked: what the kernel has of a file's attributes is not true any more."""
    return _OUT.pack(_OUT.size + _CHANGED.size, _INVAL_INODE, 0) + _CHANGED.pack(node, -1, 0)


class TooOld(Exception):
    """The kernel speaks an older protocol."""


def init(asked: Asked, *, write_bytes_max: int, read_bytes_max: int, read_ahead: int, page_bytes: int) -> bytes:
    """What both sides go by; TooOld for a kernel that cannot. It reads no further ahead than the mount's own bound.

    The kernel counts what it reads at a time in pages of its own: 4 KiB on x86-64, up to 64 KiB on aarch64.
    """
    major, minor, _, flags = asked.fields(_INIT_IN)
    if (major, minor) < (MAJOR, MINOR_LEAST):
        raise TooOld(f"the kernel speaks version {major}.{minor} of FUSE, and 7.{MINOR_LEAST} is needed")
    background = 16
    return _INIT_OUT.pack(
        MAJOR,
        MINOR,
        read_ahead,
        flags & WANTED,
        background,
        background,
        write_bytes_max,
        1,
        read_bytes_max // page_bytes,
        0,
    )


def _seconds(ns: int) -> tuple[int, int]:
    whole, rest = divmod(ns, 1_000_000_000)
    return whole & 0xFFFFFFFFFFFFFFFF, rest


def _attributes(of: Facts) -> bytes:
    (atime, atime_ns), (mtime, mtime_ns), (ctime, ctime_ns) = map(_seconds, (of.atime, of.mtime, of.ctime))
    return _ATTR.pack(
        of.inode, of.size, of.blocks, atime, mtime, ctime, atime_ns, mtime_ns, ctime_ns,
        of.mode, of.links, of.uid, of.gid, 0, BLOCK_BYTES, 0,
    )  # fmt: skip


def entry(node: int, of: Facts, valid_ns: int) -> bytes:
    """A name's file, and for how long that is true."""
    seconds, rest = _seconds(valid_ns)
    return _ENTRY.pack(node, 0, seconds, seconds, rest, rest) + _attributes(of)


def attributes(of: Facts, valid_ns: int) -> bytes:
    """A file's attributes, and for how long they are true."""
    return _ATTR_OUT.pack(*_seconds(valid_ns), 0) + _attributes(of)


def opened(handle: int, flags: int = 0) -> bytes:
    """A file that is open."""
    return _OPEN_OUT.pack(handle, flags, 0)


def written(size: int) -> bytes:
    """So much was written."""
    return _WRITE_OUT.pack(size, 0)


def file_system(block: int, blocks: int, free: int, available: int, files: int, files_free: int) -> bytes:
    """How full it is."""
    return _STATFS.pack(blocks, free, available, files, files_free, block, 255, block, 0)


def dirent(inode: int, at: int, mode: int, name: bytes) -> bytes:
    """A directory's entry; `at`: where the next one is."""
    packed = _DIRENT.pack(inode, at, len(name), stat.S_IFMT(mode) >> 12) + name
    return packed + bytes(-len(packed) % 8)


def forgotten(asked: Asked) -> Iterable[tuple[int, int]]:
    """The nodes that the kernel forgets, and how many of its lookups of each."""
    if asked.op == Op.FORGET:
        return [(asked.node, asked.fields(NUMBER_IN)[0])]
    count, _ = asked.fields(_COUNT)
    rest = asked.body[_COUNT.size : _COUNT.size + count * _FORGOTTEN.size]
    return [(node, lookups) for node, lookups in _FORGOTTEN.iter_unpack(rest)]
