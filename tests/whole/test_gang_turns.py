"""Which parallel job has slots next, and who leaves for it: priorities, jobs that cannot run, other jobs. Real daemons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_parallel import ALL, COUNT, STAY, events, submit, until_all_run, until_free

SINGLES = """executable = /bin/sh
transfer_executable = false
request_memory = 16
log = job.log
arguments = "-c 'until test -e go; do sleep 0.1; done'"
should_transfer_files = no
queue {count}
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """A host with four cpus, from which its policy puts nobody out; the schedd does, by priority."""
    with real_pool(
        NUM_CPUS=4,
        SCHEDD_NAME="here@$(FULL_HOSTNAME)",
        DedicatedScheduler='"DedicatedScheduler@$(SCHEDD_NAME)"',
        SCHEDD_PREEMPTION_REQUIREMENTS="MY.JobPrio < TARGET.JobPrio",
        SCHEDD_PREEMPTION_RANK="-MY.JobPrio",
    ) as pool:
        yield pool


def test_a_job_that_no_machine_can_run_lets_others_pass(pool: RealPool) -> None:
    never = submit(pool, pool.place("never"), 2, COUNT, "request_memory = 1T")
    pool.until(lambda: "rejections=1" in (pool.directory / "log" / "NegotiatorLog").read_text(), "its rejection")
    pool.until_done(submit(pool, pool.place("after"), 2, COUNT, ALL))
    told = "no machine that is known here suits it, so others may pass"
    pool.until(lambda: pool.jobs(str(never))[0].eval_str("LastRejMatchReason") == told, "the job to say why it waits")
    pool.tool("condor_rm", str(never))
    until_free(pool)


def test_the_running_job_of_the_lowest_priority_leaves_for_one_of_a_higher(pool: RealPool) -> None:
    places = {prio: pool.place(f"prio{prio}") for prio in (1, 2, 3, 4)}
    first, second = (submit(pool, places[prio], 2, STAY, f"priority = {prio}") for prio in (2, 1))
    for prio in (2, 1):
        pool.until(lambda prio=prio: "001" in events(places[prio]), f"the job of priority {prio} to run")
    equal = submit(pool, places[4], 2, COUNT, "priority = 1")
    third = submit(pool, places[3], 2, STAY, "priority = 3")
    until_all_run(pool, places[3], third)
    assert "004" not in events(places[2])
    assert "004" not in events(places[3])
    (evicted,) = pool.jobs(str(second))
    assert evicted.eval_str("VacateReason") == f"Preempted for parallel job {third}.0 (SCHEDD_PREEMPTION_REQUIREMENTS)"
    assert "001" not in events(places[4])
    for cluster in (first, third):
        pool.tool("condor_rm", str(cluster))
    pool.until(lambda: events(places[1]).count("001") == 2, "the job that had to leave to run again")
    pool.until_done(equal)
    pool.tool("condor_rm", str(second))
    until_free(pool)


def test_slots_that_jobs_of_the_user_leave_are_the_waiting_parallel_jobs_before_later_ones(pool: RealPool) -> None:
    before, place, after = pool.place("before"), pool.place("gang"), pool.place("after")
    first = pool.submit(SINGLES.format(count=4), cwd=before)
    pool.until_status(first, 2, count=4)
    gang = submit(pool, place, 3, STAY)
    pool.until(lambda: pool.jobs(str(gang))[0].eval_str("LastRejMatchReason"), "the parallel job to be rejected")
    later = pool.submit(SINGLES.format(count=8), cwd=after)
    (before / "go").touch()
    until_all_run(pool, place, gang)
    assert events(after).count("001") <= 1
    pool.tool("condor_rm", str(gang))
    (after / "go").touch()
    pool.until_done(later)
    until_free(pool)
