"""What an access point tells of one of a user's files to a starter that shows it to the job, as bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

_FACTS: Final = Struct("<IIqqQQqqqQ")
_NAME: Final = Struct("<H")
OWN: Final = -1
"""In place of the user's own id, which another machine may give to somebody else."""

KEPT: Final = -(1 << 62)
"""A number that stays as it is, where some of a file's facts are set."""
NOW: Final = KEPT + 1
"""The time when it is set."""


class Facts(NamedTuple):
    """One file's; times in nanoseconds."""

    mode: int
    links: int
    uid: int
    gid: int
    size: int
    blocks: int
    atime: int
    mtime: int
    ctime: int
    inode: int

    def pack(self) -> bytes:
        """As bytes."""
        return _FACTS.pack(*self)


def facts_of(status: os.stat_result, uid: int, gid: int) -> Facts:
    """The facts, for a user with these ids."""
    return Facts(
        status.st_mode,
        status.st_nlink,
        OWN if status.st_uid == uid else status.st_uid,
        OWN if status.st_gid == gid else status.st_gid,
        status.st_size,
        status.st_blocks,
        status.st_atime_ns,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def read_facts(data: bytes) -> Facts:
    """The facts that were packed; ValueError when they are anything else."""
    return read_opened(data)[0]


def read_opened(data: bytes) -> tuple[Facts, bytes]:
    """The facts of a file, and the bytes behind them."""
    if len(data) < _FACTS.size:
        raise ValueError("these are no facts of a file")
    return Facts._make(_FACTS.unpack_from(data)), data[_FACTS.size :]


def pack_entry(name: bytes, facts: Facts) -> bytes:
    """One entry of a directory."""
    return _NAME.pack(len(name)) + name + facts.pack()


def read_entries(data: bytes) -> Iterator[tuple[bytes, Facts]]:
    """The entries of a directory, one by one as they are taken; struct.error when they are anything else."""
    at = 0
    while at < len(data):
        (length,) = _NAME.unpack_from(data, at)
        at += _NAME.size
        name = data[at : at + length]
        at += length
        yield name, Facts._make(_FACTS.unpack_from(data, at))
        at += _FACTS.size
