"""Jobs that may come while the machine drains: guests, who leave when the last job of before has left."""

from __future__ import annotations

from pathlib import Path

import trio
from trio.testing import MockClock

from pool.classad import UNDEFINED, expr
from protocol.messages.common import StopHow
from protocol.messages.startd import CancelDrain, DrainMachine, DrainStarted
from tests.daemons.startd.schedd import Bench, FakeSchedd, Held, a_bench, a_job
from tests.own_attributes import own

LONG_S = 1_000_000.0
GUESTS = "TARGET.Guest =?= true"
KNOBS = {"MAXJOBRETIREMENTTIME": "100000", "POLLING_INTERVAL": "5"}


async def comes(bench: Bench, schedd: FakeSchedd, **job: object) -> Held:
    """A claim whose job runs, in a new piece of the machine."""
    held = await schedd.claim(await bench.offer(), ad := a_job(**job), lease_s=LONG_S)
    assert held.answer.granted, held.answer.reason
    assert (await schedd.run(held, ad)).started
    while held.claim_id in await bench.offers():  # the collector does not know yet that it is used
        await trio.sleep(0.05)
    return held


async def drain(schedd: FakeSchedd, **order: object) -> DrainStarted:
    return await schedd.peer.call(DrainMachine(start=GUESTS, **order))  # type: ignore[arg-type]


async def test_guests_come_in_while_others_are_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, **KNOBS) as bench, bench.schedd() as schedd:
        await comes(bench, schedd)
        await drain(schedd)
        await bench.until("Drained/Retiring")
        ads = await bench.ads()
        assert (ads["slot1"]["Start"], ads["slot1_1"]["AcceptedWhileDraining"]) == (expr(GUESTS), False)
        refused = await schedd.claim(await bench.offer())
        assert refused.answer.reason == "slot1@cm.pool.test does not take this job (START)"
        guest = await comes(bench, schedd, **own(Guest=True))
        await bench.until("Claimed/Busy", guest.slot)
        ad = (await bench.ads())["slot1_2"]
        assert (ad["AcceptedWhileDraining"], ad["Draining"]) == (True, True)
        assert await bench.where("slot1_1") == "Claimed/Retiring"


async def test_guests_leave_with_the_last_job_of_before_and_nobody_follows(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **KNOBS) as bench, bench.schedd() as schedd:
        await comes(bench, schedd, RunsFor=500)
        await drain(schedd)
        guest = await comes(bench, schedd, **own(Guest=True, LeavesIn=20))
        offer = await bench.offer()
        starter = await bench.until_running("1.1")
        await bench.until("Preempting/Vacating", guest.slot)
        assert 500 <= trio.current_time() < 520
        assert [(stop.how, stop.reason) for stop in starter.stops] == [(StopHow.GRACEFUL, "the machine is draining")]
        assert (await bench.ads())["slot1"].eval("Start") is UNDEFINED
        refused = await schedd.claim(offer, a_job(**own(Guest=True)))
        assert not refused.answer.granted
        await bench.until("Drained/Idle")
        assert await bench.offers() == []


async def test_a_machine_without_jobs_waits_for_no_guests(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, **KNOBS) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        await drain(schedd)
        await bench.until("Drained/Idle")
        assert not (await schedd.claim(offer, a_job(**own(Guest=True)))).answer.granted


async def test_only_a_graceful_drain_has_guests(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, **KNOBS) as bench, bench.schedd() as schedd:
        await comes(bench, schedd, **own(LeavesIn=100))
        offer = await bench.offer()
        await drain(schedd, how_fast=10)
        await bench.until("Drained/Retiring")
        assert await bench.offers() == []
        assert not (await schedd.claim(offer, a_job(**own(Guest=True)))).answer.granted


async def test_a_guest_of_a_cancelled_drain_is_a_guest_no_more(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, **KNOBS) as bench, bench.schedd() as schedd:
        await comes(bench, schedd, RunsFor=500)
        order = await drain(schedd)
        guest = await comes(bench, schedd, **own(Guest=True))
        await schedd.peer.call(CancelDrain(request_id=order.request_id))
        assert (await bench.ads())["slot1_2"]["AcceptedWhileDraining"] is False
        await drain(schedd)
        await bench.until("Claimed/Retiring", guest.slot)
        await trio.sleep(1000)
        assert await bench.where("slot1_2") == "Claimed/Retiring"
