"""Makes changes durable: one task takes all that changed in a moment and commits it as one transaction.

`durable` returns when everything that was changed before the call is on disk. What nobody waits for rides along with
what somebody does, and is committed LAZY_S after the queue's first change at the latest: the queue itself says when
that is. Its notes (which events are in their logs, which slots were given back, what running jobs use) make no commit
of their own while there are others, and one NOTES_S later where there are none. Commits are made in a thread, small
ones on a fast disk in place. When a commit fails the schedd ends: what is in memory is then ahead of the disk, and
only a restart can mend that. A schedd that is to end waits LAST_COMMIT_S for the commit that is under way; one that
hangs is left behind then, with an error: nobody was told that it is durable, and the next start finds it whole or not
at all.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.daemon_core.world import Threads
from pool.base.errors import PoolError
from pool.jobs.queue.cluster import Job
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.store import WriteBatch, checkpoint, commit, file_of, open_beside
from protocol.rpc.deadlines import LongWait

LAZY_S: Final = 0.02
NOTES_S: Final = 2.0
"""What a crash within it leaves behind is looked for in logs, asked of startds at the next start, or told again."""
IN_PLACE_MAX_S: Final = 0.002
"""Where a commit usually takes less, it runs on the loop: a thread and the way back cost as much again, and the loop is
held for a tenth of what it may be."""
IN_PLACE_ROWS_MAX: Final = 50
LAST_COMMIT_S: Final = 30.0
CHECKPOINT_COMMITS: Final = 200
"""Commits after which the log is copied into the database, in a thread."""

WORDS_TURNS: Final = 2
"""Turns of the loop after which what was just decided has been said."""

Touched = dict[Job, set[str] | None]
Committed = Callable[[WriteBatch, Touched], None]


class Writer:
    """The only one who writes to the queue's file."""

    def __init__(
        self,
        queue: JobQueue,
        connection: sqlite3.Connection,
        threads: Threads,
        clean_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._clean_s = clean_s
        self._queue = queue
        self._connection, self._file = connection, file_of(connection)
        self._threads = threads
        self._committed: list[Committed] = []
        self._taken = 0
        self._done = 0
        self._wanted = trio.Event()
        self._changed = trio.Event()
        """The queue has a change that is in no commit yet."""
        self._changed_at = 0.0
        self._noted = trio.Event()
        """The queue has notes that are in no commit yet."""
        self._turn = trio.Event()
        self._failed = False
        self._under_way = trio.CancelScope()
        self._usual_s: float | None = None
        self._since_checkpoint = 0
        self._full = trio.Event()
        self.commits = 0
        queue.on_change(self._note_change, lambda: self._noted.set())

    def on_commit(self, *callbacks: Committed) -> None:
        """Call back with each batch that has become durable, and with what changed of each job."""
        self._committed += callbacks

    async def durable(self) -> None:
        """Wait until all changes made so far are on disk."""
        await self._until_committed(more=self._queue.dirty)

    async def after_words(self) -> None:
        """Wait until what others are to hear is on its way, as a commit may hold the loop."""
        for _ in range(WORDS_TURNS):
            await trio.lowlevel.checkpoint()

    async def noted(self) -> None:
        """The same for what the queue was told and no promise hangs on, as that logs have their events."""
        await self._until_committed(more=self._queue.dirty or self._queue.has_notes)

    async def _until_committed(self, *, more: bool) -> None:
        target = self._taken
        if more:  # a commit that is under way has its changes already; these go with the next
            target += 1
            self._wanted.set()
        while self._done < target:
            await self._turn.wait()

    def _note_change(self) -> None:
        self._changed_at = trio.current_time()
        self._changed.set()

    async def run(self) -> None:
        """Commit whenever asked to, until cancelled; what is left then is committed last."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._limit_waiting)
                nursery.start_soon(self._limit_notes)
                nursery.start_soon(self._limit_last_commit)
                nursery.start_soon(self._checkpoint)
                while True:
                    await self._wanted.wait()
                    self._wanted = trio.Event()
                    await self._commit()
        finally:
            # What nobody was waiting for, such as usage, would else be lost at each ordinary end.
            if (self._queue.dirty or self._queue.has_notes) and not self._failed:
                batch, _ = self._queue.take()
                commit(self._connection, batch)

    async def _limit_waiting(self) -> None:
        """See to it that no change waits for long because nobody waits for it."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await trio.sleep_until(self._changed_at + LAZY_S)
            if self._queue.dirty and trio.current_time() >= self._changed_at + LAZY_S:
                self._wanted.set()  # else that change was committed, and a later one has its own time

    async def _limit_notes(self) -> None:
        """See to it that notes are kept where nothing else is: what comes after a crash shall be little."""
        while True:
            await self._noted.wait()
            self._noted = trio.Event()
            await trio.sleep(NOTES_S)
            if self._queue.has_notes:
                fault("schedd.before_notes_commit")
                await self.noted()
                fault("schedd.after_notes_commit")

    async def _limit_last_commit(self) -> None:
        """The commit that is under way when the writer is cancelled may go on for a while, and not for ever."""
        try:
            await trio.sleep_forever()
        finally:
            self._under_way.deadline = trio.current_time() + LAST_COMMIT_S

    async def _checkpoint(self) -> None:
        """Empty the write-ahead log now and then, over a connection of its own, so that no commit waits for it."""
        connection = await self._threads.run_sync(open_beside, self._file)
        try:
            while True:
                with LongWait(self._clean_s()):
                    await self._full.wait()
                self._full = trio.Event()
                await self._threads.run_sync(checkpoint, connection)
        finally:
            connection.close()

    async def _commit(self) -> None:
        batch, touched = self._queue.take()
        self._taken += 1
        # Until it has succeeded: whatever ends this in between leaves memory ahead of the disk.
        self._failed = True
        quick = self._usual_s is not None and self._usual_s < IN_PLACE_MAX_S
        if quick and len(batch.jobs) + len(batch.events) <= IN_PLACE_ROWS_MAX:
            took_s = _commit_timed(self._connection, batch)
        else:
            took_s = await self._commit_in_thread(batch)
        self._note_time(took_s)
        self._failed = False
        self._since_checkpoint += 1
        if self._since_checkpoint >= CHECKPOINT_COMMITS:
            self._since_checkpoint = 0
            self._full.set()
        self._done = self._taken
        self.commits += 1
        for callback in self._committed:
            callback(batch, touched)
        # After the callbacks: whoever wakes finds events on their way to their logs.
        turn, self._turn = self._turn, trio.Event()
        turn.set()

    async def _commit_in_thread(self, batch: WriteBatch) -> float:
        # Shielded: the batch has been taken out of the queue, so that giving up before its thread begins would lose it.
        with trio.CancelScope(shield=True) as self._under_way:
            return await self._threads.leave_behind(_commit_timed, self._connection, batch)
        raise PoolError(f"the disk of the job queue did not take the last changes within {LAST_COMMIT_S:g} s")

    def _note_time(self, took_s: float) -> None:
        """Keep what a commit usually takes; one that had to wait for a core says little about the disk."""
        took_s = min(took_s, 4 * IN_PLACE_MAX_S)
        self._usual_s = took_s if self._usual_s is None else self._usual_s + (took_s - self._usual_s) / 8


def _commit_timed(connection: sqlite3.Connection, batch: WriteBatch) -> float:
    """Commit; how long it took."""
    began = time.perf_counter()
    commit(connection, batch)
    return time.perf_counter() - began
