"""The lock file of a graph: one condor_dagman at a time, and whether an earlier one left without ending it."""

from __future__ import annotations

import fcntl
import os


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
        self.was_there = os.path.exists(path)
        self._file = -1

    def take(self, cluster: int) -> None:
        """Hold it, and write whose it is."""
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._file, 32).split()
            raise Locked(cluster > 0 and holder[:1] == [str(cluster).encode()]) from None
        # A run that does not get it reads whose it is, to tell itself from another graph.
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{cluster}\n".encode(), 0)

    def remove(self) -> None:
        """The graph has ended: no recovery is needed."""
        os.unlink(self._path)
