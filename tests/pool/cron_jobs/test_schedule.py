"""When cron jobs run."""

from __future__ import annotations

import math

import pytest

from pool.cron_jobs.jobs import CronJob, CronMode
from pool.cron_jobs.schedule import NEVER, Runs, has_room, next_start


def job(mode: CronMode, period_s: int = 0, *, kills: bool = False, load: float = 0.01) -> CronJob:
    return CronJob("j", "/bin/j", mode, period_s, kills=kills, load=load)


P, W, ONCE, D = CronMode.PERIODIC, CronMode.WAIT_FOR_EXIT, CronMode.ONE_SHOT, CronMode.ON_DEMAND


@pytest.mark.parametrize(
    ("what", "runs", "expected"),
    [
        (job(P, 60), Runs(), -math.inf),
        (job(W, 60), Runs(), -math.inf),
        (job(ONCE), Runs(), -math.inf),
        (job(D), Runs(), NEVER),
        (job(D), Runs(due_at=5.0), 5.0),
        (job(P, 60), Runs(100.0, 101.0), 160.0),
        (job(P, 60), Runs(100.0), NEVER),
        (job(P, 60, kills=True), Runs(100.0), 160.0),
        (job(P, 60), Runs(100.0, 175.0), 220.0),
        (job(W, 60), Runs(100.0, 130.0), 190.0),
        (job(W, 60), Runs(100.0), NEVER),
        (job(W, 60, kills=True), Runs(100.0), NEVER),
        (job(W, 0), Runs(100.0, 100.1), 101.0),
        (job(W, 0), Runs(100.0, 130.0), 130.0),
        (job(ONCE), Runs(100.0, 101.0), NEVER),
        (job(ONCE), Runs(100.0, 101.0, due_at=300.0), 300.0),
        (job(ONCE), Runs(100.0, None, due_at=300.0), NEVER),
        (job(ONCE, kills=True), Runs(100.0, None, due_at=300.0), 300.0),
    ],
)
def test_next_start(what: CronJob, runs: Runs, expected: float) -> None:
    assert next_start(what, runs) == expected


def test_ten_jobs_of_the_usual_load_fit_and_no_more() -> None:
    load, running = 0.0, 0
    while has_room(job(P, 60), load, 0.1):
        load, running = load + 0.01, running + 1
    assert running == 10


def test_one_benchmark_at_a_time() -> None:
    assert has_room(job(D, load=1.0), 0.0, 1.0)
    assert not has_room(job(D, load=1.0), 1.0, 1.0)
