"""What the access point pays for jobs that run: 10,000 sleeping jobs on one schedd.

The schedd and its file agent are real, as is the submit. The negotiator, the startds and the starters are this process:
it speaks their protocol over sockets, with the ad of a real slot, so that what 10,000 jobs cost themselves is not in
the way. As real ones do, the starters rest (they close their connections), the startds report their jobs' usage from
time to time, and the schedd renews the leases. RUNNING_JOBS scales it down. With RUNNING_REST=0, as with
STARTER_REST_AFTER = 0, each starter keeps a connection of its claim to the schedd, and reports itself.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psutil
import trio

from benchmarks.measure import TICKS, Figure, pss_bytes
from benchmarks.pool_run import MB, Bench, bench
from pool.base.errors import PoolError
from pool.base.ids import ClaimId
from pool.classad import ClassAd
from pool.slots.lease import ALIVE_INTERVAL_S
from protocol.messages.negotiator import AnnounceWork, MeetNegotiator, Met, ReturnMatches
from protocol.messages.offers import JobUsed, OfferedMatch, OfferMatches
from protocol.messages.shadow import JobExecuting, JobUpdate, StarterReady, StarterRests
from protocol.messages.startd import (
    ActivateAnswer,
    ActivateClaim,
    Alive,
    ClaimAnswer,
    DeactivateClaim,
    KeepAlive,
    ReleaseClaim,
    RequestClaim,
)
from protocol.network.net import RealNetwork
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.wire.address import Address
from protocol.wire.message import DONE, Done

JOBS: Final = int(os.environ.get("RUNNING_JOBS", "10000"))
RESTS: Final = os.environ.get("RUNNING_REST") != "0"
HOSTS: Final = 100
UPDATE_S: Final = 300.0
"""STARTER_UPDATE_INTERVAL."""
SETTLE_S: Final = 15.0
WATCHED_S: Final = 60.0
PATIENCE_S: Final = 400.0
KNOBS: Final = {
    "DAEMON_LIST": "MASTER COLLECTOR NEGOTIATOR SCHEDD",
    "MAX_JOBS_RUNNING": str(2 * JOBS),
    "ALLOW_ADMINISTRATOR": "*",
}
SLEEP: Final = "executable = /bin/sleep\narguments = 86400\nshould_transfer_files = NO\nlog = {log}\nqueue {count}\n"


def figures() -> Iterator[Figure]:
    """The suite."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each running job has a connection
    slot = _a_real_slot()
    with bench(KNOBS) as pool:
        yield from trio.run(_figures, pool, slot)


def _a_real_slot() -> ClassAd:
    """The ad of a dynamic slot, as a startd makes it."""
    with bench({"NUM_CPUS": "1"}) as pool:
        cluster = pool.submit("executable = /bin/sleep\narguments = 60\nshould_transfer_files = NO\nqueue\n")
        pool.until_status(cluster, 2)
        found = pool.until(lambda: [ad for ad in pool.slots() if ad.eval_str("SlotType") == "Dynamic"], "its slot")
        pool.tool("condor_rm", str(cluster))
        pool.until(lambda: not pool.jobs(), "an empty queue")
        return found[0]


