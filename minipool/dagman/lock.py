"""The lock file of a graph: one condor_dagman at a time, and where an earlier one was when it left without ending.

Its first line is the cluster that holds it. The second says how far that run was: `starting` while the nodes' log may
be that of an earlier run, then `rescue N`, the number of the rescue file that it began from.
"""

from __future__ import annotations

import fcntl
import os
from typing import Final

STARTING: Final = "starting"


class Locked(Exception):
    """Another condor_dagman runs the graph; `own`: of this very job, from before the schedd was restarted."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own = own


class Lock:
    """The lock, held until the process ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        # Asked before it is made: that it is there already means that a run has not ended as it should.
        lines = _lines(path)
        self._said = lines[1] if len(lines) > 1 else ""
        self.was_there = bool(lines) and self._said != STARTING
        """A run has begun and not ended: the nodes' log is its."""
        number = self._said.removeprefix("rescue ")
        self.rescue = int(number) if number != self._said and number.isdigit() else None
        """The rescue file that it began from, where that is known; 0: none."""
        self._file = -1
        self._cluster = 0

    def take(self, cluster: int) -> None:
        """Hold it, and write whose it is."""
        self._cluster = cluster
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._file, 32).split()
            raise Locked(cluster > 0 and holder[:1] == [str(cluster).encode()]) from None
        # A run that does not get it reads whose it is, to tell itself from another graph.
        self._write(self._said if self.was_there else STARTING)

    def begun(self, rescue: int) -> None:
        """From now on the nodes' log is of the run that began with this rescue file (0: with none)."""
        self._write(f"rescue {rescue}")

    def _write(self, said: str) -> None:
        text = f"{self._cluster}\n{said}\n".encode()
        # In one piece, and shortened only then: a file that is empty would say that nothing has begun.
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))

    def remove(self) -> None:
        """The graph has ended: no recovery is needed."""
        os.unlink(self._path)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().split("\n")[:2] if os.path.getsize(path) else []
    except FileNotFoundError:
        return []
