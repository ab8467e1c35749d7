"""What draining the machine would cost if it began now, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job of the machine: its cores, how long it has run, and how long it may still run and take to leave."""

    cpus: float
    ran_s: float
    retirement_left_s: float
    vacate_s: float


def expected_draining(jobs: Iterable[RunningJob], now: float) -> dict[str, int]:
    """ExpectedMachine...: gracefully every job uses its retirement, quickly none does; what it did then is lost."""
    graceful_lost = quick_lost = graceful_s = quick_s = 0.0
    for job in jobs:
        graceful_lost += job.cpus * (job.ran_s + job.retirement_left_s)
        quick_lost += job.cpus * job.ran_s
        graceful_s = max(graceful_s, job.retirement_left_s + job.vacate_s)
        quick_s = max(quick_s, job.vacate_s)
    return {
        "ExpectedMachineGracefulDrainingBadput": _whole(graceful_lost),
        "ExpectedMachineGracefulDrainingCompletion": _whole(now + graceful_s),
        "ExpectedMachineQuickDrainingBadput": _whole(quick_lost),
        "ExpectedMachineQuickDrainingCompletion": _whole(now + quick_s),
    }


class DrainingCost:
    """What draining has cost since the startd began: run time of jobs that had to go, and cores that nobody used."""

    def __init__(self) -> None:
        self._lost = self._unused = 0.0
        self._idle_cpus, self._looked_at = 0.0, 0.0

    def evicted(self, cpus: float, ran_s: float) -> None:
        """A job had to leave because the machine drains."""
        self._lost += cpus * ran_s

    def look(self, idle_cpus: float, now: float) -> None:
        """So many cores are free and closed to all at `now`, wall time; they were since the last look."""
        self._unused += min(self._idle_cpus, idle_cpus) * max(0.0, now - self._looked_at)
        self._idle_cpus, self._looked_at = idle_cpus, now

    def attributes(self) -> dict[str, int]:
        """In seconds of cores; nothing while the machine has never drained."""
        shown = {
            "TotalMachineDrainingBadput": _whole(self._lost),
            "TotalMachineDrainingUnclaimedTime": _whole(self._unused),
        }
        return {name: figure for name, figure in shown.items() if figure}


def _whole(seconds: float) -> int:
    return int(min(seconds, 2**53))
