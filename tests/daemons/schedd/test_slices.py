"""A schedd and several negotiators, each with a slice of the pool's slots, on a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from pool.base.errors import PoolError
from pool.classad import ClassAd
from protocol.messages.collector import AdUpdate, InvalidateAds, UpdateAds
from protocol.messages.negotiator import AnnounceWork, MeetNegotiator, Met, SubmitterHolds
from protocol.messages.offers import OfferedMatch, OfferMatches, Rejection, RejectRequests
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.wire.address import Address
from protocol.wire.message import DONE, Done
from tests.daemons.schedd.bench import Bench, FakeStartd, a_bench, a_job

ONE = SubmitterHolds(slots=1, weight=1.0)
USER = "daemon@pool.test"


class FakeNegotiator:
    """Answers to a local name, and says of which slice it is."""

    def __init__(self, bench: Bench, name: str, slice: str) -> None:
        self.bench, self.name, self.slice = bench, name, slice
        self.path = str(bench.host.directory / "run" / f"negotiator-{name}.sock")
        self.peer: Peer | None = None
        self.said: AnnounceWork | None = None
        self.held: dict[str, str] = {}
        self.met = 0
        self._up = trio.CancelScope()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        service = Service("negotiator", needs.NEGOTIATOR)
        service.offer([answer(MeetNegotiator, self._meet), answer(AnnounceWork, self._announce)])
        with self._up:
            listener = await self.bench.host.network.listen(Address.unix(self.path))
            await endpoints.serve(service, [listener], security=self.bench.host.security, task_status=task_status)

    async def advertise(self, **attributes: object) -> None:
        ad = {"MyType": "Negotiator", "Name": f"{self.name}@cm.pool.test", "MyAddress": self.path, **attributes}
        async with self.bench.host.connected("collector") as peer:
            await peer.call(UpdateAds(updates=[AdUpdate(ad=ClassAd(ad))]))

    def end(self) -> None:
        self._up.cancel()

    def _meet(self, peer: Peer, request: MeetNegotiator) -> Met:
        self.met, self.peer = self.met + 1, peer
        return Met(leased=False, slice=self.slice, name=self.path)

    def _announce(self, peer: Peer, request: AnnounceWork) -> Done:
        self.peer, self.said = peer, request
        self.held.update(request.held)
        for slot in request.given_back:
            self.held.pop(slot, None)
        return DONE

    @property
    def waits(self) -> int:
        """How many jobs wait, as it has heard."""
        return sum(one.count for one in self.said.requests) if self.said is not None else 0

    async def offer(self, startd: FakeStartd, number: int) -> int:
        assert self.said is not None
        assert self.peer is not None
        request, offer = self.said.requests[0], startd.offers[number]
        match = OfferedMatch(
            submitter=request.submitter,
            autocluster=request.autocluster,
            claim_id=str(offer),
            startd_address=startd.address,
            slot_ad=startd.slot(offer),
        )
        return (await self.peer.call(OfferMatches(matches=[match]))).taken


async def a_negotiator(bench: Bench, name: str, slice: str, **attributes: object) -> FakeNegotiator:
    made = FakeNegotiator(bench, name, slice)
    await bench.nursery.start(made.serve)
    await made.advertise(**attributes)
    return made


async def test_each_slice_is_told_all_that_is_held_and_charged_what_it_gave(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.host.start("collector")
        fast = await a_negotiator(bench, "fast", "fast")
        slow = await a_negotiator(bench, "slow", "slow")
        await bench.submit(a_job(RunsFor=1000), {}, {}, {})
        await bench.until(lambda: fast.waits == slow.waits == 3)
        startd = await bench.startd(slots=3)
        assert await fast.offer(startd, 0) == 1
        await bench.until(lambda: slow.waits == 2)
        assert await slow.offer(startd, 1) == 1
        both = {"slot1@one": USER, "slot2@one": USER}
        await bench.until(lambda: fast.held == slow.held == both)
        assert fast.said is not None
        assert slow.said is not None
        assert fast.said.in_use == slow.said.in_use == {USER: ONE}
        assert bench.announced is not None
        assert bench.announced.in_use == {}  # the third slice's negotiator has given nothing


async def test_what_a_negotiator_that_is_gone_gave_is_charged_by_all(tmp_path: Path, autojump_clock: object) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.host.start("collector")
        fast = await a_negotiator(bench, "fast", "fast")
        await bench.submit(a_job(RunsFor=1000), {}, {})
        await bench.until(lambda: fast.waits == 2)
        startd = await bench.startd(slots=2)
        await fast.offer(startd, 0)
        await bench.until(lambda: bench.announced is not None and bench.announced.held == {"slot1@one": USER})
        fast.end()
        await bench.restart()
        await bench.until(lambda: bench.announced is not None and bench.announced.in_use == {USER: ONE})


async def test_of_two_negotiators_of_one_slice_one_is_listened_to(tmp_path: Path, autojump_clock: object) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.host.start("collector")
        first = await a_negotiator(bench, "first", "x")
        await bench.submit(a_job(), {})
        await bench.until(lambda: first.waits == 1)
        second = await a_negotiator(bench, "second", "x")
        await bench.until(lambda: second.met == 1)
        await trio.sleep(60)
        assert second.said is None
        first.end()
        await bench.until(lambda: second.waits == 1)


async def test_matches_of_a_negotiator_that_is_not_listened_to_are_refused(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.host.start("collector")
        first = await a_negotiator(bench, "first", "x")
        await bench.submit(a_job(), {})
        await bench.until(lambda: first.waits == 1)
        second = await a_negotiator(bench, "second", "x")
        await bench.until(lambda: second.met == 1)
        startd = await bench.startd(slots=1)
        second.said = first.said
        with pytest.raises(PoolError, match="another negotiator has this schedd's lease"):
            await second.offer(startd, 0)
        assert await first.offer(startd, 0) == 1


async def test_a_negotiator_that_is_reached_in_two_ways_is_met_once(tmp_path: Path, autojump_clock: object) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.host.start("collector")
        fast = await a_negotiator(bench, "fast", "fast")
        await bench.until(lambda: fast.met == 1)
        (bench.host.directory / "run" / "other.sock").symlink_to(fast.path)
        fast.name = "alias"
        await fast.advertise(MyAddress=str(bench.host.directory / "run" / "other.sock"))
        await trio.sleep(60)
        await bench.submit(a_job(), {})
        await bench.until(lambda: fast.waits == 1)


async def test_why_a_job_waits_is_told_for_each_slice(tmp_path: Path, autojump_clock: object) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.host.start("collector")
        fast = await a_negotiator(bench, "fast", "fast")
        cluster = await bench.submit(a_job(), {})
        await bench.until(lambda: fast.waits == 1)
        await bench.until(lambda: bench.announced is not None and bool(bench.announced.requests))
        assert fast.said is not None
        assert fast.peer is not None
        assert bench.schedd_peer is not None
        autocluster = fast.said.requests[0].autocluster
        for peer, reason in ((fast.peer, "it is full"), (bench.schedd_peer, "no match found")):
            rejection = Rejection(submitter=USER, autocluster=autocluster, reason=reason)
            await peer.notify(RejectRequests(rejections=[rejection]))
        job = f"{cluster}.0"
        both = "no match found; fast: it is full"
        with trio.fail_after(60):
            while (await bench.ad(job)).eval_str("LastRejMatchReason") != both:
                await trio.sleep(0.1)
        fast.end()
        async with bench.host.connected("collector") as peer:
            await peer.call(InvalidateAds(ad_type="Negotiator", names=["fast@cm.pool.test"]))
        with trio.fail_after(60):
            while (await bench.ad(job)).eval_str("LastRejMatchReason") != "no match found":
                await trio.sleep(0.1)
