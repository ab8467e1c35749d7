"""A real schedd among fakes on a virtual clock: a negotiator that matches what it is told to, startds, file agents.

    async with a_bench(tmp_path) as bench:
        cluster = await bench.submit(a_job(RunsFor=60), count=3)
        startd = await bench.startd("one", slots=2)
        await bench.match(startd)                  # as many jobs as it has free slots
        await bench.until(lambda: bench.status(cluster) == {RUNNING: 2, IDLE: 1})

A job ad says how its job behaves: RunsFor (seconds; 0), ExitWith, HoldWith (a hold code instead of an exit), Stubborn
(it does not leave when told to), and Refused (the startd refuses to activate it).
"""

from __future__ import annotations

import pwd
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from pool.base.errors import PeerError, PoolError
from pool.base.ids import ClaimId, JobId
from pool.classad import ClassAd, expr
from pool.jobs.userlog.reader import EventReader
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.common import StopHow
from protocol.messages.negotiator import AnnounceWork, MeetNegotiator, Met, ReturnMatches
from protocol.messages.offers import ClaimChange, ClaimChanged, OfferedMatch, OfferMatches
from protocol.messages.schedd import Action, ActOnJobs, Outcome, QueryHistory, QueryJobs, Selection
from protocol.messages.shadow import JobEnded, JobExecuting, StarterReady
from protocol.messages.startd import (
    ActivateAnswer,
    ActivateClaim,
    Alive,
    ClaimAnswer,
    ContinueClaim,
    DeactivateClaim,
    EarlyOrder,
    KeepAlive,
    ReconnectAnswer,
    ReconnectClaim,
    ReleaseClaim,
    RequestClaim,
    SuspendClaim,
)
from protocol.messages.submit import SubmitJobs
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address
from protocol.wire.codec import pack_ads
from protocol.wire.message import DONE, Done
from tests.daemons.one_host import OneHost, one_host
from tests.fakes.agents import Agents

USER = "daemon"
"""An ordinary account that every host has."""
LOG = "/home/ann/log"
PATIENCE_S = 5000.0
FIRST_PAUSE_S, SLOWER = 0.05, 1.3


def a_job(**attributes: object) -> ClassAd:
    """A cluster ad of a job that takes any slot."""
    return ClassAd(
        {
            "Cmd": "/bin/true",
            "Iwd": "/home/ann",
            "UserLog": LOG,
            "JobLeaseDuration": 600,
            "Requirements": expr("TARGET.Memory >= RequestMemory"),
            "RequestMemory": 1,
            "RequestCpus": 1,
            "ShouldTransferFiles": "NO",
            **attributes,
        }
    )


@dataclass
class Running:
    """An activation at a fake startd."""

    order: ActivateClaim
    early: bool = False
    """It was begun with the grant of the claim."""
    told: ClassAd | None = None
    """The job, as the schedd then told the starter of it."""
    over: trio.Event = field(default_factory=trio.Event)
    stopped: trio.Event = field(default_factory=trio.Event)
    stops: list[DeactivateClaim] = field(default_factory=list)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    acknowledged: bool = False


