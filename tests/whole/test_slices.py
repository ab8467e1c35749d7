"""Two negotiators, each with a slice of the pool's slots, with real daemons."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING = 1, 2
JOB = "executable = /bin/sleep\narguments = 1000\nrequest_memory = 10\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    slices = {
        "DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, NEGOTIATOR_FAST, SCHEDD, STARTD",
        "NEGOTIATOR_FAST": "$(NEGOTIATOR)",
        "NEGOTIATOR_FAST_ARGS": "-local-name FAST",
        "NEGOTIATOR_SLOT_CONSTRAINT": "SlotID == 1",
        "NEGOTIATOR.FAST.NEGOTIATOR_SLOT_CONSTRAINT": "SlotID == 2",
        "MASTER_NEGOTIATOR_BACKOFF_CONSTANT": "3600",  # who is killed stays away until the test wants it back
    }
    halves = {"SLOT_TYPE_1": "cpus=2, mem=50%", "SLOT_TYPE_1_PARTITIONABLE": "true", "NUM_SLOTS_TYPE_1": "2"}
    with real_pool(NUM_CPUS=4, MEMORY=4000, **slices, **halves) as pool:
        yield pool


def places(pool: RealPool, cluster: int) -> Counter[str]:
    """How many of its jobs run in which partitionable slot."""
    return Counter(
        ad.eval_str("RemoteHost", "").partition("_")[0] for ad in pool.jobs(str(cluster)) if "RemoteHost" in ad
    )


def bin_of(tool: str) -> str:
    return str(Path(sys.executable).with_name(tool))


def used(pool: RealPool, *which: str) -> str:
    """What a negotiator charges its only submitter."""
    return pool.tool("condor_userprio", *which, "-allusers", "-af", "WeightedResourcesUsed").strip()


def test_each_negotiator_hands_out_and_charges_its_own_slots(pool: RealPool) -> None:
    host = pool.tool("condor_config_val", "FULL_HOSTNAME").strip()

    def negotiators() -> list[str]:
        return sorted(pool.tool("condor_status", "-negotiator", "-af", "Name").split())

    pool.until(lambda: negotiators() == sorted([host, f"FAST@{host}"]), "the ads of both negotiators")
    cluster = pool.submit(f"{JOB}queue 5\n")
    pool.until(lambda: places(pool, cluster) == {"slot1": 2, "slot2": 2}, "two jobs in each slice")
    for which in (("-name", host), ("-name", "FAST"), ("-name", f"FAST@{host}")):
        pool.until(lambda which=which: used(pool, *which) == "2.0", f"what is charged by {which}")
    why = pool.tool("pool", "why", f"{cluster}.4")
    assert f"{cluster}.4: negotiator: " in why
    assert f"{cluster}.4: fast: " in why
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)


def test_a_slice_goes_on_without_the_negotiator_of_another(pool: RealPool) -> None:
    pool.until(lambda: all(ad["State"] == "Unclaimed" for ad in pool.slots()), "both slots free")
    os.kill(pool.pid_of("negotiator"), signal.SIGKILL)
    cluster = pool.submit(f"{JOB}queue 4\n")
    pool.until(lambda: places(pool, cluster) == {"slot2": 2}, "two jobs in the other's slice")
    subprocess.run([bin_of("condor_on"), "-daemon", "negotiator"], env=pool.env(), check=True)  # as the pool's owner
    pool.until(lambda: places(pool, cluster) == {"slot1": 2, "slot2": 2}, "two jobs in each slice")
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)


def test_the_logs_and_accounts_of_two_negotiators_are_apart(pool: RealPool) -> None:
    logs = {path.name for path in (pool.directory / "log").iterdir()}
    assert {"NegotiatorLog", "FastLog"} <= logs
    accounts = {path.name for path in (pool.directory / "spool").glob("accountant*.db")}
    assert accounts == {"accountant.db", "accountant.fast.db"}
