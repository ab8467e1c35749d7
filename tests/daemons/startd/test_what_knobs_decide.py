"""Knobs of the startd, from the configuration to what its ads say and what a schedd is granted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pool.classad import expr
from pool.slots.idle import LastUse
from protocol.messages.startd import DrainMachine
from tests.daemons.startd.schedd import a_bench, a_job


@pytest.mark.parametrize(
    ("knob", "shown"), [("SLOTS_CONNECTED_TO_CONSOLE", "ConsoleIdle"), ("SLOTS_CONNECTED_TO_KEYBOARD", "KeyboardIdle")]
)
async def test_slots_without_keyboard_and_console_are_idle_from_the_start(
    tmp_path: Path, autojump_clock: MockClock, knob: str, shown: str
) -> None:
    knobs = {"NUM_SLOTS": "2", knob: "1", "DISCONNECTED_KEYBOARD_IDLE_BOOST": "50000000"}
    async with a_bench(tmp_path, SLOT_TYPE_1_PARTITIONABLE="false", **knobs) as bench:
        idle = (await bench.ads())["slot2"].eval_int(shown) or 0
        assert 50000000 <= idle <= 50000100


async def test_partitionable_slots_show_what_is_listed_of_their_parts(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {"STARTD_PARTITIONABLE_SLOT_ATTRS": "Mine", "STARTD_ATTRS": "Mine", "Mine": "7"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        await schedd.claim(await bench.offer())
        assert (await bench.ads())["slot1"].eval("ChildMine") == [7]


async def test_a_machine_that_drains_takes_whom_the_default_says(tmp_path: Path, autojump_clock: MockClock) -> None:
    guests = "TARGET.Guest =?= true"
    knobs = {"DEFAULT_DRAINING_START_EXPR": guests, "MaxJobRetirementTime": "9999"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RunsFor=500))
        await schedd.run(held)
        await schedd.peer.call(DrainMachine())
        await bench.until("Drained/Retiring")
        assert (await bench.ads())["slot1"]["Start"] == expr(guests)


@pytest.mark.parametrize(("must", "memory"), [("true", None), ("false", 1000)])
async def test_what_a_changed_request_needs_may_have_to_be_there(
    tmp_path: Path, autojump_clock: MockClock, must: str, memory: int | None
) -> None:
    knobs = {"MUST_MODIFY_REQUEST_EXPRS": must, "MODIFY_REQUEST_EXPR_REQUESTMEMORY": "1000000"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RequestMemory=1000))
        assert held.answer.granted is (memory is not None)
        ads = await bench.ads()
        assert (ads["slot1_1"].eval_int("Memory") if "slot1_1" in ads else None) == memory


async def test_slots_are_of_what_the_owner_leaves_of_the_machine(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, MAX_NUM_CPUS="3", RESERVED_MEMORY="96") as bench:
        slot = (await bench.ads())["slot1"]
        assert (slot["Cpus"], slot["Memory"]) == (3, 4096 - 96)


@pytest.mark.parametrize(("counted", "cpus"), [("true", 8), ("false", 4)])
async def test_threads_of_a_core_are_cpus_where_they_count(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, counted: str, cpus: int
) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda logical=True: 8 if logical else 4)
    monkeypatch.setattr("pool.slots.provision.detect.cpus_allowed", lambda: 64)
    async with a_bench(tmp_path, only_files=True, SPARE_STARTERS="0", COUNT_HYPERTHREAD_CPUS=counted) as bench:
        assert (await bench.ads())["slot1"]["Cpus"] == cpus


async def test_a_startd_with_a_name_has_slots_of_that_name(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, STARTD_NAME="second") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        slot = (await bench.ads())["slot1"]
        assert slot["Name"] == f"slot1@second@{slot['Machine']}"
        assert held.slot == f"slot1_1@second@{slot['Machine']}"


@pytest.mark.parametrize(("most", "cpus"), [("11", []), ("12", [1])])
async def test_a_type_of_slots_beyond_the_most_has_none(
    tmp_path: Path, autojump_clock: MockClock, most: str, cpus: list[int]
) -> None:
    async with a_bench(tmp_path, SLOT_TYPE_12="cpus=1", NUM_SLOTS_TYPE_12="1", MAX_SLOT_TYPES=most) as bench:
        slots = (await bench.ads()).values()
        assert [slot["Cpus"] for slot in slots if not slot.eval_bool("SlotBroken", False)] == cpus


async def test_requests_are_rounded_as_the_owner_says(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {
        "MODIFY_REQUEST_EXPR_REQUESTCPUS": "RequestCpus + 1",
        "MODIFY_REQUEST_EXPR_REQUESTDISK": "quantize(RequestDisk,{5000})",
    }
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        assert (await schedd.claim(await bench.offer())).answer.granted
        part = (await bench.ads())["slot1_1"]
        assert (part["Cpus"], part["Disk"]) == (2, 5000)


@pytest.mark.parametrize("missed", [2, 4])
async def test_a_claim_without_a_lease_is_over_when_its_schedd_is_silent_for_so_many_alives(
    tmp_path: Path, autojump_clock: MockClock, missed: int
) -> None:
    async with a_bench(tmp_path, MAX_CLAIM_ALIVES_MISSED=str(missed)) as bench, bench.schedd() as schedd:
        await schedd.claim(await bench.offer(), lease_s=0.0)
        claimed_at = trio.current_time()
        await bench.until("Claimed/Idle", "slot1_1")
        await bench.until("", "slot1_1")
        assert 0 <= trio.current_time() - claimed_at - missed * 300 < 2


async def test_an_ad_shows_since_when_an_expression_is_what_it_is(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, STARTD_LATCH_EXPRS="Taken", Taken="4 - Cpus") as bench, bench.schedd() as schedd:
        began = (await bench.ads())["slot1"]
        await trio.sleep(1000)
        assert (await bench.ads())["slot1"]["TakenTime"] == began["TakenTime"]
        await schedd.claim(await bench.offer())
        now = (await bench.ads())["slot1"]
        assert (began["TakenValue"], now["TakenValue"]) == (0, 1)
        assert now.eval_int("TakenTime", 0) - began.eval_int("TakenTime", 0) >= 1000


async def test_what_counts_as_a_console_is_listed(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    (devices / "null").touch()
    monkeypatch.setattr("daemons.startd.slots.ads.LastUse", lambda: LastUse(devices, devices / "no", devices / "none"))
    async with a_bench(tmp_path, CONSOLE_DEVICES="mine", SLOTS_CONNECTED_TO_CONSOLE="1") as bench:
        wall = bench.host.world.wall()
        for name, ago in (("mine", 7000), ("console", 10)):
            (devices / name).touch()
            os.utime(devices / name, (wall - ago, wall - ago))
        await trio.sleep(400)
        assert 7300 < ((await bench.ads())["slot1"].eval_int("ConsoleIdle") or 0) < 7500
