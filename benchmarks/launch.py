"""From a claim's activation to the job's exec, in a real startd whose schedd is the benchmark; what 1,000 starts leave.

One claim, one job after the other, so that the figures hold nothing of the queue. The moment of the exec is what the
starter reports (it learns of it when the program's image is in place). Figures of two versions are compared in one
sitting, in turns (`paired`).
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import trio

from benchmarks.measure import Figure, p50, p99, pss_bytes, tree
from benchmarks.pool_run import USER, Bench, bench
from pool.ads.seen import AdChange
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.execute.cgroup import claim_group
from protocol.messages.collector import WatchAds
from protocol.messages.offers import ClaimChanged
from protocol.messages.shadow import JobEnded, JobExecuting, JobNotice, JobUpdate, StarterReady
from protocol.messages.startd import ActivateClaim, ReleaseClaim, RequestClaim
from protocol.network.net import RealNetwork
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.security.authorize import Level
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.security.ticket import Bearer, digest_of
from protocol.wire.address import Address
from protocol.wire.message import DONE, Done

PLAIN: Final = {"PER_JOB_NAMESPACES": "false", "USE_PID_NAMESPACES": "false"}
ISOLATED: Final = {"PER_JOB_NAMESPACES": "true", "USE_PID_NAMESPACES": "true", "ASSIGN_CPU_AFFINITY": "true"}
WARM: Final = 200
STARTS: Final = 300
MANY: Final = 1000
PATIENCE_S: Final = 60.0
TICKET: Final = "the benchmark's starters"


def figures() -> Iterator[Figure]:
    """The suite."""
    yield from _starts("without namespaces", PLAIN, "< 10", many=True)
    yield from _starts("with all isolation", ISOLATED, "< 20", many=False)


def _starts(what: str, settings: Mapping[str, str], aim: str, *, many: bool) -> Iterator[Figure]:
    with bench({"NUM_CPUS": "4", "STARTD_DEBUG": "", "STARTER_DEBUG": "", **settings}) as pool:
        times, before, after = trio.run(_run, pool, MANY if many else 0)
        how = (
            f"ActivateClaim sent to the program's exec, one claim, {len(times)} jobs in sequence; p99 {p99(times):.1f}"
        )
        yield Figure(f"activation to exec, {what}, p50", p50(times), "ms", how, aim)
    if many:
        for name, value in _growth(before, after).items():
            yield Figure(f"growth over {MANY} starts: {name}", value, "", f"after {MANY} less after {WARM} starts", "0")


# ---- what is left behind


@dataclass(frozen=True)
class Held:
    """What the pool's processes and the machine hold at one moment."""

    descriptors: int
    processes: int
    groups: int
    sandboxes: int
    pss_mb: float


def held(pool: Bench) -> Held:
    """Count now."""
    processes = [one for one in tree(pool.root) if one.is_running()]
    return Held(
        descriptors=sum(_descriptors(one) for one in processes),
        processes=len(processes),
        groups=_groups(pool),
        sandboxes=len(list((pool.directory / "execute").iterdir())),
        pss_mb=round(pss_bytes(processes) / 1e6, 2),
    )


def _descriptors(process: psutil.Process) -> int:
    try:
        return process.num_fds()
    except psutil.Error:
        return 0


def _groups(pool: Bench) -> int:
    """Control groups of the pool's slots (first hierarchy that can hold a job's)."""
    ours = os.path.basename(claim_group("", str(pool.directory / "execute"), "slot"))
    for mount in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        if os.path.isdir(mount):
            return sum(1 for path, _, _ in os.walk(mount) if f"/{ours}" in path)
    return 0


def _growth(before: Held, after: Held) -> dict[str, float]:
    return {name: round(getattr(after, name) - getattr(before, name), 2) for name in Held.__dataclass_fields__}


# ---- a schedd that does nothing but start jobs


async def _run(pool: Bench, many: int) -> tuple[list[float], Held, Held]:
    async with launcher(pool) as one:
        for _ in range(WARM):
            await one.start()
        before = held(pool)
        times = [await one.start() * 1e3 for _ in range(many or STARTS)]
        await trio.sleep(1.0)
        return times, before, held(pool)