class FakeStartd:
    """Grants its claims, and runs jobs as their ads say."""

    def __init__(self, bench: Bench, name: str, slots: int) -> None:
        self.bench = bench
        self.name = name
        self.address = str(bench.host.directory / "run" / f"{name}.sock")
        self.offers = [ClaimId(f"<{name}>#1#{n}#secret") for n in range(slots)]
        self.claims: dict[str, RequestClaim] = {}
        self.running: dict[str, Running] = {}
        self.orders: list[ActivateClaim] = []
        self.released: list[str] = []
        self.lost_releases = 0
        """So many of the next words that a slot is given back are lost with their connection."""
        self.concluded: list[bool] = []
        """What was said with the releases that came."""
        self.alive: list[float] = []
        self.refuses = ""
        self.grants = trio.Event()
        """Until it is set, the schedd hears nothing of a claim, though that is granted."""
        self.grants.set()
        self.asked: list[RequestClaim] = []
        self.early: list[Running] = []
        """What was begun with grants."""
        self.has: dict[str, object] = {}
        """What its slots say beside the ordinary."""
        self.peers: dict[str, Peer] = {}
        self._up = trio.CancelScope()
        self.service = Service("startd", needs.STARTD)
        self.service.offer(
            [
                answer(RequestClaim, self.claim),
                answer(ActivateClaim, self.activate),
                answer(DeactivateClaim, self.deactivate),
                answer(ReleaseClaim, self.release),
                answer(KeepAlive, self.keep_alive),
                answer(ReconnectClaim, self.reconnect),
                answer(SuspendClaim, lambda peer, asked: DONE),
                answer(ContinueClaim, lambda peer, asked: DONE),
            ]
        )

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until `vanish`."""
        network = self.bench.host.network
        with trio.CancelScope() as self._up:
            listener = await network.listen(Address.unix(self.address))
            await endpoints.serve(self.service, [listener], security=self.bench.host.security, task_status=task_status)

    async def vanish(self) -> None:
        """The machine is gone, with all that runs there."""
        self._up.cancel()
        for running in self.running.values():
            running.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()

    def lose_connections(self) -> None:
        """The network breaks for a moment."""
        for peer in set(self.peers.values()):
            peer.abort("broken")

    def slot(self, offer: ClaimId) -> ClassAd:
        return ClassAd(
            {
                "Name": f"slot{self.offers.index(offer) + 1}@{self.name}",
                "MyType": "Machine",
                "Machine": self.name,
                "Memory": 1024,
                "Cpus": 1,
                "Disk": 1000,
                "OpSys": "LINUX",
                "Requirements": True,
                "MachineResources": "Cpus Memory Disk",
                **self.has,
            }
        )

    # ---- what a schedd asks

    async def claim(self, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        self.asked.append(asked)
        if self.refuses:
            return ClaimAnswer(granted=False, reason=self.refuses)
        self.claims[asked.claim_id] = asked
        self.peers[asked.claim_id] = peer
        if asked.early is not None and not asked.job_ad.eval_bool("Refused", False):
            self._begin_early(asked, asked.early)
        await self.grants.wait()
        offer = next(offer for offer in self.offers if offer == asked.claim_id)
        return ClaimAnswer(
            granted=True,
            slot_name=self.slot(offer).eval_str("Name", ""),
            slot_ad=self.slot(offer),
            lease_s=asked.lease_s,
            alive_interval_s=asked.alive_interval_s,
        )

    def _begin_early(self, asked: RequestClaim, early: EarlyOrder) -> None:
        order = ActivateClaim(
            claim_id=asked.claim_id,
            activation=early.activation,
            job_id=early.job_id,
            job_ad=asked.job_ad,
            shadow_address=asked.shadow_address,
            ticket=asked.ticket,
        )
        self.running[asked.claim_id] = running = Running(order, early=True)
        self.early.append(running)
        self.bench.nursery.start_soon(self._run, running)

    async def activate(self, peer: Peer, asked: ActivateClaim) -> ActivateAnswer:
        before = self.running.get(asked.claim_id)
        if before is not None and before.order.activation == asked.activation:
            self.orders.append(asked)
            return ActivateAnswer(started=True)
        if before is not None and asked.concluded:
            await before.over.wait()
        if asked.claim_id not in self.claims:
            return ActivateAnswer(started=False, reason="no such claim", claim_is_good=False)
        if asked.job_ad.eval_bool("Refused", False):
            return ActivateAnswer(started=False, reason="I do not like it", claim_is_good=False)
        self.orders.append(asked)
        self.running[asked.claim_id] = running = Running(asked)
        self.bench.nursery.start_soon(self._run, running)
        return ActivateAnswer(started=True, lease_s=asked.job_ad.eval_float("JobLeaseDuration", 0.0))

    def deactivate(self, peer: Peer, asked: DeactivateClaim) -> Done:
        running = self.running.get(asked.claim_id)
        if running is not None:
            running.stops.append(asked)
            if not running.order.job_ad.eval_bool("Stubborn", False):
                running.stopped.set()
        return DONE

    async def release(self, peer: Peer, asked: ReleaseClaim) -> Done:
        if self.lost_releases:
            self.lost_releases -= 1
            peer.abort("broken")
            raise PeerError("nobody hears this")
        self.concluded.append(asked.concluded)
        self.claims.pop(asked.claim_id, None)
        self.released.append(asked.claim_id)
        running = self.running.get(asked.claim_id)
        if running is not None:
            running.scope.cancel()
        await peer.notify(ClaimChanged(claim=ClaimId(asked.claim_id).public(), change=ClaimChange.RELEASED))
        return DONE

    def keep_alive(self, peer: Peer, asked: KeepAlive) -> Alive:
        self.alive.append(trio.current_time())
        return Alive(held=[claim_id in self.claims for claim_id in asked.claim_ids])

    def reconnect(self, peer: Peer, asked: ReconnectClaim) -> ReconnectAnswer:
        id = next((one for one in self.claims if ClaimId(one).digest() == asked.digest), "")
        if not id:
            return ReconnectAnswer(held=False)
        self.peers[id] = peer
        running = self.running.get(id)
        activation = "" if running is None else running.order.activation
        return ReconnectAnswer(held=True, activation=activation, claim_id=id if asked.needs_id else "")

    async def tell(self, claim_id: str, change: ClaimChange, reason: str = "", **more: Any) -> None:
        """Say something about a claim."""
        public = ClaimId(claim_id).public()
        await self.peers[claim_id].notify(ClaimChanged(claim=public, change=change, reason=reason, **more))

    # ---- its starters

    async def _run(self, running: Running) -> None:
        order = running.order
        with running.scope:
            async with trio.open_nursery() as nursery:
                await self._report(nursery, running)
                nursery.cancel_scope.cancel()
        if self.running.get(order.claim_id) is running:
            del self.running[order.claim_id]
        running.over.set()

    async def _report(self, nursery: trio.Nursery, running: Running) -> None:
        order = running.order
        security = Security(SecuritySettings(trust_domain="pool.test", uid_domain="pool.test")).with_ticket(
            order.ticket
        )
        began, ran, ended = 0.0, False, None
        while True:
            try:
                peer = await endpoints.open_peer(
                    nursery, order.shadow_address, security=security, network=self.bench.host.network
                )
                ready = StarterReady(job_id=order.job_id, activation=order.activation, wants_job=running.early)
                running.told = (await peer.call(ready, timeout=None)).job_ad
                began = began or self.bench.host.world.wall()
                await peer.call(JobExecuting(job_id=order.job_id, activation=order.activation, at=began, ad=ClassAd()))
                if not ran:
                    runs_for = order.job_ad.eval_float("RunsFor", 0.0)
                    with trio.move_on_after(runs_for):
                        await running.stopped.wait()
                    ran = True
                if ended is None:
                    ended = self._ended(running)
                await peer.call(ended, timeout=None)
                running.acknowledged = True
                return
            except endpoints.RemoteError:
                return
            except PoolError:
                await trio.sleep(1)

    def _ended(self, running: Running) -> JobEnded:
        order = running.order
        if running.stopped.is_set():
            ending, ad = Ending.EVICTED, ClassAd()
        elif "HoldWith" in order.job_ad:
            ending = Ending.HOLD
            ad = ClassAd(
                {
                    "HoldReason": "cannot",
                    "HoldReasonCode": order.job_ad["HoldWith"],
                    "HoldReasonSubCode": order.job_ad.get("HoldReasonSub", 2),
                }
            )
        else:
            ending = Ending.EXITED
            ad = ClassAd({"ExitBySignal": False, "ExitCode": order.job_ad.eval_int("ExitWith", 0)})
        return JobEnded(
            job_id=order.job_id,
            activation=order.activation,
            ending=ending,
            at=self.bench.host.world.wall(),
            ad=ad,
        )


class Bench:
    """The schedd and everything around it."""

    def __init__(self, host: OneHost, nursery: trio.Nursery, agents: Agents) -> None:
        self.host = host
        self.nursery = nursery
        self.agents = agents
        self.announced: AnnounceWork | None = None
        self.announcements = 0
        self.returned: list[str] = []
        self.schedd_peer: Peer | None = None
        self.startds: list[FakeStartd] = []

    async def start(self) -> None:
        """Start the fake negotiator, and the schedd."""
        service = Service("negotiator", needs.NEGOTIATOR)
        service.offer(
            [
                answer(MeetNegotiator, lambda peer, request: Met(leased=False)),
                answer(AnnounceWork, self._announce),
                answer(ReturnMatches, lambda peer, message: self.returned.extend(message.claim_ids)),
            ]
        )
        listener = await self.host.network.listen(Address.unix(str(self.host.directory / "run" / "negotiator.sock")))
        await self.nursery.start(
            lambda task_status: endpoints.serve(
                service, [listener], security=self.host.security, task_status=task_status
            )
        )
        await self.host.start("schedd")

    def _announce(self, peer: Peer, request: AnnounceWork) -> Done:
        self.announced, self.schedd_peer = request, peer
        self.announcements += 1
        return DONE

    async def startd(self, name: str = "one", slots: int = 1) -> FakeStartd:
        """One more fake startd."""
        startd = FakeStartd(self, name, slots)
        self.startds.append(startd)
        await self.nursery.start(startd.serve)
        return startd

    async def match(self, startd: FakeStartd, count: int | None = None) -> int:
        """Offer slots to what was announced, when there is something; how many were taken."""
        await self.until(lambda: self.announced is not None and bool(self.announced.requests))
        assert self.announced is not None
        assert self.schedd_peer is not None
        request = self.announced.requests[0]
        free = [offer for offer in startd.offers if offer not in startd.claims][:count]
        matches = [
            OfferedMatch(
                submitter=request.submitter,
                autocluster=request.autocluster,
                claim_id=str(offer),
                startd_address=startd.address,
                slot_ad=startd.slot(offer),
            )
            for offer in free
        ]
        return (await self.schedd_peer.call(OfferMatches(matches=matches))).taken

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so; in virtual time, so the patience is a bound on events and not on this machine."""
        pause = FIRST_PAUSE_S
        with trio.fail_after(PATIENCE_S):
            while not condition():
                await trio.sleep(pause)
                pause *= SLOWER

    @asynccontextmanager
    async def connected(self, user: str = USER) -> AsyncGenerator[Peer, None]:
        """A connection as an ordinary user."""
        uid = pwd.getpwnam(user).pw_uid
        address = Address.unix(str(self.host.directory / "run" / "schedd.sock"))
        security = Security(SecuritySettings(trust_domain="pool.test", uid_domain="pool.test"))
        async with endpoints.connected(address, network=self.host.network.as_user(uid), security=security) as peer:
            yield peer

    async def submit(self, cluster_ad: ClassAd, *procs: Mapping[str, object], user: str = USER, **more: Any) -> int:
        """Submit as an ordinary user; the cluster's id."""
        ads = [ClassAd(proc) for proc in procs] or [ClassAd()]
        async with self.connected(user) as peer:
            answer = await peer.call(SubmitJobs(cluster_ad=cluster_ad, procs=[pack_ads(ads)], **more))
        return answer.cluster

    async def act(
        self, action: Action, *ids: str, user: str = USER, reason: str | None = None, **more: Any
    ) -> list[Outcome]:
        """Do something to jobs; the outcomes in order."""
        async with self.connected(user) as peer:
            answer = await peer.call(ActOnJobs(select=Selection(ids=list(ids)), action=action, reason=reason, **more))
        return [result.outcome for result in answer.results]

    async def ads(self, constraint: str | None = None) -> dict[str, ClassAd]:
        """The jobs in the queue."""
        async with self.connected() as peer:
            async with peer.stream(QueryJobs(select=Selection(constraint=constraint))) as batches:
                ads = [ad async for batch in batches for ad in batch.ads]
        return {str(JobId(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0))): ad for ad in ads}

    async def history(self, **more: Any) -> list[ClassAd]:
        """The jobs that have left it."""
        async with self.connected() as peer:
            async with peer.stream(QueryHistory(select=Selection(), **more)) as batches:
                return [ad async for batch in batches for ad in batch.ads]

    async def statuses(self) -> Counter[JobStatus]:
        """How many jobs are in which state."""
        return Counter(JobStatus(ad.eval_int("JobStatus", 0)) for ad in (await self.ads()).values())

    async def until_status(self, **counts: int) -> None:
        """Wait until the queue has exactly these: `await bench.until_status(running=2, idle=1)`."""
        wanted = Counter({JobStatus[name.upper()]: count for name, count in counts.items()})
        pause = FIRST_PAUSE_S
        with trio.fail_after(PATIENCE_S):
            while await self.statuses() != wanted:
                await trio.sleep(pause)
                pause *= SLOWER

    async def ad(self, job: str) -> ClassAd:
        """One job's ad, from the queue or the history."""
        found = (await self.ads()).get(job)
        if found is not None:
            return found
        for ad in await self.history():
            if f"{ad['ClusterId']}.{ad['ProcId']}" == job:
                return ad
        raise AssertionError(f"there is no job {job}")

    def events(self, job: str, log: str = LOG) -> list[int]:
        """The numbers of a job's events, in the order of the log."""
        found = EventReader().feed(self.agents.logs.get(log, ""))
        return [event.number for event in found if str(event.job) == job]

    async def until_events(self, job: str, numbers: list[int], log: str = LOG) -> None:
        """Wait until a job's log has exactly these events."""
        await self.until(lambda: self.events(job, log) == numbers)

    async def restart(self, *, kill: bool = True) -> None:
        """The schedd dies, or is stopped, and starts again."""
        if kill:
            await self.host.kill("schedd")
        else:
            await self.host.stop("schedd", StopHow.FAST)
        self.announced = None
        await self.host.start("schedd")


@asynccontextmanager
async def a_bench(directory: Path, **overrides: str) -> AsyncIterator[Bench]:
    """A schedd among fakes for the time of the block."""
    agents = Agents()
    knobs = {"DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD", **overrides}
    async with one_host(directory, overrides=knobs, zygote=agents) as host, trio.open_nursery() as nursery:
        bench = Bench(host, nursery, agents)
        await bench.start()
        yield bench
        nursery.cancel_scope.cancel()
