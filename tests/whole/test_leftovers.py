"""CLAIM_PARTITIONABLE_LEFTOVERS in a real pool: where it is false, each cycle gives one job of a partitionable slot, and
else as many as fit."""

from __future__ import annotations

import re

import pytest

from tests.whole.real_pool import RealPool, real_pool

JOBS = """executable = /bin/sleep
arguments = 600
transfer_executable = false
request_memory = 16
request_disk = 16
queue 3
"""


def matches_of(pool: RealPool) -> list[int]:
    """What each cycle has matched, as far as it was anything."""
    log = (pool.directory / "log/NegotiatorLog").read_text()
    return [int(number) for number in re.findall(r"Negotiation cycle\..* matches=(\d+)", log) if number != "0"]


def test_a_slot_whose_leftovers_are_wanted_is_filled_in_one_cycle() -> None:
    with real_pool(NUM_CPUS=4, CLAIM_PARTITIONABLE_LEFTOVERS="true") as pool:
        cluster = pool.submit(JOBS)
        pool.until(lambda: len([ad for ad in pool.jobs() if ad.eval_int("JobStatus") == 2]) == 3, "all jobs to run")
        pool.until(lambda: matches_of(pool), "word of the cycle, which comes when the jobs are on their way")
        assert matches_of(pool)[0] == 3
        assert [ad.eval("ClaimPartitionableLeftovers") for ad in pool.slots()].count(False) == 0
        pool.tool("condor_rm", str(cluster))


@pytest.mark.parametrize("knob", ["STARTD.CLAIM_PARTITIONABLE_LEFTOVERS", "SCHEDD.CLAIM_PARTITIONABLE_LEFTOVERS"])
def test_a_slot_whose_leftovers_nobody_wants_is_filled_cycle_by_cycle(knob: str) -> None:
    with real_pool(NUM_CPUS=4, **{knob: "false"}) as pool:
        cluster = pool.submit(JOBS)
        pool.until(lambda: len([ad for ad in pool.jobs() if ad.eval_int("JobStatus") == 2]) == 3, "all jobs to run")
        # A cycle that began before a claim was heard of may have matched one in vain.
        assert set(matches_of(pool)) == {1}
        ads = pool.until(lambda: len(found := pool.slots()) == 4 and found, "the ads of all slots")
        said = {ad.eval_str("SlotType"): ad.eval("ClaimPartitionableLeftovers") for ad in ads}
        assert (said["Partitionable"] is False) is knob.startswith("STARTD")
        assert said["Dynamic"] is not False
        pool.tool("condor_rm", str(cluster))
