"""What a collector forwards to those of CONDOR_VIEW_HOST; on a virtual clock, over the real protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daemons.collector.forwarding import Forwarding, view_addresses
from pool.ads.table import AdStore
from pool.classad import ClassAd
from protocol.messages.collector import AdUpdate, InvalidateAds, UpdateAds, WatchAds
from tests.daemons.one_host import OneHost, one_host
from tests.fakes.network import FakeNetwork

TOP, SUB = "cm.pool.test", "sub.pool.test"


def a_machine(name: str = "slot1@n", **attributes: object) -> AdUpdate:
    ad = ClassAd({"MyType": "Machine", "Name": name, "Machine": "n", "State": "Unclaimed", **attributes})
    return AdUpdate(ad=ad, private=ClassAd({"ClaimId": f"<a>#1#1#secret-of-{name}"}))


@asynccontextmanager
async def a_tree(path: Path, **knobs: str) -> AsyncIterator[tuple[OneHost, OneHost]]:
    """The collector above, and one that forwards to it."""
    network = FakeNetwork()
    top, sub = (network.host(name, duties={"central"}) for name in (TOP, SUB))
    below = {"CONDOR_VIEW_HOST": f"{TOP}, {SUB}", "DAEMON_LIST": "MASTER COLLECTOR", **knobs}
    async with one_host(path / "top", top) as above, one_host(path / "sub", sub, overrides=below) as one:
        await above.start("collector")
        await one.start("collector")
        yield above, one


async def publish(host: OneHost, *updates: AdUpdate) -> None:
    async with host.connected("collector") as peer:
        await peer.call(UpdateAds(updates=list(updates)))


async def claim_ids(host: OneHost) -> dict[str, str | None]:
    """The private halves that its negotiator sees."""
    found: dict[str, str | None] = {}
    async with host.connected("collector") as peer:
        async with peer.stream(WatchAds(ad_types=["Machine"], private=True)) as deltas:
            async for delta in deltas:
                if delta.ad is None:
                    return found
                found[delta.name] = None if delta.private is None else delta.private.eval_str("ClaimId")
    return found


async def test_the_collector_above_has_machines_and_submitters_and_what_becomes_of_them(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with a_tree(tmp_path) as (top, sub):
        submitter = ClassAd({"MyType": "Submitter", "Name": "ann@n", "ScheddName": "n", "Machine": "n", "IdleJobs": 3})
        schedd = ClassAd({"MyType": "Scheduler", "Name": "n", "Machine": "n"})
        await publish(sub, a_machine(), *(AdUpdate(ad=ad) for ad in (submitter, schedd)))
        (machine,) = await top.until_known("Machine")
        await top.until_known("Submitter", "IdleJobs == 3")
        assert "sub.pool.test" in machine.eval_str("AuthenticatedIdentity", "")
        assert await claim_ids(top) == {"slot1@n": "<a>#1#1#secret-of-slot1@n"}
        await publish(sub, a_machine(State="Claimed"))
        await top.until_known("Machine", 'State == "Claimed"')
        async with sub.connected("collector") as peer:
            await peer.call(InvalidateAds(ad_type="Machine", names=["slot1@n"]))
        with trio.fail_after(5):
            while await top.query("Machine"):
                await trio.sleep(0.05)
        assert await top.query("Scheduler") == []
        assert {ad["Name"] for ad in await top.query("Collector")} == {f"My Pool - {TOP}"}


async def take_back(host: OneHost, name: str) -> None:
    async with host.connected("collector") as peer:
        assert (await peer.call(InvalidateAds(ad_type="Machine", names=[name]))).count == 1


async def until_known_are(host: OneHost, *names: str) -> None:
    with trio.fail_after(200):
        while {ad.eval_str("Name", "") for ad in await host.query("Machine")} != set(names):
            await trio.sleep(0.5)


async def test_what_goes_while_the_collector_above_is_out_of_reach_is_taken_back_there(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with a_tree(tmp_path) as (top, sub):
        long = 100_000
        await publish(sub, a_machine("a", ClassAdLifetime=long), a_machine("b", ClassAdLifetime=long))
        await until_known_are(top, "a", "b")
        top.network.network.cut(TOP, SUB)
        await take_back(sub, "a")
        await trio.sleep(100)
        top.network.network.heal(TOP, SUB)
        await until_known_are(top, "b")


async def test_what_goes_while_forwarding_begins_again_is_taken_back_above(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with a_tree(tmp_path) as (top, sub):
        start, table = sub.daemons["collector"], AdStore()
        forwarding = Forwarding(start, table, view_addresses(start.config))
        for name in ("a", "b"):
            table.put(a_machine(name, ClassAdLifetime=100_000).ad, now=start.world.wall(), sender="n")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forwarding.run)
            await until_known_are(top, "a", "b")
            nursery.cancel_scope.cancel()
        table.remove("Machine", "a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forwarding.run)
            await until_known_are(top, "b")
            nursery.cancel_scope.cancel()


async def test_what_was_forwarded_outlives_its_collectors_end_by_its_lifetime(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with a_tree(tmp_path) as (top, sub):
        await publish(sub, a_machine(ClassAdLifetime=1000))
        await top.until_known("Machine")
        await trio.sleep(800)
        await sub.stop("collector")
        await trio.sleep(500)
        assert len(await top.query("Machine")) == 1  # heard of until that end
        await sub.start("collector")
        await publish(sub, a_machine(Cpus=7))
        await top.until_known("Machine", "Cpus == 7")
        await trio.sleep(901)
        assert await top.query("Machine") == []


async def test_with_filtering_only_what_is_watched_is_news_until_the_interval_is_over(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    knobs = {"COLLECTOR_FORWARD_FILTERING": "true", "COLLECTOR_FORWARD_INTERVAL": "60", "UPDATE_INTERVAL": "100000"}
    async with a_tree(tmp_path, **knobs) as (top, sub):
        await publish(sub, a_machine(Cpus=1, LoadAvg=0.1))
        await top.until_known("Machine")
        await publish(sub, a_machine(Cpus=1, LoadAvg=0.2))
        await trio.sleep(30)
        assert [ad["LoadAvg"] for ad in await top.query("Machine")] == [0.1]
        await publish(sub, a_machine(Cpus=2, LoadAvg=0.3))
        await top.until_known("Machine", "Cpus == 2 && LoadAvg == 0.3")
        await trio.sleep(61)
        await publish(sub, a_machine(Cpus=2, LoadAvg=0.4))
        await top.until_known("Machine", "LoadAvg == 0.4")


@pytest.mark.parametrize(
    ("knobs", "attributes", "private"),
    [
        ({"COLLECTOR_FORWARD_CLAIMED_PRIVATE_ADS": "false"}, {"State", "Machine", "Cpus"}, None),
        (
            {"COLLECTOR_FORWARD_PROJECTION": 'IfThenElse(State is "Claimed", "State, Cpus", "")'},
            {"State", "Cpus"},
            "own",
        ),
        ({"NEGOTIATOR_CONSIDER_PREEMPTION": "false"}, {"State", "Machine", "Cpus"}, None),
    ],
)
async def test_of_claimed_slots_less_can_be_forwarded(
    knobs: dict[str, str],
    attributes: set[str],
    private: str | None,
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_tree(tmp_path, **knobs) as (top, sub):
        await publish(sub, a_machine(State="Claimed", Cpus=4), a_machine("slot2@n", Cpus=2))
        claimed, free = await top.until_known("Machine", count=2)
        assert {"State", "Machine", "Cpus"} & set(claimed) == attributes
        assert {"State", "Machine", "Cpus"} <= set(free)
        ids = await claim_ids(top)
        assert (ids["slot1@n"] is not None) == (private is not None)
        assert ids["slot2@n"] is not None
