"""What an outcome says in numbers: waits, use of the pool over time, and each submitter's part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pool.simulate.engine import Outcome, Run

STEPS = 120
"""Parts of time whose use is shown."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds between submission and start."""

    mean: float
    p50: float
    p90: float
    max: float


@dataclass(frozen=True, slots=True)
class UserFigures:
    """One submitter: `used_s` is weight times seconds, `share` his part of all use."""

    submitter: str
    jobs: int
    used_s: float
    share: float
    waits: Waits
    starved_s: float
    never_started: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All of a run. `utilisation` is the mean part of the pool in use, `over_time` that of equal parts of the time.
    Left out: jobs that `never_ran` when they were recorded, and those `elsewhere`, which take no slot."""

    jobs: int
    never_started: int
    never_ran: int
    elsewhere: int
    began_at: float
    took_s: float
    cycles: int
    waits: Waits
    utilisation: float
    over_time: tuple[float, ...]
    users: tuple[UserFigures, ...]


def waits_of(runs: Iterable[Run]) -> Waits:
    """The mean, and the smallest wait that half, nine tenths or all of the runs did not exceed."""
    waits = sorted(run.wait_s for run in runs)
    if not waits:
        return Waits(0.0, 0.0, 0.0, 0.0)
    half, most = (waits[math.ceil(part * len(waits)) - 1] for part in (0.5, 0.9))
    return Waits(sum(waits) / len(waits), half, most, waits[-1])


def figures_of(outcome: Outcome) -> Figures:
    """The numbers of an outcome."""
    runs = outcome.runs
    began = min((one.submitted_at for one in (*(run.job for run in runs), *outcome.left)), default=0.0)
    took = max((run.ended_at for run in runs), default=began) - began
    used = sum(_used(run) for run in runs)
    return Figures(
        len(runs),
        len(outcome.left),
        outcome.never_ran,
        outcome.elsewhere,
        began,
        took,
        outcome.cycles,
        waits_of(runs),
        used / (took * outcome.size) if took and outcome.size else 0.0,
        _over_time(runs, began, took, outcome.size),
        _users(outcome, used),
    )


def _used(run: Run) -> float:
    return run.weight * (run.ended_at - run.started_at)


def _users(outcome: Outcome, used: float) -> tuple[UserFigures, ...]:
    by_user: dict[str, list[Run]] = {}
    left: dict[str, int] = {}
    for run in outcome.runs:
        by_user.setdefault(run.job.submitter, []).append(run)
    for job in outcome.left:
        left[job.submitter] = left.get(job.submitter, 0) + 1
    found = []
    for name in sorted({*by_user, *left}):
        runs = by_user.get(name, [])
        own = sum(_used(run) for run in runs)
        starved = outcome.starved.get(name, 0.0)
        share = own / used if used else 0.0
        found.append(UserFigures(name, len(runs), own, share, waits_of(runs), starved, left.get(name, 0)))
    return tuple(found)


def _over_time(runs: Sequence[Run], began: float, took: float, size: float) -> tuple[float, ...]:
    """The mean part of the pool in use, of each of STEPS equal parts of the time."""
    if took <= 0 or size <= 0:
        return ()
    # Each run's part of each step, and not samples: short jobs between two samples count.
    step, used = took / STEPS, [0.0] * STEPS
    for run in runs:
        first, last = run.started_at - began, run.ended_at - began
        for at in range(min(STEPS - 1, int(first / step)), min(STEPS - 1, int(last / step)) + 1):
            used[at] += run.weight * max(0.0, min(last, (at + 1) * step) - max(first, at * step))
    return tuple(one / (step * size) for one in used)
