"""Knobs of the startd, from the configuration to what its ads say and what a schedd is granted."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from pool.classad import expr
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
