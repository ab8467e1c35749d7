"""The negotiator between a collector and schedds, on a virtual clock, over the real protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daemons.negotiator.store import AccountStore
from pool.accounting.accounts import SUBMITTER_CHARS_MAX, Accountant, SubmitterUse, weight_of
from pool.classad import ClassAd, expr
from protocol.messages.collector import AdUpdate, UpdateAds
from protocol.messages.common import GetAd
from protocol.messages.negotiator import (
    AnnounceWork,
    ForgetSubmitter,
    GetPriorities,
    ResetUsage,
    ResourceRequest,
    ReturnMatches,
    SetPriority,
    SubmitterHolds,
)
from protocol.messages.offers import MatchesTaken, NegotiatorReads, OfferMatches, ReadsNoted, RejectRequests
from protocol.rpc.endpoints import Peer, RemoteError
from protocol.rpc.service import Service, answer
from protocol.security import needs
from tests.daemons.one_host import OneHost, one_host

Clock = trio.testing.MockClock


def a_slot(name: str, ids: list[str] | None = None, **attributes: object) -> AdUpdate:
    ad = {
        "MyType": "Machine",
        "Name": name,
        "Machine": name.rpartition("@")[2],
        "MyAddress": "<10.0.0.1:9618?sock=startd>",
        "State": "Unclaimed",
        "Cpus": 1,
        "Memory": 1024,
        "Disk": 10_000_000,
        "SlotWeight": expr("Cpus"),
        "Requirements": True,
        **attributes,
    }
    private = (
        {"ClaimIds": ids} if attributes.get("PartitionableSlot") else {"ClaimId": (ids or [f"claim-of-{name}"])[0]}
    )
    return AdUpdate(ad=ClassAd(ad), private=ClassAd(private))


def wants(submitter: str = "alice@pool.test", count: int = 1, *, number: int = 1, **ad: object) -> ResourceRequest:
    job = {"RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1, "Requirements": True, **ad}
    return ResourceRequest(submitter=submitter, autocluster=number, ad=ClassAd(job), count=count)


class FakeSchedd:
    """Says what it wants, and notes what it gets."""

    def __init__(self, name: str = "ap1") -> None:
        self.name = name
        self.offers: list[str] = []
        self.per_submitter: Counter[str] = Counter()
        self.rejections: list[str] = []
        self.news = trio.Event()
        self.peer: Peer | None = None
        self.in_use: dict[str, SubmitterHolds] = {}
        self.heard = 0
        self.knows = self.takes = True
        self.thinks_s = 0.0
        self.reads: list[str] = []
        self.exprs: list[dict[str, str]] = []
        self.service = Service("schedd", needs.SCHEDD_TO_NEGOTIATOR)
        self.service.offer(
            [
                answer(OfferMatches, self._offered),
                answer(RejectRequests, self._rejected),
                answer(NegotiatorReads, self._told_what_is_read),
            ]
        )

    async def _offered(self, peer: Peer, request: OfferMatches) -> MatchesTaken:
        self.offers += [match.claim_id for match in request.matches]
        self.per_submitter.update(match.submitter for match in request.matches)
        self.exprs += [match.exprs for match in request.matches]
        self.heard = request.number
        await trio.sleep(self.thinks_s)
        if not self.takes:
            await peer.notify(ReturnMatches(claim_ids=[match.claim_id for match in request.matches]))
            self._tell()
            return MatchesTaken(taken=0)
        for match in request.matches:
            had = self.in_use.get(match.submitter, SubmitterHolds(slots=0, weight=0.0))
            weight = had.weight + weight_of(match.slot_ad)
            self.in_use[match.submitter] = SubmitterHolds(slots=had.slots + 1, weight=weight)
        self._tell()
        return MatchesTaken(taken=len(request.matches))

    def _told_what_is_read(self, peer: Peer, request: NegotiatorReads) -> ReadsNoted:
        """A schedd that has known it all along needs not say anything anew."""
        news, self.reads = not self.knows, request.attributes
        self._tell()
        return ReadsNoted(anew=news)

    def _rejected(self, peer: Peer, message: RejectRequests) -> None:
        self.rejections += [rejection.reason for rejection in message.rejections]
        self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = trio.Event()

    async def announce(self, *requests: ResourceRequest, held: dict[str, str] | None = None) -> None:
        assert self.peer is not None
        await self.peer.call(
            AnnounceWork(
                schedd=self.name, requests=list(requests), held=held or {}, in_use=self.in_use, heard=self.heard
            )
        )

    async def until_offered(self, count: int) -> list[str]:
        while len(self.offers) < count:
            await self.news.wait()
        return self.offers

    async def until_rejected(self) -> list[str]:
        while not self.rejections:
            await self.news.wait()
        return self.rejections


@asynccontextmanager
async def a_pool(path: Path, **knobs: str) -> AsyncIterator[OneHost]:
    async with one_host(path, overrides=knobs) as host:
        await host.start("collector")
        await host.start("negotiator")
        yield host


@asynccontextmanager
async def a_schedd(host: OneHost, name: str = "ap1") -> AsyncIterator[FakeSchedd]:
    schedd = FakeSchedd(name)
    async with host.connected("negotiator", service=schedd.service) as peer:
        schedd.peer = peer
        yield schedd


async def publish(host: OneHost, *slots: AdUpdate) -> None:
    async with host.connected("collector") as peer:
        await peer.call(UpdateAds(updates=list(slots)))


async def test_new_work_is_matched_at_once(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await publish(host, a_slot("slot1@n"))
        await trio.sleep(5)
        before = trio.current_time()
        await schedd.announce(wants())
        assert await schedd.until_offered(1) == ["claim-of-slot1@n"]
        assert trio.current_time() - before < 1


async def test_a_freed_slot_starts_a_cycle_at_once(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await schedd.announce(wants())
        assert await schedd.until_rejected() == ["no match found"]
        before = trio.current_time()
        await publish(host, a_slot("slot1@n"))
        assert await schedd.until_offered(1) == ["claim-of-slot1@n"]
        assert trio.current_time() - before < 1


async def test_what_waiting_jobs_ask_for_starts_a_cycle_when_a_slot_gets_it(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await publish(host, a_slot("slot1@n", HasDocker=False))
        await schedd.announce(wants(Requirements=expr("TARGET.HasDocker")))
        assert await schedd.until_rejected() == ["no match found"]
        before = trio.current_time()
        await publish(host, a_slot("slot1@n", HasDocker=True))
        assert await schedd.until_offered(1) == ["claim-of-slot1@n"]
        assert trio.current_time() - before < 1


async def test_a_slot_that_was_handed_out_is_not_offered_again_until_match_timeout(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_pool(tmp_path, MATCH_TIMEOUT="120") as host, a_schedd(host) as schedd:
        await publish(host, a_slot("slot1@n"))
        await schedd.announce(wants(count=2))
        await schedd.until_offered(1)
        await publish(host, a_slot("slot1@n", LoadAvg=0.5))  # says nothing about the claim
        await trio.sleep(119)
        assert len(schedd.offers) == 1
        await trio.sleep(2)
        assert await schedd.until_offered(2) == ["claim-of-slot1@n"] * 2


async def test_returned_matches_go_to_others(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host, "ap1") as one, a_schedd(host, "ap2") as two:
        await publish(host, a_slot("slot1@n"))
        await one.announce(wants("alice@pool.test"))
        (claim_id,) = await one.until_offered(1)
        await two.announce(wants("bob@pool.test"))
        await two.until_rejected()
        assert one.peer is not None
        await one.peer.notify(ReturnMatches(claim_ids=[claim_id]))
        assert await two.until_offered(1) == [claim_id]


async def test_p4_what_a_lost_schedd_was_handed_is_offered_again(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host, "ap2") as two:
        await publish(host, a_slot("slot1@n"))
        async with a_schedd(host, "ap1") as one:
            await one.announce(wants())
            await one.until_offered(1)
        await two.announce(wants("bob@pool.test"))
        assert await two.until_offered(1) == ["claim-of-slot1@n"]


async def test_a_partitionable_slot_serves_many_jobs_in_one_cycle(tmp_path: Path, autojump_clock: Clock) -> None:
    ids = [f"id{n}" for n in range(8)]
    slot = a_slot(
        "slot1@n", ids, PartitionableSlot=True, Cpus=8, Memory=8192, Requirements=expr("TARGET.RequestCpus <= MY.Cpus")
    )
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await publish(host, slot)
        await schedd.announce(wants(count=9, RequestCpus=2))
        assert await schedd.until_offered(4) == ids[:4]
        await trio.sleep(1)
        assert len(schedd.offers) == 4


async def test_a_better_priority_gets_more(tmp_path: Path, autojump_clock: Clock) -> None:
    slots = [a_slot(f"slot{n}@n") for n in range(1, 7)]
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        assert schedd.peer is not None
        await schedd.peer.call(SetPriority(submitter="a@pool.test", attribute="PriorityFactor", value=1000.0))
        await schedd.peer.call(SetPriority(submitter="b@pool.test", attribute="PriorityFactor", value=2000.0))
        await publish(host, *slots)
        await trio.sleep(1)
        await schedd.announce(wants("a@pool.test", 9, number=1), wants("b@pool.test", 9, number=2))
        await schedd.until_offered(6)
        assert schedd.per_submitter == {"a@pool.test": 4, "b@pool.test": 2}
        priorities = (await schedd.peer.call(GetPriorities())).submitters
        assert {ad["Name"]: ad["PriorityFactor"] for ad in priorities} == {"a@pool.test": 1000.0, "b@pool.test": 2000.0}


async def test_use_is_charged_and_survives_a_restart(tmp_path: Path, autojump_clock: Clock) -> None:
    claimed = {"State": "Claimed", "RemoteOwner": "alice@pool.test", "RemoteUser": "alice@pool.test", "Cpus": 4}
    async with a_pool(tmp_path, PRIORITY_HALFLIFE="1000", CLASSAD_LIFETIME="100000") as host:
        await publish(host, a_slot("slot1@n", **claimed), a_slot("slot2@n", **claimed))
        async with a_schedd(host) as schedd:
            await schedd.announce(held={"slot1@n": "alice@pool.test", "slot2@n": "bob@pool.test"})
        await trio.sleep(2000)  # the schedd is gone; its jobs run on
        await host.stop("negotiator")
        await host.start("negotiator")
        async with host.connected("negotiator") as peer:
            (ad,) = (await peer.call(GetPriorities())).submitters
        assert ad["Name"] == "alice@pool.test"
        assert ad["WeightedAccumulatedUsage"] == pytest.approx(8000, rel=0.01)
        assert ad["AccumulatedUsage"] == pytest.approx(2000, rel=0.01)
        assert ad["Priority"] == pytest.approx(1000 * (0.5 * 0.25 + 4 * 0.75), rel=0.01)
        assert len(await host.until_known("Accounting")) == 1


async def test_what_is_changed_is_in_the_file_when_that_is_answered(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, host.connected("negotiator") as peer:
        file = host.daemons["negotiator"].config.path("ACCOUNTANT_DATABASE_FILE")

        def on_disk() -> list[tuple[str, float, float]]:
            store = AccountStore(file)
            found = [(one.submitter, one.factor, one.usage_s) for one in store.load()[0].values()]
            store.close()
            return found

        await peer.call(SetPriority(submitter="a@pool.test", attribute="PriorityFactor", value=7.0))
        assert on_disk() == [("a@pool.test", 7.0, 0.0)]
        await peer.call(SetPriority(submitter="a@pool.test", attribute="AccumulatedUsage", value=3600.0))
        assert on_disk() == [("a@pool.test", 7.0, 3600.0)]
        await peer.call(ResetUsage())
        assert on_disk() == [("a@pool.test", 7.0, 0.0)]
        await peer.call(ForgetSubmitter(submitter="a@pool.test"))
        assert on_disk() == []


async def test_usage_is_reset_for_all_and_a_record_forgotten_for_good(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host:
        async with host.connected("negotiator") as peer:
            for user in ("a@pool.test", "b@pool.test"):
                await peer.call(SetPriority(submitter=user, attribute="AccumulatedUsage", value=3600.0))
                await peer.call(SetPriority(submitter=user, attribute="LastUsageTime", value=1000.0))
            await peer.call(ResetUsage())
            for _ in range(2):  # to forget one who is not known is done already
                await peer.call(ForgetSubmitter(submitter="a@pool.test"))
        await host.stop("negotiator")
        await host.start("negotiator")
        async with host.connected("negotiator") as peer:
            (ad,) = (await peer.call(GetPriorities())).submitters
        assert (ad["Name"], ad["AccumulatedUsage"], ad["LastUsageTime"]) == ("b@pool.test", 0.0, 1000)


async def test_the_negotiator_goes_on_after_the_collector_was_lost(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await publish(host, a_slot("slot1@n"))
        await trio.sleep(1)
        await host.kill("collector")
        await host.start("collector")
        await publish(host, a_slot("slot2@n"))
        await host.until_known("Negotiator")
        await trio.sleep(15)
        await schedd.announce(wants(count=2))
        assert await schedd.until_offered(1) == ["claim-of-slot2@n"]
        await trio.sleep(1)
        assert len(schedd.offers) == 1  # slot1 was not said again


async def test_p10_only_daemons_announce_work_and_only_administrators_set_priorities(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_pool(tmp_path) as host:
        host.network = host.network.as_user(4711)
        async with host.connected("negotiator") as peer:
            with pytest.raises(RemoteError, match="ADVERTISE_SCHEDD"):
                await peer.call(AnnounceWork(schedd="mine", requests=[wants()]))
            with pytest.raises(RemoteError, match="ADMINISTRATOR"):
                await peer.call(SetPriority(submitter="me", attribute="Priority", value=1.0))
            with pytest.raises(RemoteError, match="ADMINISTRATOR"):
                await peer.call(ForgetSubmitter(submitter="me"))
            with pytest.raises(RemoteError, match="ADMINISTRATOR"):
                await peer.call(ResetUsage())


async def test_a_submitter_whose_name_is_a_book_has_no_account(tmp_path: Path, autojump_clock: Clock) -> None:
    long, longest = "x" * 1000 + "@pool.test", "y" * (SUBMITTER_CHARS_MAX - len("@p")) + "@p"
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        assert schedd.peer is not None
        a_slot_held = SubmitterHolds(slots=1, weight=1.0)
        for _ in range(3):
            requests = [wants(long), wants(longest), wants()]
            await schedd.peer.call(
                AnnounceWork(schedd=schedd.name, requests=requests, in_use={long: a_slot_held, longest: a_slot_held})
            )
            await schedd.until_rejected()
        names = {ad.eval_str("Name") for ad in (await schedd.peer.call(GetPriorities())).submitters}
        assert names >= {"alice@pool.test", longest}
        assert long not in names
        said = (host.directory / "log" / "NegotiatorLog").read_text()
        assert said.count("is refused: a name of 1010 characters") == 1
        assert long not in said
        with pytest.raises(RemoteError):
            await schedd.peer.call(SetPriority(submitter=long, attribute="PriorityFactor", value=10.0))


def test_a_slot_makes_no_account_of_a_book() -> None:
    accountant = Accountant()
    accountant.charge({"x" * 1000: SubmitterUse(1, 1.0), "alice": SubmitterUse(1, 1.0)}, now=1.0)
    assert set(accountant.accounts) == {"alice"}


async def test_the_ad_tells_of_the_last_cycles(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        await publish(host, a_slot("slot1@n"))
        await trio.sleep(1)
        await schedd.announce(wants(count=3))
        await schedd.until_offered(1)
        await trio.sleep(1)
        assert schedd.peer is not None
        ad = (await schedd.peer.call(GetAd())).ad
        cycles = [ad[name] for name in ad if name.startswith("LastNegotiationCycleMatches")]
        assert sum(cycles) == 1
        told = {name.removeprefix("LastNegotiationCycle")[:-1] for name in ad if name.endswith("0")}
        assert set(OF_A_CYCLE.split()) <= told
        assert 0 < ad["LastNegotiationCyclePhase4CpuTime0"] <= ad["LastNegotiationCycleCpuTime0"]
        assert "secret" not in ad.long()


OF_A_CYCLE = """
ActiveSubmitterCount CandidateSlots CpuTime Duration End Matches MatchRate MatchRateSustained NumIdleJobs
NumJobsConsidered NumSchedulers Period Phase1CpuTime Phase1Duration Phase2CpuTime Phase2Duration Phase3CpuTime
Phase3Duration Phase4CpuTime Phase4Duration Pies PieSpins PrefetchCpuTime PrefetchDuration Rejections ScheddsOutOfTime
SlotShareIter SubmittersFailed SubmittersOutOfTime SubmittersShareLimit Time TotalSlots TrimmedSlots
"""
"""What a negotiator of HTCondor 25 says of each cycle."""


@pytest.mark.parametrize("said", ["", "True", "False", None], ids=["empty", "true", "false", "the default"])
async def test_empty_preemption_requirements_require_nothing(
    tmp_path: Path, autojump_clock: Clock, said: str | None
) -> None:
    knobs = {} if said is None else {"PREEMPTION_REQUIREMENTS": said}
    async with a_pool(tmp_path, **knobs) as host, a_schedd(host) as schedd:
        assert schedd.peer is not None
        await schedd.peer.call(SetPriority(submitter="greedy@p", attribute="PriorityFactor", value=2000.0))
        schedd.in_use["greedy@p"] = SubmitterHolds(slots=1, weight=1.0)
        taken = {"State": "Claimed", "RemoteOwner": "greedy@p", "CurrentRank": 0.0, "Rank": 0.0}
        await publish(host, a_slot("slot1@n", **taken))
        await trio.sleep(1)
        await schedd.announce(wants("late@p"), held={"slot1@n": "greedy@p"})
        if said in ("", "True"):
            assert await schedd.until_offered(1) == ["claim-of-slot1@n"]
        else:
            assert await schedd.until_rejected() == ["no match found"]