class Machine:
    """A host of the simulated pool: its startd, and a starter's connection for each of its claims."""

    def __init__(self, pool: Bench, nursery: trio.Nursery, number: int, slot: ClassAd) -> None:
        self.name, self.all_run, self._running = f"host{number}", trio.Event(), 0
        self.address = Address.unix(str(pool.run_dir / f"{self.name}.sock"))
        self._nursery, self._slot, self._claims = nursery, slot, set[str]()
        self.service = Service("startd", needs.STARTD)
        self.service.offer(
            [
                answer(RequestClaim, self._claim),
                answer(ActivateClaim, self._activate),
                answer(KeepAlive, self._keep_alive),
                answer(ReleaseClaim, lambda peer, asked: DONE),
                answer(DeactivateClaim, lambda peer, asked: DONE),
            ]
        )

    def offers(self, count: int) -> list[tuple[str, ClassAd]]:
        """So many slots: the claim id and the ad of each."""
        ids = [ClaimId(f"<{self.name}>#1#{number}#secret") for number in range(count)]
        return [(str(id), self._ad(number)) for number, id in enumerate(ids)]

    def _ad(self, number: int) -> ClassAd:
        ad = ClassAd(dict(self._slot.items()))
        ad.update({"Name": f"slot1_{number}@{self.name}", "Machine": self.name, "SlotID": 1, "DSlotID": number})
        return ad

    def _claim(self, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        self._claims.add(asked.claim_id)
        ad = self._ad(int(asked.claim_id.split("#")[2]))
        return ClaimAnswer(
            granted=True,
            slot_name=ad.eval_str("Name", ""),
            slot_ad=ad,
            lease_s=asked.lease_s,
            alive_interval_s=asked.alive_interval_s,
        )

    def _keep_alive(self, peer: Peer, asked: KeepAlive) -> Alive:
        return Alive(held=[id in self._claims for id in asked.claim_ids])

    def _activate(self, peer: Peer, asked: ActivateClaim) -> ActivateAnswer:
        self._nursery.start_soon(self._run, peer, asked)
        return ActivateAnswer(started=True)

    async def _run(self, schedd: Peer, order: ActivateClaim) -> None:
        """A starter whose job sleeps."""
        job, activation = order.job_id, order.activation
        async with trio.open_nursery() as nursery:
            security = Security().with_ticket(order.ticket)
            peer = await _connection(nursery, order.shadow_address, security)
            await peer.call(StarterReady(job_id=job, activation=activation), timeout=None)
            peer.may_rest(ALIVE_INTERVAL_S)
            began = JobExecuting(job_id=job, activation=activation, at=time.time(), ad=ClassAd())
            await peer.call(began, timeout=None)
            if RESTS:
                await peer.call(StarterRests(job_id=job, activation=activation), timeout=None)
                await peer.aclose()
            self._running += 1
            if self._running == JOBS // HOSTS:
                self.all_run.set()
            await trio.sleep(random.uniform(0, UPDATE_S))
            while True:
                if RESTS:
                    claim = ClaimId(order.claim_id).public()
                    await schedd.notify(JobUsed(claim=claim, activation=activation, ad=_usage()))
                else:
                    await peer.notify(JobUpdate(job_id=job, activation=activation, ad=_usage()))
                await trio.sleep(UPDATE_S)


async def _connection(nursery: trio.Nursery, address: str, security: Security) -> Peer:
    """To the schedd, which lets nobody wait who has not said a word in two seconds, as this process may be late to."""
    while True:
        try:
            return await endpoints.open_peer(nursery, address, security=security, network=RealNetwork())
        except PoolError:
            await trio.sleep(1)


def _usage() -> ClassAd:
    """What a starter reports of a job that sleeps."""
    return ClassAd(
        {
            "RemoteUserCpu": 0.01,
            "RemoteSysCpu": 0.02,
            "ImageSize": 6000,
            "ResidentSetSize": 1200,
            "MemoryUsage": 2,
            "DiskUsage": 12,
            "CpusUsage": 0.0,
            "JobState": "Running",
        }
    )


class Matchmaker:
    """The negotiator's place: it learns what the schedd wants, and offers slots on the same connection."""

    def __init__(self) -> None:
        self.news = trio.Event()
        self.announced: AnnounceWork | None = None
        self._schedd: Peer | None = None
        self.service = Service("negotiator", needs.NEGOTIATOR)
        self.service.offer(
            [
                answer(MeetNegotiator, lambda peer, asked: Met(leased=False)),
                answer(AnnounceWork, self._hear),
                answer(ReturnMatches, lambda peer, word: None),
            ]
        )

    def _hear(self, peer: Peer, asked: AnnounceWork) -> Done:
        self._schedd, self.announced = peer, asked
        if asked.requests:
            self.news.set()
        return DONE

    async def offer(self, machine: Machine, count: int) -> None:
        """So many of this host's slots, to whatever waits."""
        assert self.announced is not None
        assert self._schedd is not None
        request = self.announced.requests[0]
        matches = [
            OfferedMatch(
                submitter=request.submitter,
                autocluster=request.autocluster,
                claim_id=id,
                startd_address=str(machine.address),
                slot_ad=ad,
            )
            for id, ad in machine.offers(count)
        ]
        await self._schedd.call(OfferMatches(matches=matches), timeout=None)


@asynccontextmanager
async def _served(service: Service, address: Address) -> AsyncGenerator[None, None]:
    async with trio.open_nursery() as nursery:
        listener = await RealNetwork().listen(address)

        async def serve(*, task_status: Any) -> None:
            await endpoints.serve(service, [listener], security=Security(), task_status=task_status)

        await nursery.start(serve)
        yield
        nursery.cancel_scope.cancel()


def _without_negotiator(pool: Bench) -> None:
    """Its place is this process's."""
    pool.tool("condor_off", "-daemon", "negotiator")
    pool.until(lambda: not pool.pid_of("negotiator"), "the negotiator's end")


async def _figures(pool: Bench, slot: ClassAd) -> list[Figure]:
    matchmaker = Matchmaker()
    await trio.to_thread.run_sync(_without_negotiator, pool)
    async with _served(matchmaker.service, Address.unix(str(pool.run_dir / "negotiator.sock"))):
        description = SLEEP.format(log=pool.home / "running.log", count=JOBS)
        await trio.to_thread.run_sync(pool.submit, description)
        schedd = psutil.Process(pool.pid_of("schedd"))
        await trio.sleep(SETTLE_S)
        before = pss_bytes([schedd])
        async with trio.open_nursery() as nursery:
            machines = [Machine(pool, nursery, number, slot) for number in range(HOSTS)]
            took = await _start_all(nursery, matchmaker, machines)
            await trio.sleep(SETTLE_S)
            grown = pss_bytes([schedd]) - before
            used = _cpu(schedd)
            await trio.sleep(WATCHED_S)
            used = _cpu(schedd) - used
            nursery.cancel_scope.cancel()
    return [
        Figure("start of all", JOBS / took, "jobs/s", f"{JOBS} jobs, the first offer to the last program"),
        Figure("schedd, memory for each", grown / JOBS / 1e3, "kB", f"growth of its PSS, {grown / MB:.0f} MB", "<= 8"),
        Figure("schedd, CPU of all", used / WATCHED_S * 100, "% of a core", f"{WATCHED_S:.0f} s, nothing happens", "1"),
    ]


async def _start_all(nursery: trio.Nursery, matchmaker: Matchmaker, machines: list[Machine]) -> float:
    began = trio.current_time()
    with trio.fail_after(PATIENCE_S):
        await matchmaker.news.wait()
        for machine in machines:

            async def live(machine: Machine = machine, *, task_status: Any) -> None:
                async with _served(machine.service, machine.address):
                    task_status.started()
                    await trio.sleep_forever()

            await nursery.start(live)
            await matchmaker.offer(machine, JOBS // HOSTS)
        for machine in machines:
            await machine.all_run.wait()
    return trio.current_time() - began


def _cpu(process: psutil.Process) -> float:
    with open(f"/proc/{process.pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
