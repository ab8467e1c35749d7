"""The ways into a claim's control group, and the way back to where this process lives.

A job is born inside its group: either the forked child enters before it executes the program, or this process is inside
for the moment in which it makes the child. The way back is found once, and looked at before it is used; where it cannot
be found, nobody visits.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daemons.host.mounts import mount_lines
from pool.execute.cgroup import Trees, own_groups

_LOST: Final = 71
"""The exit status of a starter that cannot leave its job's group: it must not be killed as one of the job's."""


class Doors:
    """Descriptors of member files, open for all jobs of a claim."""

    def __init__(self, trees: Trees, paths: Sequence[str]) -> None:
        self._trees, self._paths = trees, tuple(paths)
        # One thread of version 1 moves without stopping all forks of the machine, and who enters has only one.
        self._file = "tasks" if trees.version == 1 else "cgroup.procs"
        self._in: list[int] = []
        self._out: list[int] | None = None

    def entrances(self) -> list[int]:
        """To which a process writes `0` to enter."""
        if not self._in:
            self._in = _open_all([os.path.join(path, self._file) for path in self._paths])
        return self._in

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This process is a member inside the `with`, in which nothing may be awaited; OSError when that cannot be."""
        entrances, exits = self.entrances(), self._exits()
        try:
            _write_all(entrances)
            yield
        finally:
            try:
                _write_all(exits)
            except OSError:
                # In the job's group this process would be frozen and killed as one of the job's.
                os._exit(_LOST)

    def _exits(self) -> list[int]:
        if self._out is None:
            self._out = self._find_way_back()
        if not self._out:
            raise OSError(errno.ENOENT, "the way back is not known")
        return self._out

    def _find_way_back(self) -> list[int]:
        """The member files of the groups that this process is in; none when one of them is not to be found."""
        try:
            membership = Path("/proc/self/cgroup").read_text().splitlines()
            files = [os.path.join(path, self._file) for path in own_groups(self._trees, mount_lines(), membership)]
            me = str(os.getpid())
            # Looked at before it is needed: a way back that does not lead here must not be found out inside.
            if all(me in Path(file).read_text().split() for file in files):
                return _open_all(files)
        except OSError:
            pass
        return []

    def close(self) -> None:
        """Close them all; they are opened again when they are wanted."""
        for fd in (*self._in, *(self._out or ())):
            os.close(fd)
        self._in, self._out = [], None


def _open_all(files: Sequence[str]) -> list[int]:
    opened: list[int] = []
    try:
        for file in files:
            opened.append(os.open(file, os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return opened


def _write_all(files: Sequence[int]) -> None:
    for fd in files:
        os.write(fd, b"0")
