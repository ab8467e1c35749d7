"""Events on their way from the queue into logs: who writes them, and what becomes of jobs whose logs cannot be written.

An event is delivered when it is durable with what it tells of. Users' logs are their file agents', EVENT_LOG the
schedd's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from daemons.schedd.core.core import Core
from daemons.schedd.core.writer import Touched
from daemons.schedd.files.agents import Agents
from pool.base.ids import JobId, is_number
from pool.jobs import holds
from pool.jobs.queue.job_queue import NOBODYS
from pool.jobs.queue.store import EventRow, WriteBatch
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.states import OVER, JobEvent, allowed


class Delivery:
    """Hands durable events to those who write them."""

    def __init__(self, core: Core, agents: Agents) -> None:
        self._core = core
        self._agents = agents

    def committed(self, batch: WriteBatch, touched: Touched) -> None:
        """A batch is durable: its events may be in logs now."""
        if batch.events:
            self.put(batch.events)

    def put(self, rows: Sequence[EventRow], *, check: bool = False) -> None:
        """Have durable events written to their logs; `check`: these may be there already."""
        self._agents.put([row for row in rows if row.owner != NOBODYS], check=check)
        self._core.global_log.put([row for row in rows if row.owner == NOBODYS], check=check)


class Outcomes:
    """What file agents say of events and of files."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def written(self, rows: list[EventRow]) -> None:
        """The logs have these."""
        self._core.queue.written(row.seq for row in rows)

    def failed(self, rows: list[EventRow], reason: str) -> None:
        """A job whose log cannot be written is put on hold, so that its owner hears of it."""
        core = self._core
        for row in rows:
            core.log.always(f"An event cannot be written to {row.log}: {reason}")
            for id in _jobs_of(row.text):
                job = core.queue.get(id)
                if job is None or job.status in OVER or not allowed(job.status, JobEvent.HOLD):
                    continue
                said = f"Failed to initialize user log to {row.log}: {reason}"
                ad = core.queue.ad(job)
                # Not `core.hold`, which writes an event: this log is what cannot be written.
                core.apply(job, holds.hold(ad, said, HoldCode.UNABLE_TO_INIT_USER_LOG, 0))
                execution = core.executions.of(job)
                if execution is not None:
                    execution.stop(said, HoldCode.UNABLE_TO_INIT_USER_LOG, 0)

    def cut_off(self, activations: list[str], reason: str) -> None:
        """A job whose files cannot move, for want of a file agent, is put on hold."""
        for activation in activations:
            shadow = self._core.executions.shadows.get(activation)
            if shadow is not None and allowed(shadow.job.status, JobEvent.HOLD):
                self._core.hold(shadow.job, reason, HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT)


def _jobs_of(text: str) -> set[JobId]:
    """The jobs that events speak of."""
    found = set()
    for line in text.splitlines():
        # Each event begins with its number and the job: `000 (012.000.000) ...`.
        head, _, rest = line.partition(" (")
        if len(head) == 3 and is_number(head):
            cluster, _, more = rest.partition(".")
            proc = more.partition(".")[0]
            if is_number(cluster) and is_number(proc):
                found.add(JobId(int(cluster), int(proc)))
    return found
