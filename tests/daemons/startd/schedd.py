"""A startd with a collector and fake starters on a virtual clock, and a schedd's side of its claims for tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import trio

from pool.ads.seen import AdChange
from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.collector import QueryAds, WatchAds
from protocol.messages.common import StopHow
from protocol.messages.offers import ClaimChange, ClaimChanged
from protocol.messages.startd import (
    ActivateAnswer,
    ActivateClaim,
    ClaimAnswer,
    DeactivateClaim,
    EarlyOrder,
    KeepAlive,
    ReleaseClaim,
    RequestClaim,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from tests.daemons.one_host import OneHost, one_host
from tests.fakes.starters import FakeStarter, Farm

KNOBS = {"NUM_CPUS": "4", "MEMORY": "4096", "DISK": "1000000", "SPARE_STARTERS": "1", "POLLING_INTERVAL": "30"}


def a_job(**attributes: object) -> ClassAd:
    """A job that asks for one core, 128 MB and 1 MB of disk, and takes any slot."""
    return ClassAd(
        {
            "JobUniverse": 5,
            "Owner": "alice",
            "User": "alice@pool.test",
            "RequestCpus": 1,
            "RequestMemory": 128,
            "RequestDisk": 1024,
            "Requirements": True,
            **attributes,
        }
    )


@dataclass
class Held:
    """A claim, as its schedd knows it."""

    claim_id: str
    answer: ClaimAnswer
    job: ClassAd

    @property
    def slot(self) -> str:
        return self.answer.slot_name


@dataclass
class FakeSchedd:
    """One schedd's connection to the startd, and what it was told on it."""

    peer: Peer
    name: str = "schedd@pool.test"
    told: list[ClaimChanged] = field(default_factory=list)
    count: int = 0
    heard: trio.Event = field(default_factory=trio.Event)

    async def claim(
        self,
        claim_id: str,
        job: ClassAd | None = None,
        *,
        lease_s: float = 2400.0,
        room: Sequence[str] = (),
        early: str = "",
    ) -> Held:
        """Ask for a claim; `early`: the execution that may begin with the grant."""
        job = job if job is not None else a_job()
        request = RequestClaim(
            claim_id=claim_id,
            job_ad=job,
            schedd_name=self.name,
            submitter="alice@pool.test",
            lease_s=lease_s,
            alive_interval_s=300.0,
            shadow_address="<shadow>",
            ticket="ticket",
            room=list(room),
            early=EarlyOrder(activation=early, job_id=JobId(1, 0)) if early else None,
        )
        return Held(claim_id, await self.peer.call(request, timeout=None), job)

    async def run(
        self, held: Held, job: ClassAd | None = None, *, activation: str = "", concluded: bool = False
    ) -> ActivateAnswer:
        """Run a job under the claim; `concluded`: the one before has reported its end."""
        self.count += 1
        return await self.peer.call(
            ActivateClaim(
                claim_id=held.claim_id,
                activation=activation or f"{self.name}-{self.count}",
                job_id=JobId(1, self.count - 1),
                job_ad=job if job is not None else held.job,
                shadow_address="<shadow>",
                ticket="ticket",
                concluded=concluded,
            ),
            timeout=None,
        )

    async def stop(self, held: Held, how: StopHow = StopHow.GRACEFUL) -> None:
        await self.peer.call(DeactivateClaim(claim_id=held.claim_id, how=how, reason="test"))

    async def release(self, held: Held, how: StopHow = StopHow.GRACEFUL, *, concluded: bool = False) -> None:
        await self.peer.call(ReleaseClaim(claim_id=held.claim_id, how=how, concluded=concluded))

    async def alive(self, *held: Held) -> list[bool]:
        return (await self.peer.call(KeepAlive(claim_ids=[one.claim_id for one in held]))).held

    async def until_told(self, change: ClaimChange) -> ClaimChanged:
        """Wait for such a word, and return it."""
        while True:
            for word in self.told:
                if word.change is change:
                    return word
            await self.heard.wait()

    def hear(self, peer: Peer, word: ClaimChanged) -> None:
        self.told.append(word)
        heard, self.heard = self.heard, trio.Event()
        heard.set()


@dataclass
class Bench:
    """The startd under test."""

    host: OneHost
    farm: Farm

    @asynccontextmanager
    async def schedd(self, name: str = "schedd@pool.test") -> AsyncGenerator[FakeSchedd, None]:
        service = Service("schedd", needs.SCHEDD_TO_STARTD)
        async with self.host.connected("startd", service=service) as peer:
            schedd = FakeSchedd(peer, name)
            service.offer([answer(ClaimChanged, schedd.hear)])
            yield schedd

    async def ads(self) -> dict[str, ClassAd]:
        """The slots' ads as the startd shows them, by short name."""
        async with self.host.connected("startd") as peer, peer.stream(QueryAds(ad_type="Machine")) as batches:
            found = [ad async for batch in batches for ad in batch.ads]
        return {str(ad.eval("Name")).partition("@")[0]: ad for ad in found}

    async def where(self, slot: str = "slot1") -> str:
        """State and activity; empty when there is no such slot."""
        ad = (await self.ads()).get(slot.partition("@")[0])
        return f"{ad.eval('State')}/{ad.eval('Activity')}" if ad is not None else ""

    async def until(self, where: str, slot: str = "slot1") -> None:
        """Wait until the collector sees the slot there (empty: until there is no such slot)."""
        watch = WatchAds(ad_types=["Machine"])
        seen = ""
        async with self.host.connected("collector") as peer, peer.stream(watch) as deltas:
            async for delta in deltas:
                if delta.change is not AdChange.SYNCED:
                    if delta.name.partition("@")[0] != slot.partition("@")[0]:
                        continue
                    seen = f"{delta.ad['State']}/{delta.ad['Activity']}" if delta.ad is not None else ""
                if seen == where and (seen or delta.change is not AdChange.UPDATE):
                    return

    async def offers(self, slot: str = "slot1") -> list[str]:
        """The claim ids that the collector has for a slot."""
        watch = WatchAds(ad_types=["Machine"], private=True)
        async with self.host.connected("collector") as peer, peer.stream(watch) as deltas:
            async for delta in deltas:
                if delta.change is AdChange.SYNCED:
                    break
                if delta.name.partition("@")[0] == slot and delta.private is not None:
                    private: Any = delta.private
                    return list(private.get("ClaimIds", [])) or [private[name] for name in private if name == "ClaimId"]
        return []

    async def offer(self, slot: str = "slot1") -> str:
        """One id that is good for a claim, as soon as the collector has one."""
        while True:
            if found := await self.offers(slot):
                return found[0]
            await trio.sleep(0.05)

    async def until_running(self, job: str = "1.0") -> FakeStarter:
        while (starter := self.farm.running(job)) is None:
            await trio.sleep(0.01)
        return starter


@asynccontextmanager
async def a_bench(
    directory: Path, *, files: tuple[str, ...] = (), only_files: bool = False, spawner: Any = None, **knobs: str
) -> AsyncIterator[Bench]:
    """A startd that is ready, with a collector; `only_files`: the files say what the machine has."""
    farm = Farm()
    async with one_host(directory, overrides=knobs if only_files else {**KNOBS, **knobs}, zygote=farm) as host:
        host.source = replace(host.source, files=files)
        host.world = replace(host.world, spawner=spawner or host.world.spawner)
        await host.start("collector")
        await host.start("startd")
        yield Bench(host, farm)
