"""What a broken execute host can make of the jobs that it is given: results, and nothing that is their owner's to say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pool.classad import ClassAd, expr
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.shadow import (
    JobEnded,
    JobExecuting,
    JobUpdate,
    ReadJobAttribute,
    SetJobAttributes,
    StarterReady,
    WriteToLog,
)
from protocol.messages.startd import ActivateClaim, ClaimAnswer, RequestClaim
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer, RemoteError
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.message import Request, replace
from tests.daemons.schedd.bench import Bench, FakeStartd, Running, a_bench, a_job

Clock = trio.testing.MockClock

TO_FILES_OF_THE_OWNER = {
    "WantIOProxy": "true",
    "TransferInput": '"/home/ann/.ssh/id_ed25519"',
    "TransferOutputRemaps": '"x = /home/ann/.ssh/authorized_keys"',
    "Iwd": '"/home/ann/.ssh"',
    "Cmd": '"/bin/evil"',
}


class RogueStartd(FakeStartd):
    """It grants its claims, and says what it likes of the jobs."""

    async def _report(self, nursery: trio.Nursery, running: Running) -> None:
        await trio.sleep_forever()

    def order(self) -> ActivateClaim:
        return self.orders[-1]


@asynccontextmanager
async def as_starter(bench: Bench, order: ActivateClaim) -> AsyncGenerator[Peer, None]:
    """A connection with the ticket of a claim."""
    security = Security(SecuritySettings(trust_domain="pool.test", uid_domain="pool.test")).with_ticket(order.ticket)
    async with endpoints.connected(order.shadow_address, security=security, network=bench.host.network) as peer:
        await peer.call(StarterReady(job_id=order.job_id, activation=order.activation))
        yield peer


def ids_of(order: ActivateClaim) -> dict[str, Any]:
    """What every word about an execution begins with."""
    return {"job_id": order.job_id, "activation": order.activation}


async def rogue(bench: Bench, **attributes: object) -> RogueStartd:
    """A job runs there."""
    startd = RogueStartd(bench, "one", 1)
    bench.startds.append(startd)
    await bench.nursery.start(startd.serve)
    await bench.submit(a_job(**attributes))
    await bench.match(startd)
    await bench.until(lambda: bool(startd.orders))
    return startd


async def test_a_host_changes_no_job_that_has_not_asked_for_it(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await rogue(bench)
        order = startd.order()
        ids = ids_of(order)
        before = await bench.ad("1.0")
        requests: list[Request[Any]] = [
            SetJobAttributes(**ids, assignments=TO_FILES_OF_THE_OWNER),
            SetJobAttributes(**ids, assignments={"Note": "1"}),
            ReadJobAttribute(**ids, name="Cmd"),
            WriteToLog(**ids, text="from the host"),
        ]
        async with as_starter(bench, order) as peer:
            for request in requests:
                with pytest.raises(RemoteError, match="has not asked"):
                    await peer.call(request)
        after = await bench.ad("1.0")
        assert {name: after.get(name) for name in TO_FILES_OF_THE_OWNER} == {
            name: before.get(name) for name in TO_FILES_OF_THE_OWNER
        }


async def test_a_job_that_may_change_its_ad_does_not_open_its_owners_files_so(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        order = (await rogue(bench, WantRemoteUpdates=True)).order()
        ids = ids_of(order)
        async with as_starter(bench, order) as peer:
            for name, value in TO_FILES_OF_THE_OWNER.items():
                with pytest.raises(RemoteError, match=name):
                    await peer.call(SetJobAttributes(**ids, assignments={name: value}))
            await peer.call(SetJobAttributes(**ids, assignments={"Progress": "7", "AgentRequirements": "true"}))
        assert (await bench.ad("1.0"))["Progress"] == 7


SUBMITTERS_WORDS = {
    "WantIOProxy": True,
    "WantRemoteUpdates": True,
    "TransferInput": "/etc/passwd",
    "PreserveRelativePaths": True,
    "NotifyUser": "evil@elsewhere",
    "JobNotification": 3,
    "PeriodicRemove": expr("false"),
    "OnExitRemove": False,
    "LeaveJobInQueue": True,
    "JobLeaseDuration": 10**9,
    "RequestMemory": 10**6,
    "ContainerImage": "evil.sif",
    "ShouldTransferFiles": "YES",
    "AccountingGroup": "group.victim",
    "EC2SecretAccessKey": "/home/ann/.ssh/id_ed25519",
    "MaxTransferOutputMB": -1,
}


async def test_a_report_says_nothing_that_is_the_submitters(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await rogue(bench)
        order, evil = startd.order(), ClassAd({**SUBMITTERS_WORDS, "ImageSize": 4711, "GPUsAverageUsage": 0.5})
        ids = ids_of(order)
        before = await bench.ad("1.0")
        async with as_starter(bench, order) as peer:
            await peer.call(JobExecuting(**ids, at=bench.host.world.wall(), ad=evil))
            await peer.notify(JobUpdate(**ids, ad=evil))
            await peer.call(JobEnded(**ids, ending=Ending.FAILED, at=bench.host.world.wall(), ad=evil))
        after = await bench.ad("1.0")
        changed = {name for name in SUBMITTERS_WORDS if str(after.get(name)) != str(before.get(name))}
        assert changed == set()
        assert (after["ImageSize"], after["GPUsAverageUsage"]) == (4711, 0.5)


NAN, INFINITE = float("nan"), float("inf")
ODD_REPORTS: list[dict[str, object]] = [
    {"RemoteUserCpu": NAN, "BytesSent": INFINITE, "ExitCode": "x", "ExitBySignal": 5},
    {"TransferInStarted": 1e300, "TransferInFinished": NAN, "TransferOutStarted": INFINITE},
    {"NumPids": NAN, "CheckpointNumber": NAN, "ImageSize": 2**62},
    {"NumVacates": "x", "NumHoldsByReason": 5, "CumulativeSlotTime": NAN, "TotalBytesSent": "x"},
]


@pytest.mark.parametrize("report", ODD_REPORTS)
@pytest.mark.parametrize("ending", [Ending.EXITED, Ending.FAILED])
async def test_odd_figures_stop_nothing_and_stay_out_of_the_accounts(
    tmp_path: Path, autojump_clock: Clock, report: dict[str, object], ending: Ending
) -> None:
    async with a_bench(tmp_path) as bench:
        order = (await rogue(bench, LeaveJobInQueue=True)).order()
        ids, now = ids_of(order), bench.host.world.wall()
        async with as_starter(bench, order) as peer:
            await peer.call(JobExecuting(**ids, at=now, ad=ClassAd(report)))
            await peer.notify(JobUpdate(**ids, ad=ClassAd(report)))
            await peer.call(JobEnded(**ids, ending=ending, at=now, ad=ClassAd(report)))
        ad = await bench.ad("1.0")
        assert ad["JobStatus"] == (4 if ending is Ending.EXITED else 1)
        for name in ("CumulativeSlotTime", "CumulativeRemoteUserCpu", "TotalBytesSent", "RemoteWallClockTime"):
            assert 0 <= ad.eval_float(name, 0.0) < 1e9


@pytest.mark.parametrize(
    "words",
    [
        {"alive_interval_s": NAN},
        {"alive_interval_s": -1.0},
        {"alive_interval_s": 1e-9},
        {"alive_interval_s": INFINITE},
        {"lease_s": NAN},
        {"lease_s": -1.0},
    ],
)
async def test_no_answer_of_a_startd_ends_the_schedd_or_keeps_it_busy(
    tmp_path: Path, autojump_clock: Clock, words: dict[str, float]
) -> None:
    class Odd(RogueStartd):
        async def claim(self, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
            return replace(await super().claim(peer, asked), **words)

    async with a_bench(tmp_path) as bench:
        startd = Odd(bench, "one", 1)
        await bench.nursery.start(startd.serve)
        await bench.submit(a_job())
        await bench.match(startd)
        await trio.sleep(300)
        assert len(startd.alive) <= 30
        assert await bench.submit(a_job()) == 2


@pytest.mark.parametrize("at", [NAN, INFINITE, 1e300])
async def test_no_time_that_never_comes_is_taken(tmp_path: Path, autojump_clock: Clock, at: float) -> None:
    async with a_bench(tmp_path) as bench:
        order = (await rogue(bench)).order()
        async with as_starter(bench, order) as peer:
            with pytest.raises(RemoteError, match="expected float within"):
                await peer.call(JobExecuting(**ids_of(order), at=at, ad=ClassAd()))
        assert await bench.submit(a_job()) == 2