@dataclass
class Launcher:
    """One claim, and the jobs that run under it."""

    startd: Peer
    address: str
    claim_id: str
    heard: dict[tuple[str, str], Any] = field(default_factory=dict)
    news: trio.Event = field(default_factory=trio.Event)
    count: int = 0

    async def start(self) -> float:
        """Run one /bin/true; seconds from the activation to its exec."""
        self.count += 1
        activation = f"launch-{self.count}"
        began = time.time()
        order = ActivateClaim(
            claim_id=self.claim_id,
            concluded=True,  # the one before has reported
            activation=activation,
            job_id=JobId(1, self.count),
            job_ad=_job(),
            shadow_address=self.address,
            ticket=TICKET,
        )
        answer = await self.startd.call(order)
        assert answer.started, answer.reason
        end: JobEnded = await self._until(activation, "JobEnded")
        executing: JobExecuting | None = end.executing or self.heard.get((activation, "JobExecuting"))
        assert executing is not None, end.reason
        self.heard.clear()
        return executing.at - began

    async def _until(self, activation: str, kind: str) -> Any:
        with trio.fail_after(PATIENCE_S):
            while (activation, kind) not in self.heard:
                await self.news.wait()
        return self.heard[activation, kind]

    def hear(self, peer: Peer, message: Any) -> Done:
        """Keep what a starter says."""
        self.heard[message.activation, type(message).__name__] = message
        news, self.news = self.news, trio.Event()
        news.set()
        return DONE


@asynccontextmanager
async def launcher(pool: Bench) -> AsyncGenerator[Launcher, None]:
    """A claimed slot of the pool."""
    security = Security(SecuritySettings(trust_domain="bench", uid_domain="bench"))
    bearer = Bearer(uids=[os.getuid()])
    security.tickets.add(digest_of(TICKET), identity="starter@bench", levels=[Level.READ], bearer=bearer, label="claim")
    address = Address.unix(str(pool.directory / "launcher.sock"))
    service = Service("schedd", needs.SCHEDD)
    async with trio.open_nursery() as nursery:
        listener = await RealNetwork().listen(address)
        await nursery.start(_serve, service, listener, security)
        os.chmod(pool.directory / "launcher.sock", 0o777)
        offer = await _offer(pool)
        starts = Service("schedd", needs.SCHEDD_TO_STARTD)
        starts.offer([answer(ClaimChanged, lambda peer, word: None)])
        async with endpoints.connected(
            str(pool.run_dir / "startd.sock"), security=Security(), service=starts
        ) as startd:
            one = Launcher(startd, str(address), offer)
            for kind in (StarterReady, JobExecuting, JobEnded, JobUpdate, JobNotice):
                service.offer([answer(kind, one.hear)])
            claim = RequestClaim(
                claim_id=offer,
                job_ad=_job(),
                schedd_name="bench",
                submitter=f"{USER}@bench",
                lease_s=2400.0,
                alive_interval_s=300.0,
                shadow_address=str(address),
                ticket=TICKET,
            )
            granted = await startd.call(claim)
            assert granted.granted, granted.reason
            yield one
            await startd.call(ReleaseClaim(claim_id=offer))
        nursery.cancel_scope.cancel()


async def _serve(service: Service, listener: Any, security: Security, *, task_status: Any) -> None:
    await endpoints.serve(service, [listener], security=security, task_status=task_status)


async def _offer(pool: Bench) -> str:
    watch = WatchAds(ad_types=["Machine"], private=True)
    collector = str(pool.run_dir / "collector.sock")
    with trio.fail_after(PATIENCE_S):
        async with endpoints.connected(collector, security=Security()) as peer, peer.stream(watch) as deltas:
            async for delta in deltas:
                if delta.change is not AdChange.SYNCED and delta.private is not None:
                    private: Any = delta.private
                    if found := list(private.get("ClaimIds", [])) or [
                        private[key] for key in private if key == "ClaimId"
                    ]:
                        return str(found[0])
    raise AssertionError("no slot is offered")


def _job() -> ClassAd:
    return ClassAd(
        {
            "ClusterId": 1,
            "ProcId": 0,
            "JobUniverse": 5,
            "Owner": USER if os.getuid() == 0 else Path.home().owner(),
            "User": f"{USER}@bench",
            "Cmd": "/bin/true",
            "Iwd": "/tmp",
            "TransferExecutable": False,
            "ShouldTransferFiles": "NO",
            "RequestCpus": 1,
            "RequestMemory": 128,
            "RequestDisk": 1024,
            "Requirements": True,
        }
    )
