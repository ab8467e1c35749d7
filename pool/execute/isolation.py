"""What of its machine a job sees otherwise than others do: its own directories, no other jobs' sandboxes or processes.

Mounts belong to a namespace that ends with the job's last process, so none of this is ever cleaned up.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pool.base.errors import ClassAdError, ConfigError, UserError
from pool.base.paths import is_below
from pool.base.words import split_list
from pool.classad import ClassAd, expr

MOUNTS: Final = "mounts"
PIDS: Final = "pids"
HOMES: Final = "homes"
NETWORK: Final = "network"
"""What a machine may refuse: the three kinds of namespaces, and file systems that a process serves."""


@dataclass(frozen=True)
class HomeMount:
    """A directory of the access point, for a job: where it is seen, the device by which it is served, and for whom."""

    path: str
    device: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Isolation:
    """What a job's own namespaces hold.

    `private`: directories of the machine in whose place the job finds directories of its sandbox. `execute`: the
    directory of all sandboxes, of which the job sees only its own; empty: it sees them. `shared_memory`: it has a
    /dev/shm of its own. `processes`: it sees and reaches its own processes only. `hidden`: files of the machine in
    whose place it finds /dev/null. `homes`: directories of the access point (want_remote_io). `place`: where it finds
    its sandbox besides, so that it can go on elsewhere (want_checkpoint). `offline`: its only network is a loopback of
    its own.
    """

    sandbox: str = ""
    private: tuple[str, ...] = ()
    execute: str = ""
    shared_memory: bool = False
    processes: bool = False
    hidden: tuple[str, ...] = ()
    homes: tuple[HomeMount, ...] = ()
    place: str = ""
    offline: bool = False

    @property
    def wanted(self) -> bool:
        """Whether there is anything to do."""
        mounts = self.private or self.execute or self.shared_memory or self.hidden or self.homes or self.place
        return bool(mounts or self.processes or self.offline)

    def behind(self, directory: str) -> str:
        """Where a private directory really is: `/var/tmp` is `var/tmp` in the sandbox."""
        return posixpath.join(self.sandbox, directory.lstrip("/"))


SEES_ALL: Final = Isolation()


def private_directories(expression: str, job: ClassAd, slot: ClassAd) -> list[str]:
    """What MOUNT_UNDER_SCRATCH says for this job in this slot; ConfigError when that is no list of directories."""
    text = expression.strip()
    if not text:
        return []
    try:
        value: object = expr(text).eval(job, slot)
    except ClassAdError:
        value = text if text.startswith("/") else None  # bare directories, as older configurations have them
    if not isinstance(value, str):
        raise ConfigError(
            f"MOUNT_UNDER_SCRATCH = {expression} does not evaluate to a string",
            expected='directories between quotes, such as "/tmp,/var/tmp"',
        )
    words = split_list(value)
    for word in words:
        if not word.startswith("/"):
            raise ConfigError(f"MOUNT_UNDER_SCRATCH names {word!r}", expected="absolute paths")
    return [posixpath.normpath(word) for word in words]


def private_in_image(expression: str, job: ClassAd, slot: ClassAd) -> list[str]:
    """The same for a job in an image, which may want further ones: UserError when these are no directories."""
    wanted = private_directories(expression, job, slot)
    own = split_list(job.eval_str("MountUnderScratch"))
    for path in own:
        if not path.startswith("/") or ":" in path:
            raise UserError(f"mount_under_scratch names {path}", expected="absolute paths")
    return list(dict.fromkeys([*wanted, *(posixpath.normpath(path) for path in own)]))


def isolation_of(
    sandbox: str,
    *,
    execute: str,
    wanted: Iterable[str],
    used: Iterable[str],
    shared_memory: bool = False,
    processes: bool = False,
    hidden: tuple[str, ...] = (),
) -> tuple[Isolation, list[str]]:
    """How a job is kept apart, and the directories that have to stay as they are, since what it uses is in them.

    `used`: the job's own directory, program and files, where these are not in the sandbox.
    """
    outside = [path for path in used if not is_below(path, sandbox)]
    needed = [*outside, sandbox]
    private: list[str] = []
    left: list[str] = []
    for directory in dict.fromkeys(wanted):
        (left if any(is_below(path, directory) for path in needed) else private).append(directory)
    hides = not any(is_below(path, execute) for path in outside)
    return Isolation(sandbox, tuple(private), execute if hides else "", shared_memory, processes, hidden), left
