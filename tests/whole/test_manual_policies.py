"""The examples of HTCondor's chapter on the central manager, with real daemons on both layouts of slots.

Quotas of physics and chemistry on a pool that is too small for them, limits by licence and by the machine's network, shares by
priority factor, and a running job that is promised its time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_bounds import LAYOUTS, empty, in_group, running, sleepers, until_told
from tests.whole.test_preemption import admin

RUNNING = 2


@pytest.fixture(scope="module", params=LAYOUTS)
def shared(request: pytest.FixtureRequest) -> Iterator[RealPool]:
    with real_pool(
        NUM_CPUS=6,
        MEMORY=6000,
        GROUP_NAMES="group_physics, group_chemistry",
        NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION=False,
        GROUP_QUOTA_group_physics=20,
        GROUP_QUOTA_group_chemistry=10,
        XSW_LIMIT=3,
        SCHEDD_CLASSAD_USER_MAP_NAMES="Charges",
        CLASSAD_USER_MAPDATA_Charges="* /.*/ ann,ben",
        ACCOUNTING_GROUP_USER_MAP="Charges",
        NETWORK_A_LIMIT=2,
        NETWORK='"NETWORK_A"',
        STARTD_ATTRS="NETWORK",
        RANK="TARGET.Department ?: 0",
        MAXJOBRETIREMENTTIME=3600,
        NEGOTIATOR_CONSIDER_EARLY_PREEMPTION=True,
        NEGOTIATOR_INTERVAL=2,
        NEGOTIATOR_MIN_INTERVAL=1,
        POLLING_INTERVAL=1,
        **LAYOUTS[request.param],
    ) as pool:
        yield pool


@pytest.fixture
def pool(shared: RealPool) -> Iterator[RealPool]:
    """The pool; afterwards nothing runs in it."""
    yield shared
    empty(shared)


def test_quotas_of_more_than_the_pool_are_scaled_down(pool: RealPool) -> None:
    """Six slots are a fifth of 30: physics has a fifth of 20, chemistry of 10."""
    physics = sleepers(pool, 6, in_group("group_physics"))
    chemistry = sleepers(pool, 6, in_group("group_chemistry"))
    pool.until_status(physics, RUNNING, count=4)
    pool.until_status(chemistry, RUNNING, count=2)
    assert (running(pool, physics), running(pool, chemistry)) == (4, 2)


def test_three_licences_are_for_three_jobs(pool: RealPool) -> None:
    cluster = sleepers(pool, 5, "concurrency_limits = XSW")
    pool.until_status(cluster, RUNNING, count=3)
    until_told(pool, cluster, "concurrency limit xsw reached: 3 of 3 are in use")
    assert running(pool, cluster) == 3


def test_a_limit_may_depend_on_the_machine(pool: RealPool) -> None:
    cluster = sleepers(pool, 4, "concurrency_limits_expr = TARGET.NETWORK")
    pool.until_status(cluster, RUNNING, count=2)
    until_told(pool, cluster, "concurrency limit network_a reached: 2 of 2 are in use")
    assert running(pool, cluster) == 2


def test_a_user_of_half_the_factor_gets_twice_the_slots(pool: RealPool) -> None:
    domain = admin(pool, "condor_config_val", "UID_DOMAIN").strip()
    for name, factor in (("ann", 1000), ("ben", 2000)):
        admin(pool, "condor_userprio", "-setfactor", f"{name}@{domain}", str(factor))
        admin(pool, "condor_userprio", "-setprio", f"{name}@{domain}", "0.5")
    cluster = pool.submit(
        "executable = /bin/sleep\narguments = 600\nrequest_memory = 1\naccounting_group_user = $(who)\n"
        "queue 6 who in (ann ben)\n"
    )
    pool.until_status(cluster, RUNNING, count=6)
    users = [ad.eval_str("AcctGroupUser") for ad in pool.jobs(str(cluster)) if ad.eval_int("JobStatus") == RUNNING]
    assert (users.count("ann"), users.count("ben")) == (4, 2)


def test_a_job_that_was_promised_its_time_ends_by_itself(pool: RealPool) -> None:
    flag = pool.directory / "may_end"
    flag.unlink(missing_ok=True)
    script = f"while [ ! -e {flag} ]; do sleep 0.1; done"
    patient = pool.submit(f"executable = /bin/sh\narguments = \"-c '{script}'\"\nrequest_memory = 1\nqueue 6\n")
    pool.until_status(patient, RUNNING, count=6)
    better = sleepers(pool, 1, "+Department = 10")
    pool.until(lambda: "Retiring" in activities(pool), "a slot whose job retires")
    assert running(pool, patient) == 6
    flag.touch()
    pool.until_status(better, RUNNING)
    pool.until(lambda: len(pool.history(str(patient))) == 6, "the end of those who were promised their time")
    assert {(ad.eval_int("ExitCode"), ad.eval_int("NumJobStarts")) for ad in pool.history(str(patient))} == {(0, 1)}


def activities(pool: RealPool) -> list[str]:
    return [ad.eval_str("Activity", "") for ad in pool.slots()]
