"""The negotiator's slots are kept by what a collector says of changes alone: here a collector that says what it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.negotiator.sleepers import Sleepers
from daemons.negotiator.slots import SlotWatch
from pool.ads.seen import AdChange
from pool.classad import ClassAd, expr
from pool.matching import Offers
from protocol.messages.collector import AdDelta, WatchAds
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import SendItem, answer
from tests.daemons.one_host import OneHost, one_host

Clock = trio.testing.MockClock
NAME = "slot1@n"
SYNCED = AdDelta(change=AdChange.SYNCED)


def whole(**attributes: object) -> AdDelta:
    ad = {"Name": NAME, "MyAddress": "<10.0.0.1:9618?sock=startd>", "State": "Unclaimed", "Cpus": 1, **attributes}
    return AdDelta(change=AdChange.UPDATE, name=NAME, ad=ClassAd(ad), private=ClassAd({"ClaimId": "first"}))


def change(*removed: str, claim_id: str = "", **attributes: object) -> AdDelta:
    private = ClassAd({"ClaimId": claim_id}) if claim_id else None
    return AdDelta(change=AdChange.CHANGE, name=NAME, ad=ClassAd(attributes), private=private, removed=list(removed))


class TellingCollector:
    """It says these changes to whoever watches; `watches` is how often somebody began to."""

    def __init__(self) -> None:
        self.told: list[AdDelta] = [whole(), SYNCED]
        self.watches = 0
        self._news = Signal()

    def tell(self, *deltas: AdDelta) -> None:
        self.told += deltas
        self._news.fire()

    async def watch(self, peer: Peer, request: WatchAds, send: SendItem[AdDelta]) -> None:
        assert request.changes_only
        self.watches += 1
        said = 0
        while True:
            news = self._news.next()
            while said < len(self.told):
                await send(self.told[said])
                said += 1
            await news.wait()

    async def main(self, start: DaemonStart, *, task_status: trio.TaskStatus[None]) -> None:
        start.service.offer([answer(WatchAds, self.watch)])
        async with trio.open_nursery() as nursery:
            await nursery.start(start.serve)
            task_status.started()
            await start.stopping()
            nursery.cancel_scope.cancel()


class Watched:
    """A SlotWatch, the slots that it keeps, and how many cycles it has asked for."""

    def __init__(self, start: DaemonStart, asked_for: Callable[[ClassAd | None, ClassAd], bool]) -> None:
        self.offers, self.cycles = Offers(), 0
        self.watch = SlotWatch(start, self.offers, self._changed, asked_for, Sleepers(start))

    def _changed(self) -> None:
        self.cycles += 1

    def ad(self) -> ClassAd:
        found = self.offers.ad(NAME)
        assert found is not None
        return found

    def claim_ids(self) -> tuple[str, ...]:
        return next(offer.claim_ids for offer in self.offers.current() if offer.name == NAME)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await trio.sleep(0.05)


@asynccontextmanager
async def watched(host: OneHost, collector: TellingCollector) -> AsyncIterator[Watched]:
    """What is asked for is Docker."""
    start = await host.start("collector", collector.main)
    one = Watched(start, lambda before, ad: before is not None and before.get("HasDocker") != ad.get("HasDocker"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.watch.run)
        await one.watch.synced.wait()
        yield one
        nursery.cancel_scope.cancel()


async def test_what_a_change_does_not_name_stays_and_what_it_takes_away_goes(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with one_host(tmp_path) as host, watched(host, collector := TellingCollector()) as slots:
        collector.tell(change(Memory=2048, Ready=expr("Memory > 1024")))
        await slots.until(lambda: "Ready" in slots.ad())
        assert (slots.ad()["Cpus"], slots.ad()["State"], slots.ad().eval("Ready")) == (1, "Unclaimed", True)
        collector.tell(change("Ready", Memory=512))
        await slots.until(lambda: "Ready" not in slots.ad())
        assert (slots.ad()["Memory"], slots.ad()["Cpus"]) == (512, 1)
        collector.tell(AdDelta(change=AdChange.REMOVE, name=NAME))
        await slots.until(lambda: slots.offers.ad(NAME) is None)


async def test_a_claim_id_holds_until_a_change_brings_another(tmp_path: Path, autojump_clock: Clock) -> None:
    async with one_host(tmp_path) as host, watched(host, collector := TellingCollector()) as slots:
        collector.tell(change(LoadAvg=0.5))
        await slots.until(lambda: "LoadAvg" in slots.ad())
        assert slots.claim_ids() == ("first",)
        collector.tell(change(claim_id="second"))
        await slots.until(lambda: slots.claim_ids() == ("second",))
        collector.tell(change("LoadAvg"))
        await slots.until(lambda: "LoadAvg" not in slots.ad())
        assert slots.claim_ids() == ("second",)


async def test_a_change_asks_for_a_cycle_only_where_it_matters(tmp_path: Path, autojump_clock: Clock) -> None:
    async with one_host(tmp_path) as host, watched(host, collector := TellingCollector()) as slots:
        before = slots.cycles
        collector.tell(change(LoadAvg=0.5), change("LoadAvg"), change(Mark=1))
        await slots.until(lambda: "Mark" in slots.ad())
        assert slots.cycles == before
        for count, news in enumerate(
            [change(State="Claimed"), change("State"), change(HasDocker=True), change(claim_id="second")], 1
        ):
            collector.tell(news)
            await slots.until(lambda count=count: slots.cycles == before + count)


async def test_a_change_of_a_slot_that_was_never_told_of_begins_the_watch_anew(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with one_host(tmp_path) as host, watched(host, collector := TellingCollector()) as slots:
        collector.told[:] = [whole(Memory=1), SYNCED]  # what the next watch hears; this one has heard two
        collector.tell(AdDelta(change=AdChange.CHANGE, name="slot2@n", ad=ClassAd({"State": "Claimed"})))
        await slots.until(lambda: collector.watches == 2)
        collector.told.pop()
        await slots.until(lambda: collector.watches == 3 and "Memory" in slots.ad())
        assert slots.offers.ad("slot2@n") is None
        assert "it tells of a change of slot2@n" in (host.directory / "log" / "CollectorLog").read_text()


async def test_a_machine_that_is_offline_offers_nothing_until_it_is_not(tmp_path: Path, autojump_clock: Clock) -> None:
    async with one_host(tmp_path) as host, watched(host, collector := TellingCollector()) as slots:
        collector.tell(change(Offline=True))
        await slots.until(lambda: slots.offers.ad(NAME) is None)
        collector.tell(change("Offline", claim_id="second"))
        await slots.until(lambda: slots.offers.ad(NAME) is not None)
        assert (slots.ad()["Cpus"], slots.claim_ids()) == (1, ("second",))
        collector.tell(change(Offline=True))
        await slots.until(lambda: slots.offers.ad(NAME) is None)
        collector.tell(change("Offline"))
        await slots.until(lambda: slots.offers.ad(NAME) is not None)
        assert slots.claim_ids() == ("second",), "what is not told again is as it was"


async def test_what_slots_read_of_jobs_is_learned_with_each_change_and_forgotten_with_the_slot(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with one_host(tmp_path) as host, watched(host, collector := TellingCollector()) as slots:
        collector.tell(change(Start=expr("MyPolicy"), MyPolicy=expr("TARGET.Foo > 3")))
        await slots.until(lambda: slots.watch.read.names == {"foo"})
        collector.tell(change(MyPolicy=expr("TARGET.Bar > 3")))
        await slots.until(lambda: slots.watch.read.names == {"bar"})
        collector.tell(change(Offline=True, MyPolicy=expr("TARGET.Baz > 3")))
        await slots.until(lambda: slots.watch.read.names == {"baz"})
        collector.tell(AdDelta(change=AdChange.REMOVE, name=NAME))
        await slots.until(lambda: slots.watch.read.names == set())
