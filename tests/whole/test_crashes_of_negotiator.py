"""kill -9 of the negotiator at any step of a cycle: running jobs do not notice, and what they use is charged all the same.

One pool serves all the fault points, as in `test_crashes`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pool.classad import ClassAd, parse_longs
from tests.whole.probe import Probe
from tests.whole.real_pool import RealPool, real_pool

POINTS = (
    "negotiator.cycle_planned",
    "negotiator.matches_offered",
    "negotiator.before_accounts_commit",
    "negotiator.after_accounts_commit",
)
LOST_S_MAX = 1.0
CLOCK_S = 1.0
"""LastUpdate is told in whole seconds."""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=4, MASTER_BACKOFF_CEILING=1, FAULT_POINTS=" ".join(POINTS), start=False) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        faults.chmod(0o777)
        for point in POINTS:
            (faults / point).touch()
        pool.start()
        yield pool


def account(pool: RealPool) -> ClassAd | None:
    """The record of the only submitter."""
    said = pool.tool("condor_userprio", "-negotiator", "-allusers", "-long", check=False)
    return next((ad for ad in parse_longs(said.splitlines()) if not ad.eval_bool("IsAccountingGroup", False)), None)


def charged(pool: RealPool, more_than: float = 0.0) -> ClassAd | None:
    """The record, once it holds a slot and has used more than so many seconds."""
    ad = account(pool) or ClassAd()
    return ad if ad.eval_int("ResourcesUsed", 0) == 1 and ad.eval_float("AccumulatedUsage", 0.0) > more_than else None


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_negotiator_disturbs_no_job_and_charges_all_but_a_second(pool: RealPool, point: str) -> None:
    long, short = Probe(pool, None), Probe(pool, 0.1)
    pool.until(lambda: (account(pool) or ClassAd()).eval_int("ResourcesUsed", 0) == 0, "nobody to hold a slot")
    long.submit()
    long.until_begun()
    first = pool.until(lambda: charged(pool), "the running job to be charged").eval_float("AccumulatedUsage", 0.0)
    known_s = 2 * LOST_S_MAX  # that it holds a slot is known for longer than what may be lost
    before = pool.until(lambda: charged(pool, first + known_s), "the running job to be charged for some time")
    marker, negotiator = pool.run_dir / "faults" / point, pool.pid_of("negotiator")
    marker.unlink()
    short.submit()
    pool.until(marker.exists, f"{point} to fire")
    pool.until(lambda: pool.pid_of("negotiator") not in (0, negotiator), "another negotiator")
    short.assert_ended_once()
    after = pool.until(lambda: charged(pool), "the running job to be charged again")
    passed = after.eval_int("LastUpdate", 0) - before.eval_int("LastUpdate", 0)
    used = after.eval_float("AccumulatedUsage", 0.0) - before.eval_float("AccumulatedUsage", 0.0)
    assert used >= passed - LOST_S_MAX - CLOCK_S, (used, passed)
    assert after["BeginUsageTime"] == before["BeginUsageTime"]
    long.may_end()
    ad = long.assert_ended_once()
    assert long.trace() == ["begin", "end"]
    assert ad["NumJobStarts"] == 1
