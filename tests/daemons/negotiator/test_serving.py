"""Whom a negotiator serves, with which slots and how often, where its knobs leave something out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from pool.classad import ClassAd, expr
from protocol.messages.collector import AdUpdate, InvalidateAds
from protocol.messages.common import Reconfigure
from tests.daemons.negotiator.test_negotiator import Clock, a_pool, a_schedd, a_slot, publish, wants
from tests.daemons.one_host import OneHost

SLOTS = [a_slot(f"slot{number}@n") for number in range(1, 5)]


async def test_a_negotiator_with_a_job_constraint_serves_no_other_jobs(tmp_path: Path, autojump_clock: Clock) -> None:
    knobs = {"NEGOTIATOR_JOB_CONSTRAINT": 'MY.Kind == "night" && Size < 3'}
    async with a_pool(tmp_path, **knobs) as host, a_schedd(host) as schedd:
        await publish(host, *SLOTS)
        await schedd.announce(
            wants(Kind="night", Size=1), wants(Kind="day", Size=1, number=2), wants(Kind="night", number=3)
        )
        await schedd.until_offered(1)
        assert await schedd.until_rejected() == ["the negotiator's NEGOTIATOR_JOB_CONSTRAINT leaves the job out"] * 2
        assert schedd.reads == ["Kind", "Size"]
        assert len(schedd.offers) == 1


async def test_what_a_schedd_wanted_before_it_knew_what_is_read_is_void(tmp_path: Path, autojump_clock: Clock) -> None:
    """Jobs that were alike before may differ in that."""
    knobs = {"NEGOTIATOR_PRE_JOB_RANK": "TARGET.Loved + MY.Memory"}
    async with a_pool(tmp_path, **knobs) as host, a_schedd(host) as schedd:
        await publish(host, *SLOTS)
        schedd.knows = False
        await schedd.announce(wants(count=4, Loved=1))
        while not schedd.reads:
            await schedd.news.wait()
        assert schedd.reads == ["Loved"]
        await trio.sleep(200)
        assert schedd.offers == []
        await schedd.announce(wants(Loved=1), wants(Loved=2, number=2))
        await schedd.until_offered(2)


async def test_a_schedd_hears_what_slots_read_though_they_take_none_of_its_jobs(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    """Else a job that waits in vain would stand for another that a slot would take."""
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await publish(host, a_slot("slot1@n", Requirements=expr("TARGET.Trusted is true && TARGET.RequestCpus < 9")))
        schedd.knows = False
        await schedd.announce(wants(count=2))
        while not schedd.reads:
            await schedd.news.wait()
        assert schedd.reads == ["trusted"]
        await schedd.announce(wants(), wants(number=2, Trusted=True))
        await schedd.until_offered(1)


def a_submitter(name: str, **attributes: object) -> AdUpdate:
    ad = {"MyType": "Submitter", "Name": name, "ScheddName": "ap1", "Machine": "ap1", **attributes}
    return AdUpdate(ad=ClassAd(ad))


async def test_a_negotiator_with_a_submitter_constraint_serves_no_others(tmp_path: Path, autojump_clock: Clock) -> None:
    knobs = {"NEGOTIATOR_SUBMITTER_CONSTRAINT": "Team is 7"}
    async with a_pool(tmp_path, **knobs) as host, a_schedd(host) as schedd:
        await publish(host, *SLOTS, a_submitter("ann@pool.test", Team=7), a_submitter("bob@pool.test", Team=8))
        await schedd.announce(wants("ann@pool.test"), wants("bob@pool.test"))
        await schedd.until_offered(1)
        assert schedd.per_submitter == {"ann@pool.test": 1}
        while "NEGOTIATOR_SUBMITTER_CONSTRAINT" not in "".join(schedd.rejections):
            await schedd.news.wait()
        await publish(host, a_submitter("bob@pool.test", Team=7))
        await schedd.until_offered(2)
        assert schedd.per_submitter == {"ann@pool.test": 1, "bob@pool.test": 1}
        async with host.connected("collector") as peer:
            await peer.call(InvalidateAds(ad_type="Submitter", constraint='Name == "ann@pool.test"'))
        await schedd.announce(wants("ann@pool.test"))
        await trio.sleep(200)
        assert len(schedd.offers) == 2


async def test_slots_are_those_of_the_constraint_that_is_configured_now(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path, NEGOTIATOR_SLOT_CONSTRAINT="SlotID == 1") as host, a_schedd(host) as schedd:
        await publish(host, a_slot("slot1@n", SlotID=1), a_slot("slot2@n", SlotID=2))
        await schedd.announce(wants(count=2))
        assert await schedd.until_offered(1) == ["claim-of-slot1@n"]
        await trio.sleep(100)
        assert len(schedd.offers) == 1
        await reconfigured(host, NEGOTIATOR_SLOT_CONSTRAINT="SlotID == 2")
        assert await schedd.until_offered(2) == ["claim-of-slot1@n", "claim-of-slot2@n"]


async def reconfigured(host: OneHost, **knobs: str) -> None:
    """The negotiator reads this configuration now."""
    start = host.daemons["negotiator"]
    start.source = replace(start.source, overrides={**start.source.overrides, **knobs})
    async with host.connected("negotiator") as peer:
        await peer.call(Reconfigure())


@pytest.mark.parametrize(("delay", "least", "most"), [("0", 0.0, 1.0), ("20", 19.0, 22.0)])
async def test_a_cycle_begins_no_sooner_after_the_last_than_is_configured(
    tmp_path: Path, autojump_clock: Clock, delay: str, least: float, most: float
) -> None:
    async with a_pool(tmp_path, NEGOTIATOR_CYCLE_DELAY=delay) as host, a_schedd(host) as schedd:
        await publish(host, *SLOTS)
        await schedd.announce(wants())
        await schedd.until_offered(1)
        first = trio.current_time()
        await schedd.announce(wants(number=2))
        await schedd.until_offered(2)
        assert least <= trio.current_time() - first <= most


async def test_matches_say_what_is_put_into_the_jobs_ads(tmp_path: Path, autojump_clock: Clock) -> None:
    knobs = {"NEGOTIATOR_MATCH_EXPRS": "PoolMark, NegotiatorMatchExprOwn, Missing", "PoolMark": '"blue"'}
    async with a_pool(tmp_path, **knobs, NegotiatorMatchExprOwn="3 + 4") as host, a_schedd(host) as schedd:
        await publish(host, *SLOTS)
        await schedd.announce(wants())
        await schedd.until_offered(1)
        assert schedd.exprs == [{"NegotiatorMatchExprPoolMark": '"blue"', "NegotiatorMatchExprOwn": "3 + 4"}]
    log = (tmp_path / "log" / "NegotiatorLog").read_text()
    assert "NEGOTIATOR_MATCH_EXPRS names Missing, which is not configured." in log


async def test_slots_that_a_schedd_returns_are_not_offered_to_it_again_and_again(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await publish(host, *SLOTS)
        schedd.takes = False
        await schedd.announce(wants(count=400))
        await schedd.until_offered(4)
        await trio.sleep(0.3)  # what it wants now it says within that time
        assert len(schedd.offers) == 4  # it was offered them in each cycle: over and over
        await schedd.announce(wants(count=4))
        await schedd.until_offered(8)


async def test_cycles_that_come_to_nothing_new_are_counted_in_one_line(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        for number in range(5):
            await schedd.announce(wants(Requirements=False, number=number))
            await trio.sleep(1)
        await publish(host, *SLOTS)
        await schedd.announce(wants())
        await schedd.until_offered(1)
        await trio.sleep(1)
    lines = [line for line in (tmp_path / "log" / "NegotiatorLog").read_text().splitlines() if "Negotiation c" in line]
    assert len(lines) <= 4, lines
    assert "idle_jobs=1 matches=0" in lines[0]
    assert "alike_before=4" in lines[1]
    assert "matches=1" in lines[-1]


async def test_of_one_users_schedds_it_is_not_always_the_same_that_comes_first(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host, "ap1") as one, a_schedd(host, "ap2") as two:
        await one.announce(wants(count=100))
        await two.announce(wants(count=100))
        for number in range(20):
            await publish(host, a_slot(f"slot{number}@n"))
            while len(one.offers) + len(two.offers) <= number:
                await trio.sleep(0.1)
        assert min(len(one.offers), len(two.offers)) >= 4


async def test_a_slow_schedd_is_offered_no_more_when_its_time_is_over_and_others_have_the_slots(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    knobs = {"NEGOTIATOR_MAX_TIME_PER_SCHEDD": "5", "NEGOTIATOR_UPDATE_AFTER_CYCLE": "true"}
    async with a_pool(tmp_path, **knobs) as host, a_schedd(host, "ap1") as slow, a_schedd(host, "ap2") as other:
        await publish(host, *[a_slot(f"slot{number}@n") for number in range(400)])
        await trio.sleep(5)
        slow.thinks_s = 3.0
        await slow.announce(wants(count=300))
        await slow.until_offered(100)  # in two portions of fifty
        (ad,) = await host.until_known("Negotiator", 'LastNegotiationCycleScheddsOutOfTime0 == "ap1"')
        assert ad["LastNegotiationCycleMatches0"] == 300
        assert len(slow.offers) == 100
        await other.announce(wants("bob@pool.test", count=300))
        await other.until_offered(300)
