"""Jobs that have to leave their slots, with real daemons: dynamic ones of the default layout, and static ones.

One pool of each layout for all tests; two accounting groups stand for two users, so that any account can run them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING, HELD = 1, 2, 5
LEAVING = "starter.before_leaving"


LAYOUTS = {"dynamic": {}, "static": {"SLOT_TYPE_1": "50%", "NUM_SLOTS_TYPE_1": 2}}


@pytest.fixture(scope="module")
def shared() -> Iterator[RealPool]:
    """A pool with one partitionable slot."""
    with a_pool("dynamic") as pool:
        yield pool


@pytest.fixture(scope="module", params=LAYOUTS)
def any_shared(request: pytest.FixtureRequest) -> Iterator[RealPool]:
    """A pool of either layout."""
    if request.param == "dynamic":
        yield request.getfixturevalue("shared")
        return
    with a_pool(request.param) as pool:
        yield pool


@contextmanager
def a_pool(layout: str) -> Iterator[RealPool]:
    with real_pool(
        NUM_CPUS=2,
        MEMORY=2000,
        MACHINE_RESOURCE_TOY=2,
        RANK="TARGET.Loved ?: 0",
        PREEMPTION_REQUIREMENTS="true",
        PRIORITY_HALFLIFE=60,
        MachineMaxVacateTime=5,
        NEGOTIATOR_INTERVAL=2,
        NEGOTIATOR_MIN_INTERVAL=1,
        POLLING_INTERVAL=1,
        STARTER_INITIAL_UPDATE_INTERVAL=1,
        FAULT_POINTS=LEAVING,
        start=False,
        **LAYOUTS[layout],
    ) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        (faults / f"{LEAVING}.do").write_text("stop")
        (faults / LEAVING).touch()  # nothing stops until a test removes it
        pool.start()
        yield pool


@pytest.fixture
def pool(shared: RealPool) -> Iterator[RealPool]:
    """The pool; afterwards nothing runs in it."""
    yield shared
    admin(shared, "condor_rm", "-all", check=False)
    shared.until(lambda: not shared.jobs(), "an empty queue")
    shared.until(lambda: len(shared.slots()) == 1, "a whole slot")


@pytest.fixture
def any_pool(any_shared: RealPool) -> Iterator[RealPool]:
    """A pool of either layout; afterwards nothing runs in it."""
    yield any_shared
    admin(any_shared, "condor_rm", "-all", check=False)
    any_shared.until(lambda: not any_shared.jobs(), "an empty queue")
    any_shared.until(lambda: not any(ad.eval_str("State") == "Claimed" for ad in any_shared.slots()), "free slots")


def admin(pool: RealPool, *argv: str, check: bool = True) -> str:
    """Run a tool as the pool's owner."""
    user, pool.user = pool.user, None
    try:
        return pool.tool(*argv, check=check)
    finally:
        pool.user = user


@contextmanager
def configured(pool: RealPool, text: str) -> Iterator[None]:
    """Inside the block the configuration says this as well."""
    file = pool.directory / "config"
    file.write_text(text + "\n")
    admin(pool, "condor_reconfig")
    try:
        yield
    finally:
        file.unlink()
        admin(pool, "condor_reconfig")


def endless(pool: RealPool, group: str, more: str = "", *, count: int = 1) -> int:
    """Jobs of a user's that never end by themselves."""
    return pool.submit(
        "executable = /bin/sleep\narguments = 1000\nshould_transfer_files = NO\nrequest_memory = 100\n"
        f"request_disk = 1000\naccounting_group = {group}\n{more}\nqueue {count}\n"
    )


def until_started(pool: RealPool, cluster: int) -> ClassAd:
    """Wait until the cluster's only job executes, which is counted later than it is running; its ad."""
    return pool.until(lambda: [ad for ad in pool.jobs(str(cluster)) if started(ad)], f"cluster {cluster} to execute")[0]


