"""Numbers of which each is one job's at a time: cpus, group ids. All starters of a machine share a directory.

A number is a file that its holder has locked, so a starter that dies gives back whatever it held.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Taken:
    """Numbers that are held."""

    numbers: tuple[int, ...]
    _files: tuple[int, ...]

    def give_back(self) -> None:
        """Let others have them."""
        for fd in self._files:
            os.close(fd)


def take(directory: str, numbers: Iterable[int], count: int) -> Taken | None:
    """Hold the first `count` of `numbers` that are free; None, and nothing is held, when there are not so many."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    found: list[int] = []
    files: list[int] = []
    for number in numbers:
        if len(found) == count:
            break
        fd = os.open(os.path.join(directory, str(number)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # The lock is the token, not the file: the kernel gives it back when its holder dies.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            continue
        found.append(number)
        files.append(fd)
    taken = Taken(tuple(found), tuple(files))
    if len(found) < count:
        taken.give_back()
        return None
    return taken
