"""When a cron job runs next: a function of its mode and of what it has done so far. Times are monotonic seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pool.cron_jobs.jobs import CronJob, CronMode

NEVER: Final = math.inf
SHORTEST_S: Final = 1.0
"""Between the starts of a job that is to run all the time, and does not."""
_ROUNDING: Final = 1e-9


@dataclass
class Runs:
    """What a job has done so far."""

    started_at: float | None = None
    ended_at: float | None = None
    due_at: float | None = None
    """Set when it shall run out of turn: at a reconfiguration, or on demand."""

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.started_at is not None and self.ended_at is None


def next_start(job: CronJob, runs: Runs) -> float:
    """When the job is to be started next; NEVER: not by itself, or not before it ends and may not be killed."""
    if runs.running and (not job.kills or job.mode is CronMode.WAIT_FOR_EXIT):
        return NEVER
    if runs.due_at is not None:
        return runs.due_at
    if job.mode is CronMode.ON_DEMAND:
        return NEVER
    if runs.started_at is None:
        return -math.inf
    if job.mode is CronMode.PERIODIC:
        missed = (runs.ended_at - runs.started_at) // job.period_s if runs.ended_at is not None else 0
        return runs.started_at + (1 + missed) * job.period_s
    if job.mode is CronMode.WAIT_FOR_EXIT and runs.ended_at is not None:
        return max(runs.ended_at + job.period_s, runs.started_at + SHORTEST_S)
    return NEVER


def has_room(job: CronJob, load: float, max_load: float) -> bool:
    """Whether the job may join those that make `load` together."""
    return load + job.load <= max_load + _ROUNDING
