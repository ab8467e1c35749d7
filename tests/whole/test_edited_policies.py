"""Policies that are put on one job of a cluster by condor_qedit, however their names are spelt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.real_pool import RealPool, real_pool

HELD, REMOVED = 5, 3
WAITING = "executable = /bin/true\nrequirements = false\nqueue 20\n"
"""More jobs than it takes for the timer to ask one of them for all that look alike."""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """No slot is wanted: the timer alone acts on these jobs."""
    with real_pool(PERIODIC_EXPR_INTERVAL=1) as pool:
        yield pool


@pytest.mark.parametrize("spelling", ["periodichold", "PERIODICHOLD", "PeriodicHold"])
@pytest.mark.parametrize("jobs", [2, 20])
def test_a_policy_on_one_job_counts_in_any_spelling(pool: RealPool, spelling: str, jobs: int) -> None:
    cluster = pool.submit(WAITING.replace("queue 20", f"queue {jobs}"))
    pool.tool("condor_qedit", f"{cluster}.1", spelling, "true")
    held = pool.until_status(cluster, HELD)
    assert [ad.eval_int("ProcId") for ad in held] == [1]
    pool.tool("condor_rm", str(cluster))


def test_a_timer_on_one_job_counts_in_lower_case(pool: RealPool) -> None:
    cluster = pool.submit(WAITING)
    pool.tool("condor_qedit", f"{cluster}.3", "timerremove", "1000000000")
    gone = pool.until(lambda: pool.history(f"{cluster}.3"), "the end of the job")
    assert gone[0].eval_int("JobStatus") == REMOVED
    assert len(pool.jobs(str(cluster))) == 19
    pool.tool("condor_rm", str(cluster))
