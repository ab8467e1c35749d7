"""A startd that is told of matches, on a virtual clock: Matched, claimed, timed out, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from protocol.messages.startd import MatchMade, VacateSlots
from tests.daemons.negotiator.test_negotiator import a_schedd, wants
from tests.daemons.startd.schedd import Bench, a_bench, a_job
from tests.own_attributes import own

STATIC = {"SLOT_TYPE_1": "100%", "NUM_SLOTS_TYPE_1": "1", "MATCH_TIMEOUT": "120"}


async def tell(bench: Bench, claim_id: str, *, over: bool = False) -> None:
    async with bench.host.connected("startd") as negotiator:
        await negotiator.call(MatchMade(claim_ids=[claim_id], over=over))


async def until_offered(bench: Bench, other_than: str) -> str:
    while (found := await bench.offer()) == other_than:
        await trio.sleep(0.05)
    return found


async def test_transition_6_and_9_a_matched_slot_waits_for_its_schedd_and_takes_no_other_match(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **STATIC) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        await tell(bench, offer)
        await bench.until("Matched/Idle")
        assert (await bench.ads())["slot1"].eval("Requirements") is False
        assert await bench.offer() == offer
        await tell(bench, offer)  # twice is as once
        await trio.sleep(100)
        held = await schedd.claim(offer)
        assert held.answer.granted, held.answer.reason
        assert (await bench.ads())["slot1"].eval("TotalTimeMatchedIdle") >= 100
        assert (await schedd.run(held, a_job(RunsFor=500))).started
        await bench.until("Claimed/Busy")
        await trio.sleep(300)  # the match's time is over, and means nothing any more
        assert await bench.where() == "Claimed/Busy"


async def test_transition_8_a_matched_slot_goes_back_when_match_timeout_is_over(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **STATIC) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        await tell(bench, offer)
        await trio.sleep(119)
        assert await bench.where() == "Matched/Idle"
        await trio.sleep(2)
        assert await bench.where() == "Unclaimed/Idle"
        again = await until_offered(bench, offer)
        assert not (await schedd.claim(offer)).answer.granted
        assert (await schedd.claim(again)).answer.granted


@pytest.mark.parametrize("cause", ["failed claim", "condor_vacate", "START", "match returned"])
async def test_transition_8_a_match_is_over_before_its_time(
    tmp_path: Path, autojump_clock: MockClock, cause: str
) -> None:
    start = "time() < DaemonStartTime + 60" if cause == "START" else 'Owner != "mallory"'
    async with a_bench(tmp_path, **STATIC, START=start) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        await tell(bench, offer)
        await bench.until("Matched/Idle")
        async with bench.host.connected("startd") as admin:
            if cause == "failed claim":
                assert "START" in (await schedd.claim(offer, a_job(Owner="mallory"))).answer.reason
            elif cause == "condor_vacate":
                await admin.call(VacateSlots())
            elif cause == "match returned":
                await tell(bench, offer, over=True)
        await bench.until("Unclaimed/Idle")
        assert await until_offered(bench, offer) != offer


async def test_transition_5_a_claim_that_comes_before_its_notice_is_taken_at_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **STATIC) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        assert (await schedd.claim(offer)).answer.granted
        await tell(bench, offer)
        assert await bench.where() == "Claimed/Idle"
        assert (await bench.ads())["slot1"].get("TotalTimeMatchedIdle") is None


async def test_a_claimed_slot_that_is_matched_takes_no_third_match_until_it_was_preempted_or_the_time_is_over(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **STATIC, RANK="TARGET.Loved ?: 0") as bench, bench.schedd() as schedd:
        first = await bench.offer()
        held = await schedd.claim(first)
        assert (await schedd.run(held, a_job(RunsFor=5))).started
        better = await until_offered(bench, first)
        await tell(bench, better)
        assert await bench.where() == "Claimed/Busy"
        later = a_job(RunsFor=1000)
        assert (await schedd.run(held, later, concluded=True)).started  # those who have the slot go on using it
        assert (await bench.ads())["slot1"].eval("Requirements") is False
        await trio.sleep(121)
        assert (await bench.ads())["slot1"].eval("Requirements") is not False
        third = await until_offered(bench, better)
        await tell(bench, third)
        answer = (await schedd.claim(third, a_job(**own(Loved=1)))).answer
        assert answer.granted, answer.reason
        assert await bench.where() == "Claimed/Idle"


async def test_a_partitionable_slot_stays_as_it_is(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, MATCH_TIMEOUT="120") as bench, bench.schedd() as schedd:
        first, second = (await bench.offers())[:2]
        await tell(bench, first)
        assert await bench.where() == "Unclaimed/Idle"
        assert (await schedd.claim(second)).answer.granted
        assert (await schedd.claim(first)).answer.granted


@pytest.mark.parametrize("inform", ["true", "false"])
async def test_the_negotiator_tells_startds_where_it_is_asked_to(
    tmp_path: Path, autojump_clock: MockClock, inform: str
) -> None:
    async with a_bench(tmp_path, **STATIC, NEGOTIATOR_INFORM_STARTD=inform, NEGOTIATOR_TIMEOUT="30") as bench:
        await bench.host.start("negotiator")
        async with a_schedd(bench.host) as schedd:
            await schedd.announce(wants())
            (offer,) = await schedd.until_offered(1)
            if inform == "true":
                await bench.until("Matched/Idle")
            async with bench.schedd() as owner_of_the_job:
                await trio.sleep(5)
                assert (await owner_of_the_job.claim(offer)).answer.granted
            seen = (await bench.ads())["slot1"].get("TotalTimeMatchedIdle")
            assert (seen is not None) is (inform == "true")