def started(ad: ClassAd) -> bool:
    return (ad.eval_int("JobStatus"), ad.eval_int("NumJobStarts", 0) > 0) == (RUNNING, True)


def test_a_user_with_less_than_his_share_takes_another_users_slot(any_pool: RealPool) -> None:
    pool = any_pool
    greedy = endless(pool, "one", count=2)
    pool.until_status(greedy, RUNNING, count=2)
    late = endless(pool, "two")
    (ad,) = pool.until_status(late, RUNNING)
    assert ad.eval_str("RemoteHost", "").startswith("slot")
    pool.until_status(greedy, IDLE)
    pool.until_status(greedy, RUNNING)  # the other one was left alone


def test_users_who_are_about_equal_do_not_move_each_other_aside(any_pool: RealPool) -> None:
    pool = any_pool
    first = endless(pool, "alpha", count=2)
    pool.until_status(first, RUNNING, count=2)
    second = endless(pool, "beta")
    pool.until_status(second, RUNNING)  # the first user grows worse while he has all slots
    rows = [line.split() for line in admin(pool, "condor_userprio", "-af", "Name", "Priority").splitlines()]
    priority = {name.partition(".")[0]: float(effective) for name, effective in rows}
    assert priority["alpha"] > 1.1 * priority["beta"], priority


def test_a_job_that_the_owner_ranks_higher_takes_a_slot(any_pool: RealPool) -> None:
    pool = any_pool
    plain = endless(pool, "one", count=2)
    pool.until_status(plain, RUNNING, count=2)
    loved = endless(pool, "one", "+Loved = 10")  # the same user's: priority has no say
    pool.until_status(loved, RUNNING)
    pool.until_status(plain, IDLE)
    pool.until_status(plain, RUNNING)


def test_a_starter_that_leaves_slowly_costs_the_next_claim_of_its_slot_nothing(pool: RealPool) -> None:
    marker = pool.run_dir / "faults" / LEAVING
    plain = endless(pool, "one", count=2)
    pool.until_status(plain, RUNNING, count=2)
    marker.unlink()
    loved = endless(pool, "one", "+Loved = 10")
    pool.until(lambda: marker.exists() and marker.read_text().endswith("\n"), "a starter that leaves")
    pool.until_status(loved, RUNNING)
    starter = int(marker.read_text())
    keeper = psutil.Process(starter).ppid()  # to its startd the two are one
    record = pool.run_dir / "starters" / f"{keeper}.json"
    assert record.exists()
    os.kill(starter, signal.SIGCONT)
    pool.until(lambda: not record.exists(), "the sweep of what it left")
    assert until_started(pool, loved).eval_int("NumJobStarts") == 1
    pool.tool("condor_rm", str(loved))
    pool.until_done(loved)
    (done,) = pool.history(str(loved))
    assert done.eval_int("NumJobStarts") == 1
    assert "LastHoldReason" not in done


def test_a_job_is_held_that_runs_for_longer_than_the_owner_allows(pool: RealPool) -> None:
    with configured(pool, "use POLICY : Hold_If_Runtime_Exceeds(2)"):
        cluster = endless(pool, "one")
        (ad,) = pool.until_status(cluster, HELD)
        assert ad.eval_int("HoldReasonCode") == 21
        assert "exceeded" in ad.eval_str("HoldReason", "")


def test_a_job_is_sent_back_that_runs_for_longer_than_the_owner_allows(pool: RealPool) -> None:
    with configured(pool, "use POLICY : Preempt_If_Runtime_Exceeds(2)"):
        cluster = endless(pool, "one")
        pool.until(lambda: pool.jobs(str(cluster))[0].eval_int("NumJobStarts", 0) > 1, "another start")


