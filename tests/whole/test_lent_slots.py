"""What the slots of a parallel job run while it waits for more: other jobs of its user, until it has all. Real daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_parallel import STAY, events, submit, until_all_run, until_free

pytestmark = pytest.mark.slow

SINGLE = """executable = /bin/sh
transfer_executable = false
request_memory = 16
log = job.log
arguments = "-c 'touch run.$(Process); trap : TERM; until test -e go -o -e go.$(Process); do sleep 0.1; done'"
should_transfer_files = no
{more}
queue {count}
"""
SETTINGS: dict[str, object] = {
    "NUM_CPUS": 3,
    "SCHEDD_NAME": "here@$(FULL_HOSTNAME)",
    "DedicatedScheduler": '"DedicatedScheduler@$(SCHEDD_NAME)"',
    "RANK": "Scheduler =?= $(DedicatedScheduler) && Plain =!= True",
    "MAXJOBRETIREMENTTIME": 3600,
}
"""A host with three cpus, which prefers parallel jobs unless they say otherwise, but puts nobody out for them."""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(**SETTINGS) as pool:
        yield pool


def single(pool: RealPool, place: Path, count: int = 1, more: str = "") -> int:
    return pool.submit(SINGLE.format(count=count, more=more), cwd=place)


def blocked(pool: RealPool, more: str = "") -> tuple[Path, Path, int]:
    """A parallel job that waits for its last slot: where who has that waits for `go`; its own place, and its cluster."""
    before, place = pool.place("before"), pool.place("gang")
    first = single(pool, before)
    pool.until_status(first, 2)
    gang = submit(pool, place, 3, STAY, more)
    pool.until(lambda: sum(ad.eval_str("State") == "Claimed" for ad in pool.slots()) == 3, "the other slots to be held")
    return before, place, gang


def runs(place: Path) -> int:
    """How many of the jobs there have begun."""
    return sum(path.name.startswith("run.") for path in place.iterdir())


def reasons(pool: RealPool, cluster: int) -> list[str]:
    """Why its jobs have left a slot, of those that have."""
    return [why for ad in pool.jobs(str(cluster)) if (why := ad.eval_str("VacateReason", ""))]


def test_slots_that_a_parallel_job_holds_run_other_jobs_until_it_has_all(pool: RealPool) -> None:
    before, place, gang = blocked(pool)
    meanwhile = pool.place("meanwhile")
    cluster = single(pool, meanwhile, 4, "keep_claim_idle = 600")
    pool.until(lambda: runs(meanwhile) == 2, "two to be at work")
    (meanwhile / "go.0").touch()
    pool.until(lambda: runs(meanwhile) == 3, "another to have the slot of the first")
    assert pool.statuses(gang) == [1]
    (before / "go").touch()
    until_all_run(pool, place, gang)
    why = f"Parallel job {gang}.0 has got all of its slots, of which this one was on loan"
    assert (pool.statuses(cluster), reasons(pool, cluster)) == ([1, 1, 1], [why, why])
    assert events(meanwhile).count("004") == 2
    assert why in (meanwhile / "job.log").read_text()
    pool.tool("condor_qedit", str(cluster), "KeepClaimIdle", "0")
    (meanwhile / "go").touch()
    pool.tool("condor_rm", str(gang))
    pool.until_done(cluster)
    until_free(pool)


@pytest.mark.parametrize("is_preferred", [True, False])
def test_who_is_in_a_lent_slot_stays_there_if_its_machine_would_have_taken_him(
    pool: RealPool, is_preferred: bool
) -> None:
    before, _, gang = blocked(pool, "" if is_preferred else "+Plain = True")
    meanwhile = pool.place("meanwhile")
    cluster = single(pool, meanwhile, 2, "job_max_vacate_time = 1")
    pool.until(lambda: runs(meanwhile) == 2, "both to be at work")
    if is_preferred:
        pool.tool("condor_rm", str(gang))
        pool.until(lambda: events(meanwhile).count("004") == 2, "both to have left")
        why = f"Parallel job {gang}.0 gives back its slots, of which this one was on loan"
        assert reasons(pool, cluster) == [why, why]
    else:
        pool.tool("condor_rm", str(gang))
        pool.until_gone(gang)
    for place in (before, meanwhile):
        (place / "go").touch()
    pool.until_done(cluster)
    assert events(meanwhile).count("004") == (2 if is_preferred else 0)
    until_free(pool)


def test_a_slot_that_is_lost_while_it_is_lent_is_looked_for_again(pool: RealPool) -> None:
    before, place, gang = blocked(pool)
    meanwhile = pool.place("meanwhile")
    cluster = single(pool, meanwhile)
    pool.until_status(cluster, 2)
    (job,) = pool.jobs(str(cluster))
    user, pool.user = pool.user, None
    pool.tool("condor_vacate", "-fast", job.eval_str("RemoteHost", ""))
    pool.user = user
    pool.until(lambda: "004" in events(meanwhile), "the job to be evicted")
    (before / "go").touch()
    until_all_run(pool, place, gang)
    (meanwhile / "go").touch()
    pool.tool("condor_rm", str(gang))
    pool.until_done(cluster)
    until_free(pool)


def test_jobs_in_lent_slots_outlive_a_schedd_that_is_killed(pool: RealPool) -> None:
    before, place, gang = blocked(pool)
    meanwhile = pool.place("meanwhile")
    cluster = single(pool, meanwhile)
    pool.until(lambda: runs(meanwhile) == 1, "it to be at work")
    pool.restart_of("schedd")
    for each in (before, meanwhile):
        (each / "go").touch()
    (job,) = pool.until_done(cluster)
    assert (job.eval_int("NumJobStarts"), job.eval_int("JobRunCount")) == (1, 1)
    until_all_run(pool, place, gang)
    pool.tool("condor_rm", str(gang))
    until_free(pool)


def test_slots_are_not_lent_where_the_parallel_job_could_not_begin_then() -> None:
    with real_pool(**SETTINGS, MAX_JOBS_RUNNING=3) as pool:
        before, place, gang = blocked(pool)
        meanwhile = pool.place("meanwhile")
        cluster = single(pool, meanwhile, 2)
        pool.until(lambda: runs(meanwhile) == 1, "one to be at work")
        (before / "go").touch()
        until_all_run(pool, place, gang)
        assert runs(meanwhile) == 1
        pool.tool("condor_rm", str(gang), str(cluster))
        until_free(pool)
