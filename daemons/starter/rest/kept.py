"""What a starter and its keeper hand each other, each time one of them leaves the job to the other.

The job's whole state (`state.py`) goes from one starter to the next in a file without a name that the keeper holds and
never reads: decoding it would cost the keeper the memory that it is there to save. What the keeper needs to look at the
job itself is `Look`, plain values.
"""

from __future__ import annotations

import array
import os
import socket
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

import msgpack

from daemons.host.processes import Ended
from pool.execute.usage import DiskTraffic, JobUsage

RESTS: Final = 77
"""The exit status of a starter that has left its job to its keeper."""
WORD_BYTES_MAX: Final = 64 * 1024
DESCRIPTORS_MAX: Final = 8
NOTHING: Final = Ended()


class Used(NamedTuple):
    """What the job has used so far, as plain values; see `JobUsage`."""

    image: int
    resident: int
    user_s: float
    system_s: float
    disk: int
    disk_now: int
    files: int
    processes: int
    read: int
    written: int
    reads: int | None
    writes: int | None

    @classmethod
    def of(cls, usage: JobUsage) -> Used:
        """From what a starter, or a keeper, has seen."""
        sizes = usage.image, usage.resident, usage.user_s, usage.system_s, usage.disk, usage.disk_now
        traffic = usage.traffic
        counts = usage.files, usage.processes, traffic.read, traffic.written, traffic.reads, traffic.writes
        return cls(*sizes, *counts)

    def usage(self) -> JobUsage:
        """To be gone on with."""
        traffic = DiskTraffic(self.read, self.written, self.reads, self.writes)
        return JobUsage(*self[:8], processes_seen=True, traffic=traffic)


class Look(NamedTuple):
    """How a keeper looks at its job, and how often. Pauses in seconds; 0: never."""

    activation: str
    pid: int
    ended: int | None
    """Its first process has ended already, with this status."""
    sandbox: str
    tree_version: int
    tree_mounts: list[list[str]]
    group: str
    counts_cache: bool
    group_before: list[int]
    memory_limit: int
    reserved_disk_mb: int
    see_s: float
    tell_s: float
    memory_poll_s: float
    disk_s: float
    used: list[Any]
    """See `Used`."""
    collected: list[float]
    """What processes have used that the starter has collected; see `Ended`."""
    extra: bytes
    """What else goes with each report, packed: the attributes that the job has set."""


@dataclass
class Kept:
    """A starter's side: whom it belongs to, and the job that it wakes for."""

    keeper: int
    line: socket.socket
    state: int = -1
    """The descriptor of the job's state; -1 where there is no job yet."""
    used: list[Any] = field(default_factory=list)
    ended: dict[int, int] = field(default_factory=dict)
    collected: Ended = NOTHING
    listeners: list[int] = field(default_factory=list)
    is_orphan: bool = False
    """Its startd is gone."""
    is_to_leave: bool = False
    """It was told to end while it rested."""

    def read_state(self) -> bytes:
        """What the starter before has left; once."""
        with open(self.state, "rb") as file:
            file.seek(0)
            return file.read()

    def rest_now(self, state: bytes, look: Look, listeners: list[int]) -> NoReturn:
        """Leave the job to the keeper. Nothing may be awaited between the last look at the job and this."""
        fd = os.memfd_create("job", os.MFD_CLOEXEC)
        with open(fd, "wb", closefd=False) as file:
            file.write(state)
        say(self.line, {"rests": look}, fd, *listeners)
        os._exit(RESTS)


def say(to: socket.socket, word: dict[str, Any], *descriptors: int) -> None:
    """One word of a line between starter, keeper and startd; OSError when nobody is there."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    to.sendmsg([packed(word)], rights)


def hear(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next word, and its descriptors; an empty one when nobody is there."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(line, WORD_BYTES_MAX, DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return {}, []
    return (unpacked(packet) if packet else {}), list(descriptors)


def packed(word: dict[str, Any]) -> bytes:
    """The packet of a word."""
    return bytes(msgpack.packb(word, unicode_errors="surrogateescape"))


def unpacked(packet: bytes) -> dict[str, Any]:
    """The word in a packet."""
    word: dict[str, Any] = msgpack.unpackb(packet, strict_map_key=False, unicode_errors="surrogateescape")
    return word
