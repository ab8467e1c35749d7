"""Quotas of groups, concurrency limits, ceilings and floors, with real daemons on both layouts of slots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_preemption import admin

IDLE, RUNNING = 1, 2
LAYOUTS = {"partitionable": {}, "static": {"NUM_SLOTS": 6, "NUM_SLOTS_TYPE_1": 6, "SLOT_TYPE_1": "cpus=1"}}


@pytest.fixture(scope="module", params=LAYOUTS)
def shared(request: pytest.FixtureRequest) -> Iterator[RealPool]:
    with real_pool(
        NUM_CPUS=6,
        MEMORY=6000,
        GROUP_NAMES="group_a, group_a.sub, group_b, group_s, group_t",
        GROUP_QUOTA_group_a=2,
        **{"GROUP_QUOTA_group_a.sub": 1},
        GROUP_QUOTA_group_b=1,
        GROUP_QUOTA_group_s=1,
        GROUP_ACCEPT_SURPLUS_group_s=True,
        LICENSE_LIMIT=1,
        CONCURRENCY_LIMIT_DEFAULT_big=2,
        NEGOTIATOR_INTERVAL=2,
        NEGOTIATOR_UPDATE_AFTER_CYCLE=True,
        POLLING_INTERVAL=1,
        **LAYOUTS[request.param],
    ) as pool:
        yield pool


@pytest.fixture
def pool(shared: RealPool) -> Iterator[RealPool]:
    """The pool; afterwards nothing runs in it."""
    yield shared
    empty(shared)


def empty(pool: RealPool) -> None:
    """Remove all jobs, and wait until each slot can be given to others."""
    admin(pool, "condor_rm", "-all", check=False)
    pool.until(lambda: not pool.jobs(), "an empty queue")
    pool.until(lambda: {ad.eval_str("State") for ad in pool.slots()} == {"Unclaimed"}, "free slots")


def sleepers(pool: RealPool, count: int, more: str = "") -> int:
    return pool.submit(f"executable = /bin/sleep\narguments = 600\nrequest_memory = 1\n{more}\nqueue {count}\n")


def in_group(name: str) -> str:
    return f"accounting_group = {name}"


def until_told(pool: RealPool, cluster: int, reason: str) -> None:
    """Wait until a job of the cluster has been rejected for this reason."""

    def told() -> list[ClassAd]:
        return [ad for ad in pool.jobs(str(cluster)) if reason in ad.eval_str("LastRejMatchReason", "")]

    pool.until(told, f"a rejection that says {reason!r}: {pool.jobs(str(cluster))}")


def until_shown_claimed(pool: RealPool, name: str) -> ClassAd:
    """The ad of a slot, once the collector has it as claimed: the job there may run before."""

    def shown() -> list[ClassAd]:
        return [ad for ad in pool.slots() if (ad.eval_str("Name"), ad.eval_str("State")) == (name, "Claimed")]

    (ad,) = pool.until(shown, f"{name} to be claimed")
    return ad


def running(pool: RealPool, cluster: int) -> int:
    return (pool.statuses(cluster) or []).count(RUNNING)


def test_a_slots_ad_says_in_which_groups_turn_it_was_given_away(pool: RealPool) -> None:
    own = sleepers(pool, 1, in_group("group_a"))
    nobodys = sleepers(pool, 1)
    for cluster, group in ((own, "group_a"), (nobodys, "<none>")):
        (job,) = pool.until_status(cluster, RUNNING)
        slot = until_shown_claimed(pool, job.eval_str("RemoteHost", ""))
        assert (slot.eval_str("RemoteNegotiatingGroup"), slot.eval_bool("RemoteAutoregroup")) == (group, False)


def test_a_group_gets_its_quota_and_its_jobs_say_so(pool: RealPool) -> None:
    first = sleepers(pool, 5, in_group("group_a"))
    pool.until_status(first, RUNNING, count=2)
    until_told(pool, first, "the quota of the group group_a allows no more than 2")
    other = sleepers(pool, 3, in_group("group_b"))
    pool.until_status(other, RUNNING)
    until_told(pool, other, "the quota of the group group_b allows no more than 1")
    assert (running(pool, first), running(pool, other)) == (2, 1)

    def shown() -> dict[str, list[str]]:
        said = admin(pool, "condor_userprio", "-quotas")
        rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.startswith("group_")}
        return rows if {"group_a", "group_b"} <= {*rows} else {}

    rows = pool.until(shown, "both groups in the table")
    assert rows["group_a"][:3] == ["2.00", "2.00", "no"]
    assert rows["group_b"][:3] == ["1.00", "1.00", "no"]


def test_the_next_job_of_a_claim_is_one_of_the_group(pool: RealPool) -> None:
    """A claim that takes job after job stays within the quota."""
    cluster = pool.submit(
        "executable = /bin/sleep\narguments = 0.2\nrequest_memory = 1\n" + in_group("group_b") + "\nqueue 8\n"
    )
    most = 0

    def over() -> bool:
        nonlocal most
        statuses = pool.statuses(cluster) or []
        most = max(most, statuses.count(RUNNING))
        return not statuses

    pool.until(over, "an empty queue")
    assert most <= 1


def test_a_group_that_accepts_surplus_takes_what_others_leave(pool: RealPool) -> None:
    cluster = sleepers(pool, 9, in_group("group_s"))
    pool.until_status(cluster, RUNNING, count=6)


def test_a_license_is_used_by_one_job_at_a_time(pool: RealPool) -> None:
    first = sleepers(pool, 3, "concurrency_limits = license")
    pool.until_status(first, RUNNING)
    until_told(pool, first, "concurrency limit license reached: 1 of 1 are in use")
    assert running(pool, first) == 1
    others = sleepers(pool, 3, "concurrency_limits = big.disk")
    pool.until_status(others, RUNNING, count=2)
    until_told(pool, others, "concurrency limit big.disk reached: 2 of 2 are in use")
    # The first to end makes room for the next.
    runs = next(ad.eval_int("ProcId") for ad in pool.jobs(str(first)) if ad.eval_int("JobStatus") == RUNNING)
    pool.tool("condor_rm", f"{first}.{runs}")
    pool.until(lambda: len(pool.jobs(str(first))) == 2, "the job's end")
    pool.until_status(first, RUNNING)
    assert running(pool, first) == 1


def test_limits_hold_when_the_negotiator_begins_anew(pool: RealPool) -> None:
    first = sleepers(pool, 2, "concurrency_limits = license")
    pool.until_status(first, RUNNING)
    pool.restart_of("negotiator")
    until_told(pool, first, "concurrency limit license reached: 1 of 1 are in use")
    late = sleepers(pool, 1, "concurrency_limits = license:1")
    until_told(pool, late, "concurrency limit license reached")
    assert (running(pool, first), running(pool, late)) == (1, 0)


def test_a_ceiling_bounds_a_submitter_and_its_lease_ends(pool: RealPool) -> None:
    cluster = sleepers(pool, 1)
    ad = pool.until_status(cluster, RUNNING)[0]
    user = ad.eval_str("User", "")
    assert admin(pool, "condor_userprio", "-setceiling", user, "2") == f"The ceiling of {user} was set to 2\n"
    more = sleepers(pool, 4)
    pool.until_status(more, RUNNING)
    until_told(pool, more, f"the ceiling of {user} allows no more than 2")
    assert running(pool, more) == 1
    admin(pool, "condor_userprio", "-setceiling", user, "-1")
    pool.until_status(more, RUNNING, count=2)
    assert user in admin(pool, "condor_userprio", "-allusers")


def test_the_ad_of_the_negotiator_tells_of_its_cycles(pool: RealPool) -> None:
    cluster = sleepers(pool, 1)
    pool.until_status(cluster, RUNNING)

    def matched() -> bool:
        said = pool.tool("condor_status", "-negotiator", "-long", check=False)
        return "LastNegotiationCyclePeriod0" in said and "LastNegotiationCycleSlotShareIter0" in said

    pool.until(matched, "the statistics of cycles")
