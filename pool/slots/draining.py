"""What draining the machine would cost if it began now: lost run time, and when it would be over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Running:
    """A job of the machine: its cores, how long it has run, and how long it may still run and take to leave."""

    cpus: float
    ran_s: float
    retirement_left_s: float
    vacate_s: float


def expected_draining(jobs: Iterable[Running], now: float) -> dict[str, int]:
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


def _whole(seconds: float) -> int:
    return int(min(seconds, 2**53))
