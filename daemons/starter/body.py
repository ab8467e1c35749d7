"""What a job's program is to its starter: something that is signalled, stood still, looked at, and ended whole.

Two kinds: processes of this machine below the starter, here; and a container, which an engine keeps (`container.py`).
"""

from __future__ import annotations

import os
from typing import Protocol

import trio

from daemons.starter import tree
from daemons.starter.cgroup import Group
from daemons.starter.processes import Processes, Watched
from pool.classad import ClassAd
from pool.execute.exit import Exited, exited
from pool.execute.usage import Sample


class Body(Protocol):
    """A job's running program."""

    watched: Watched
    """The starter's child whose end is the program's."""

    def signal(self, number: int) -> None:
        """Send the program a signal."""

    def suspend(self) -> None:
        """Let all of it stand still."""

    def resume(self) -> None:
        """Let it go on."""

    def sample(self) -> Sample:
        """What it uses now."""

    def told(self) -> ClassAd:
        """What else its job's ad is to say of it."""

    async def attend(self) -> None:
        """Whatever has to go on while it runs; cancelled when it has ended."""

    async def end(self) -> None:
        """End all of it for good."""

    async def outcome(self) -> Exited:
        """How it ended, once all of it has; Held or PoolError where that is not an end of the job."""


class BareBody:
    """Processes below the starter."""

    def __init__(self, watched: Watched, processes: Processes, group: Group) -> None:
        self.watched = watched
        self._processes, self._group = processes, group

    def signal(self, number: int) -> None:
        """To the first process."""
        try:
            os.kill(self.watched.pid, number)
        except ProcessLookupError:
            pass

    def suspend(self) -> None:
        """All processes, wherever they hide."""
        self._processes.suspend(self._group)

    def resume(self) -> None:
        """All processes."""
        self._processes.resume(self._group)

    def sample(self) -> Sample:
        """By processes and control group."""
        return self._processes.sample(self._group)

    def memory(self, limit: int) -> int:
        """How many bytes of memory it has; see `tree.memory`."""
        return tree.memory(self._processes.living(), limit)

    def told(self) -> ClassAd:
        """Nothing."""
        return ClassAd()

    async def attend(self) -> None:
        """Nothing."""
        await trio.sleep_forever()

    async def end(self) -> None:
        """Returns when no process is left."""
        await self._processes.end_all(self._group)

    async def outcome(self) -> Exited:
        """By the wait status."""
        return exited(self.watched.status)
