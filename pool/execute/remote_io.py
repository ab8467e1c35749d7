"""Files that stay at the access point while their job runs elsewhere (want_remote_io): which, and where it finds them.

The job's directory, and the one of remote_initialdir where that is another, are mounted for the job at the paths that
they have at home; it works with them there, and no file moves beforehand or afterwards. `want_remote_io` is a command
of our own. `remote_initialdir` is HTCondor's: where the job starts, on the machine that runs it.
"""

from __future__ import annotations

import posixpath
from typing import Final

from pool.base.paths import is_below
from pool.classad import ClassAd

WANTED: Final = "WantRemoteIO"
ABILITY: Final = "HasRemoteIO"
"""What a machine's ad says where jobs can have this."""

_SYSTEM: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
)  # fmt: skip
"""What a program needs of the machine that it runs on."""


def wants_remote_io(job: ClassAd) -> bool:
    """Whether the job asked for it."""
    return job.eval_bool(WANTED, False) is True


def trees(job: ClassAd) -> list[str]:
    """The directories at the access point that the job has, none within another."""
    home = posixpath.normpath(job.eval_str("Iwd") or "/")
    remote = job.eval_str("RemoteIwd")
    if not remote:
        return [home]
    start = posixpath.normpath(posixpath.join(home, remote))
    if is_below(start, home):
        return [home]
    return [start] if is_below(home, start) else [home, start]


def objection(path: str, sandboxes: str) -> str:
    """Why no directory can be mounted there for a job, in words; empty when it can."""
    if not path.startswith("/"):
        return f"{path} is not an absolute path"
    if is_below(sandboxes, path):
        return f"{path} holds the directories in which jobs run"
    if path == "/" or any(is_below(path, system) for system in _SYSTEM):
        return f"{path} belongs to the machine that runs the job"
    return ""


def in_trees(path: str, job: ClassAd) -> bool:
    """Whether a path leads into what the job has of the access point."""
    return wants_remote_io(job) and any(is_below(path, tree) for tree in trees(job))
