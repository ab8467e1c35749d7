"""Where the file agent of root may open files: only where root alone decides what a name leads to.

An agent has its user's rights, and root's would be everybody's: whoever may rename things in a directory could have
root follow a link to any file. So each directory on the way must be root's and closed to other writers; in one that all
may write to and nobody may tidy (such as /tmp) what is named must be root's, and a file have no second name. Then the
way cannot change after it was looked at. Other users' agents can open no more than they; nothing is asked there.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections import deque
from typing import Final

from daemons.base.linux import keep_capabilities, never_gain_privileges

LINKS_MAX: Final = 40
ROOT: Final = 0
FOR_ROOT: Final = "files of root's jobs are opened only where root alone decides"
AT_HOME: Final = "hidden files at home are those of the user's shell and programs"


class NotOpened(OSError):
    """The agent could open a file, and does not; `said` says why."""

    def __init__(self, number: int, path: str, said: str) -> None:
        self.said = said
        super().__init__(number, said, path)


class Untrusted(NotOpened):
    """Somebody else than root decides what a path leads to; `said` says where."""

    def __init__(self, path: str, said: str, why: str = FOR_ROOT) -> None:
        super().__init__(errno.EPERM, path, f"{said}; {why}")


def opened_by_root() -> bool:
    """Whether this is root's agent."""
    return os.geteuid() == ROOT


def give_up_powers() -> None:
    """Root's agent is no more than the owner of root's files: it has no capability, and gets none by a program."""
    if opened_by_root():
        keep_capabilities(())
        never_gain_privileges()


def real(path: str) -> str:
    """What to open for a path of the job's; Untrusted where root's agent would be led by somebody else."""
    return _resolved(path) if opened_by_root() else path


def _resolved(path: str) -> str:
    """The path without links, as far as it exists."""
    here, links = "/", 0
    waiting = deque(part for part in os.path.abspath(path).split("/") if part)
    while waiting:
        shared = _shared(here, path)
        at = os.path.join(here, waiting.popleft())
        try:
            found = os.lstat(at)
        except FileNotFoundError:
            if shared and waiting:
                raise Untrusted(path, f"{at} could be made by other accounts") from None
            return os.path.join(at, *waiting)
        if shared:
            _check_own(at, found, path)
        if not stat.S_ISLNK(found.st_mode):
            here = at
            continue
        links += 1
        if links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        # From "/" again: each directory on the link's way is judged like those before it.
        target = os.path.normpath(os.path.join(here, os.readlink(at)))
        waiting.extendleft(reversed([part for part in target.split("/") if part]))
        here = "/"
    return here


def _shared(directory: str, path: str) -> bool:
    """Whether other accounts may make names in a directory, but not take root's away; Untrusted when they may."""
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
    # A group of root's own may write where root may; any other group is other people.
    others = found.st_mode & (stat.S_IWOTH if found.st_gid == ROOT else stat.S_IWOTH | stat.S_IWGRP)
    if found.st_uid != ROOT or (others and not found.st_mode & stat.S_ISVTX):
        raise Untrusted(path, f"{directory} can be changed by other accounts")
    return bool(others)


def _check_own(at: str, found: os.stat_result, path: str) -> None:
    if found.st_uid != ROOT:
        raise Untrusted(path, f"{at} is another account's")
    # Anybody may make a second name for root's file in a sticky directory, and name that one.
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise Untrusted(path, f"{at} has several names")


def check_unnamed(place: str, since: float) -> None:
    """Untrusted when an output that the job's description does not name may not go where it would."""
    if opened_by_root():
        check_new(place, since)
    elif os.path.basename(place).startswith(".") and _is_home(os.path.dirname(place)):
        raise Untrusted(place, f"{place} is hidden, and transfer_output_files does not name it", AT_HOME)


def _is_home(directory: str) -> bool:
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
        return os.path.samefile(directory, home)
    except (KeyError, OSError):
        return False


def check_new(place: str, since: float) -> None:
    """Untrusted when an output that the job's description does not name is hidden, or replaces what is older."""
    if os.path.basename(place).startswith("."):
        raise Untrusted(place, f"{place} is hidden, and transfer_output_files does not name it")
    try:
        # The time of the inode's change cannot be set back by whoever owns the file; mtime can.
        older = os.lstat(place).st_ctime < since
    except FileNotFoundError:
        return
    if older:
        raise Untrusted(place, f"{place} was there before the job, and transfer_output_files does not name it")
