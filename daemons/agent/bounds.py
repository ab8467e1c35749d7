"""The directories within which the file agent opens what a job names (LIMIT_DIRECTORY_ACCESS)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from daemons.agent.trusted_path import NotOpened, real
from pool.classad import ClassAd
from pool.jobs.limit_directories import is_within
from protocol.rpc.endpoints import Peer


class OutOfBounds(NotOpened):
    """A path leads to where the job's files may not be."""

    def __init__(self, path: str) -> None:
        said = f"{path} is in none of the directories of LIMIT_DIRECTORY_ACCESS"
        super().__init__(errno.EACCES, path, said)


class DirectoryBounds:
    """What one job's paths may lead to; no directories: anything."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = [one if "*" in one else os.path.realpath(one) for one in directories]

    def real(self, path: str) -> str:
        """What to open for a path of the job's; NotOpened where it may not be opened. Blocks while there are bounds."""
        found = real(path)
        if not self._directories:
            return found
        # Links are followed before the comparison: a link inside the bounds may lead out of them.
        found = os.path.realpath(found)
        if not is_within(found, self._directories):
            raise OutOfBounds(path)
        return found

    def check(self, path: str) -> str:
        """The path itself, whatever link it is; NotOpened where it may not be opened."""
        if self._directories:
            self.real(path)
        return path


JobOf = Callable[[Peer, str], tuple[ClassAd, DirectoryBounds]]
"""The job of an activation, and its bounds, for a peer that has its ticket."""
