"""The few calls of Linux that Python's library does not have."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def become_subreaper() -> None:
    """From now on, descendants whose parent dies become children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Be sent `signum` when the parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signum)


def children_of(pid: int) -> list[int]:
    """The direct children of a process; none when it is gone."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found


def zombie_children() -> set[int]:
    """Children of this process that have ended and wait to be collected."""
    zombies: set[int] = set()
    for pid in children_of(os.getpid()):
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        if stat.rpartition(b") ")[2][:1] == b"Z":
            zombies.add(pid)
    return zombies


def reap(pid: int) -> None:
    """Collect a child that has ended, if nobody else has."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
