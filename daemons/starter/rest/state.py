"""What a starter leaves behind when it rests: all that another one needs to go on with the running job.

A job that only runs needs no starter, but somebody who waits for its end (`keeper.py`). Whether it only runs is a
table, `NEEDS`: what a job has that somebody has to do something for while it runs. A job with any of these keeps its
starter.

That starters rest is this pool's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pool.classad import ClassAd
from pool.files.transfer import Stamp
from protocol.messages.shadow import JobExecuting
from protocol.messages.starter import RunJob
from protocol.wire import codec
from protocol.wire.kinds import decode, encode
from protocol.wire.message import Record


class Rest(Record):
    """One job that runs while its starter rests."""

    request: RunJob
    job: ClassAd
    """As it was started."""
    settings: bytes
    """The starter's, with its slot; see `Birthright.pack`."""
    executing: JobExecuting
    pid: int
    """Its first process."""
    memory_limit: int = 0
    group_before: list[int] = []
    of_devices: ClassAd
    moved: ClassAd
    delayed: dict[str, str] = {}
    """What it has set by chirp, to be told with the next report."""
    stamps: dict[str, list[int]] | None = None
    """What of its sandbox is no output as long as it stays as it is; None where no files move."""
    chirp_cookie: str = ""
    chirp_at: list[str] = []
    """The addresses at which it is listened to; the sockets go with this."""

    def pack(self) -> bytes:
        """To be handed on."""
        return codec.pack(encode(self))

    @classmethod
    def unpack(cls, data: bytes) -> Rest:
        """What `pack` has made."""
        return decode(cls, codec.unpack(data))

    def before(self) -> dict[str, Stamp]:
        """The files of the sandbox that are no output as they are."""
        return {name: Stamp(*stamp) for name, stamp in (self.stamps or {}).items()}


def kept_stamps(before: Mapping[str, Stamp]) -> dict[str, list[int]]:
    """To be kept."""
    return {name: [stamp.mtime_ns, stamp.size, stamp.inode] for name, stamp in before.items()}


@dataclass(frozen=True)
class Course:
    """How one job runs, as far as it matters here."""

    has_schedd: bool
    in_container: bool
    has_hooks: bool
    streams: bool
    from_checkpoint: bool
    in_pid_namespace: bool
    disk_is_enforced: bool
    devices: bool
    borrows: bool
    is_node: bool
    has_remote_io: bool
    is_interactive: bool
    is_virtual_machine: bool


NEEDS: Final[Mapping[str, Callable[[Course], bool]]] = {
    "it was fetched by the machine itself, and no schedd would wake its starter": lambda one: not one.has_schedd,
    "its container's engine is waited for": lambda one: one.in_container,
    "hooks run for it": lambda one: one.has_hooks,
    "its output or input is streamed": lambda one: one.streams,
    "it goes on from a checkpoint, whose files are output": lambda one: one.from_checkpoint,
    "its pid namespace ends with its starter": lambda one: one.in_pid_namespace,
    "its sandbox is held to a size": lambda one: one.disk_is_enforced,
    "its devices are watched": lambda one: one.devices,
    "cpus or a group id are lent to it": lambda one: one.borrows,
    "nodes of one job run commands on each other": lambda one: one.is_node,
    "its files are those of its home": lambda one: one.has_remote_io,
    "somebody works in it": lambda one: one.is_interactive,
    "its virtual machine is spoken to": lambda one: one.is_virtual_machine,
}
"""What a job may have that its starter has to be there for."""


def needs(course: Course) -> str:
    """Why this job's starter may not rest; empty when it may."""
    return next((need for need, has in NEEDS.items() if has(course)), "")
