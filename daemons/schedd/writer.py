"""Makes changes durable: one task takes all that changed in a moment and commits it as one transaction.

`durable` returns when everything that was changed before the call is on disk. `soon` asks for the same without waiting,
within LAZY_S, so that what nobody waits for rides along with what somebody does. When a commit fails the schedd ends:
what is in memory is then ahead of the disk, and only a restart can mend that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

import trio

from daemons.world import Threads
from pool.jobs.job_queue import Job, JobQueue
from pool.jobs.store import Batch, commit

LAZY_S: Final = 0.02

Touched = dict[Job, set[str] | None]
Committed = Callable[[Batch, Touched], None]


class Writer:
    """The only one who writes to the queue's file."""

    def __init__(self, queue: JobQueue, connection: sqlite3.Connection, threads: Threads) -> None:
        self._queue = queue
        self._connection = connection
        self._threads = threads
        self._committed: list[Committed] = []
        self._taken = 0
        self._done = 0
        self._wanted = trio.Event()
        self._lazy = trio.Event()
        self._turn = trio.Event()
        self._failed = False
        self.commits = 0

    def on_commit(self, callback: Committed) -> None:
        """Call back with each batch that has become durable, and with what changed of each job."""
        self._committed.append(callback)

    async def durable(self) -> None:
        """Wait until all changes made so far are on disk."""
        if self._queue.dirty:
            target = self._taken + 1
            self._wanted.set()
        else:
            target = self._taken
        while self._done < target:
            await self._turn.wait()

    def soon(self) -> None:
        """Make all changes so far durable in a moment."""
        self._lazy.set()

    async def run(self) -> None:
        """Commit whenever asked to, until cancelled; what is left then is committed last."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hurry_lazy)
                while True:
                    await self._wanted.wait()
                    self._wanted = trio.Event()
                    await self._commit()
        finally:
            if self._queue.dirty and not self._failed:
                batch, _ = self._queue.take()
                commit(self._connection, batch)

    async def _hurry_lazy(self) -> None:
        while True:
            await self._lazy.wait()
            await trio.sleep(LAZY_S)
            self._lazy = trio.Event()
            if self._queue.dirty:
                self._wanted.set()

    async def _commit(self) -> None:
        batch, touched = self._queue.take()
        self._taken += 1
        self._failed = True
        with trio.CancelScope(shield=True):
            await self._threads.run_sync(commit, self._connection, batch)
        self._failed = False
        self._done = self._taken
        self.commits += 1
        for callback in self._committed:
            callback(batch, touched)
        turn, self._turn = self._turn, trio.Event()
        turn.set()
