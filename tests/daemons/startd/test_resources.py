"""Slots and resources of a startd with its collector: what ads show, what claims get, on a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from pool.classad import expr
from tests.daemons.startd.schedd import a_bench, a_job

GPUS = {"STARTD_DETECT_GPUS": "-properties -simulate:4,1,1,1"}


async def test_a_claim_gets_the_device_that_its_job_requires_and_gives_it_back(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **GPUS) as bench, bench.schedd() as schedd:
        job = a_job(RequestGPUs=1, RequireGPUs=expr("Capability < 8"))
        await bench.offer()
        first, second, *_ = await bench.offers()
        held = await schedd.claim(first, job)
        assert held.answer.granted, held.answer.reason
        ads = await bench.ads()
        assert ads["slot1_1"].eval("AssignedGPUs") == "GPU-b1223334"
        assert ads["slot1_1"].eval("GPUs_DeviceName") == "GeForce GTX 480"
        assert len(ads["slot1"].eval("AvailableGPUs")) == 1
        assert ads["slot1"].eval("AssignedGPUs") == "GPU-a0223334,GPU-b1223334"
        refused = await schedd.claim(second, job)
        assert not refused.answer.granted
        assert "not enough GPUs that the job takes (1 wanted, 1 free)" in refused.answer.reason
        await schedd.release(held)
        assert (await bench.ads())["slot1"]["GPUs"] == 2


async def test_an_offer_outlives_a_request_for_devices_that_are_not_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **GPUS) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        wanting = a_job(RequestGPUs=1, RequireGPUs=expr("Capability > 99"))
        assert not (await schedd.claim(offer, wanting)).answer.granted
        assert (await schedd.claim(offer)).answer.granted


@pytest.mark.parametrize("knob", ["CONSUMPTION_POLICY", "SLOT_TYPE_0_CONSUMPTION_POLICY"])
async def test_a_consumption_policy_says_what_a_claim_gets(
    knob: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {knob: "true", "CONSUMPTION_CPUS": "TARGET.RequestCpus * 3", "CONSUMPTION_MEMORY": "1000"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        await bench.offer()
        first, second, *_ = await bench.offers()
        held = await schedd.claim(first, a_job())
        assert held.answer.granted, held.answer.reason
        ads = await bench.ads()
        assert (ads["slot1_1"]["Cpus"], ads["slot1_1"]["Memory"]) == (3, 1000)
        assert ads["slot1"].eval("ConsumptionCpus", a_job()) == 3
        assert not (await schedd.claim(second, a_job())).answer.granted


async def test_policy_and_attributes_are_by_slot_and_by_type(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {
        "SLOT_TYPE_1": "cpus=1, 25%",
        "NUM_SLOTS_TYPE_1": "2",
        "SLOT_TYPE_2": "cpus=1, 25%",
        "NUM_SLOTS_TYPE_2": "1",
        "START": 'TARGET.Owner == "alice"',
        "SLOT_TYPE_2_START": 'TARGET.Owner == "bob"',
        "SLOT2_START": "false",
        "SLOT_WEIGHT": "Cpus * 2",
        "favorite_color": '"blue"',
        "favorite_season": '"spring"',
        "STARTD_ATTRS": "favorite_color, favorite_season",
        "SLOT2_favorite_color": '"green"',
        "SLOT3_favorite_season": '"summer"',
        "SLOT1_STARTD_ATTRS": "favorite_movie",
        "favorite_movie": '"M"',
        "STARTD_SLOT_ATTRS": "State, Cpus",
    }
    async with a_bench(tmp_path, **knobs) as bench:
        ads = await bench.ads()
        slots = [ads[f"slot{number}"] for number in (1, 2, 3)]
        takes = [[ad.eval("Start", a_job(Owner=who)) for who in ("alice", "bob")] for ad in slots]
        assert takes == [[True, False], [False, False], [False, True]]
        shown = [(ad.eval("favorite_color"), ad.eval("favorite_season"), "favorite_movie" in ad) for ad in slots]
        assert shown == [("blue", "spring", True), ("green", "spring", False), ("blue", "summer", False)]
        assert [ad.eval("SlotWeight") for ad in slots] == [2, 2, 2]
        assert [slots[0].eval(f"slot{number}_Cpus") for number in (1, 2, 3)] == [1, 1, 1]
        assert slots[2].eval("slot1_State") == "Unclaimed"


async def test_a_claimed_machine_counts_and_foresees_its_draining(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, MAXJOBRETIREMENTTIME="1000") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RequestCpus=2))
        await schedd.run(held)
        ad = (await bench.ads())["slot1"]
        assert (ad["JobStarts"], ad["RecentJobStarts"]) == (1, 1)
        ad = (await bench.ads())["slot1"]
        assert ad["ExpectedMachineGracefulDrainingBadput"] >= ad["ExpectedMachineQuickDrainingBadput"]
        assert ad["ExpectedMachineGracefulDrainingCompletion"] >= ad["ExpectedMachineQuickDrainingCompletion"]
        assert ad["MonitorSelfResidentSetSize"] > 1000