def test_a_job_that_retires_for_a_drain_goes_on_when_the_drain_is_cancelled(pool: RealPool) -> None:
    with configured(pool, "MAXJOBRETIREMENTTIME = 1000"):
        cluster = endless(pool, "one")
        until_started(pool, cluster)
        (machine,) = {ad.eval_str("Machine", "") for ad in pool.slots()}
        admin(pool, "condor_drain", "-graceful", machine)
        pool.until(lambda: activities(pool) == ["Retiring"], "a job that retires")
        admin(pool, "condor_drain", "-cancel", machine)
        pool.until(lambda: activities(pool) == ["Busy"], "a job that goes on")
        (ad,) = pool.jobs(str(cluster))
        assert ad.eval_int("NumJobStarts") == 1


def activities(pool: RealPool) -> list[str]:
    """What the dynamic slots do."""
    return [ad.eval_str("Activity", "") for ad in pool.slots() if ad.eval_bool("DynamicSlot", False)]


def test_a_job_larger_than_any_dynamic_slot_takes_the_room_of_several(pool: RealPool) -> None:
    with configured(pool, "ALLOW_PSLOT_PREEMPTION = true"):
        small = endless(pool, "one", count=2)
        pool.until_status(small, RUNNING, count=2)
        large = endless(pool, "two", "request_cpus = 2")
        (ad,) = pool.until_status(large, RUNNING)
        assert ad.eval_int("CpusProvisioned") == 2
        pool.until_status(small, IDLE, count=2)


def test_a_job_that_needs_a_custom_resource_takes_the_room_of_those_who_have_it(pool: RealPool) -> None:
    with configured(pool, "ALLOW_PSLOT_PREEMPTION = true"):
        small = endless(pool, "one", "request_toy = 1", count=2)
        pool.until_status(small, RUNNING, count=2)
        large = endless(pool, "two", "request_toy = 2")
        (ad,) = pool.until_status(large, RUNNING)
        assert ad.eval_int("ToyProvisioned") == 2
        pool.until_status(small, IDLE, count=2)


def test_a_job_retires_for_one_and_then_for_a_better_one_and_then_leaves(pool: RealPool) -> None:
    retires = "MAXJOBRETIREMENTTIME = ifThenElse(TARGET.Patient ?: false, 3600, 0)"
    with configured(pool, f"{retires}\nNEGOTIATOR_CONSIDER_EARLY_PREEMPTION = true"):
        patient = endless(pool, "one", "+Patient = true\nrequest_cpus = 2")
        pool.until_status(patient, RUNNING)
        for loved in (10, 20):
            cluster = endless(pool, "one", f"+Loved = {loved}\nrequest_cpus = 2")
            pool.until(lambda: waiting_ranks(pool) == [loved], f"a claim of rank {loved} that waits")  # noqa: B023
            pool.until_status(patient, RUNNING)
            pool.until_status(cluster, IDLE)
        pool.tool("condor_rm", str(patient))
        assert until_started(pool, cluster).eval_int("NumJobStarts") == 1


def test_a_job_that_retires_is_left_alone_where_nobody_is_considered_early(any_pool: RealPool) -> None:
    pool = any_pool
    with configured(pool, "MAXJOBRETIREMENTTIME = 3600"):
        endless(pool, "one", count=2)
        pool.until(lambda: of_claimed(pool) == ["Busy"] * 2, "jobs in both slots")
        loved = endless(pool, "one", "+Loved = 10")
        pool.until(lambda: "LastRejMatchReason" in pool.jobs(str(loved))[0], "a job that was refused")
        assert of_claimed(pool) == ["Busy"] * 2
        pool.until_status(loved, IDLE)


def of_claimed(pool: RealPool) -> list[str]:
    """What the claimed slots do."""
    return [ad.eval_str("Activity", "") for ad in pool.slots() if ad.eval_str("State") == "Claimed"]


def waiting_ranks(pool: RealPool) -> list[float]:
    """How the dynamic slots' owners rank the claims that wait for them."""
    ranks = [ad.eval_float("PreemptingRank") for ad in pool.slots() if ad.eval_bool("DynamicSlot", False)]
    return [rank for rank in ranks if rank is not None]
