"""Cases of owners' policies work with what a running pool puts into ads, and with nothing else.

The ads are those of a pool with the layout that people have, one partitionable slot, while a job runs: both slots, and the
job as its machine's policy sees it. Of submit commands the job has those that change how it may be treated.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pool.classad import ClassAd, parse_longs
from tests.whole.policy_attributes import cases
from tests.whole.real_pool import RealPool, real_pool

JOB = """executable = /bin/sleep
arguments = 600
max_job_retirement_time = 60
job_max_vacate_time = 60
nice_user = true
request_gpus = 0
require_gpus = Capability > 1
queue
"""
USES = cases()


def shown(pool: RealPool) -> list[ClassAd]:
    """What the startd has of its slots and their jobs."""
    machine = pool.slots()[0].eval_str("Machine", "")
    return list(parse_longs(pool.tool("condor_status", "-direct", machine, "-snapshot", "-long").splitlines()))


@pytest.fixture(scope="module")
def live() -> Iterator[dict[str, frozenset[str]]]:
    """The names in the live ads, in lower case: of machines, and of the job."""
    with real_pool(STARTER_INITIAL_UPDATE_INTERVAL=1) as pool:
        pool.user = None
        cluster = pool.submit(JOB)
        pool.until_status(cluster, 2)

        def of_both() -> dict[str, frozenset[str]]:
            ads = shown(pool)
            kinds = {ad.eval_str("SlotType", "") for ad in ads} - {""}
            jobs = [ad for ad in ads if ad.eval_str("MyType") == "Slot.Claim" and "MemoryUsage" in ad]
            if kinds != {"Partitionable", "Dynamic"} or not jobs:
                return {}
            machines = [ad for ad in ads if ad.eval_str("SlotType")]
            names = {"machine": machines, "job": jobs}
            return {what: frozenset(name.lower() for ad in of for name in ad) for what, of in names.items()}

        found = pool.until(of_both, "both slots, and what the job uses")
        pool.tool("condor_rm", str(cluster))
        pool.until(lambda: not pool.jobs(), "the end of the job")
        yield found


@pytest.mark.parametrize("case", [pytest.param(one, id=one.rpartition("/")[2]) for one in sorted(USES)])
def test_a_case_uses_what_a_running_pool_puts_into_ads(live: dict[str, frozenset[str]], case: str) -> None:
    known = {"": live["job"] | live["machine"], **live}
    missing = sorted(name for kind, name in USES[case] if name not in known[kind])
    assert not missing, f"no live ad has {missing}; what a user or owner sets himself is marked: +Name=1, own(Name=1)"
