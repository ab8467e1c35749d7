"""A startd that was restarted may be reached elsewhere than where its claims were made."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from daemons.schedd.claims.whereabouts import is_same_host
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.collector import AdUpdate, UpdateAds
from tests.daemons.schedd.bench import Bench, FakeStartd, a_bench, a_job

Clock = trio.testing.MockClock
LEASE_S = 100_000
SOON_S = 60.0


async def _running_job(bench: Bench) -> FakeStartd:
    """A startd that runs a job with a long lease, and then is gone."""
    await bench.host.start("collector")
    startd = await bench.startd()
    await bench.submit(a_job(RunsFor=1e6, JobLeaseDuration=LEASE_S))
    await bench.match(startd)
    await bench.until_events("1.0", [0, 1])
    return startd


async def _elsewhere(bench: Bench, startd: FakeStartd) -> FakeStartd:
    """The same startd again, at another address, which the collector hears of."""
    there = FakeStartd(bench, startd.name, len(startd.offers))
    there.address = startd.address.replace(".sock", ".again.sock")
    await bench.nursery.start(there.serve)
    ad = there.slot(there.offers[0])
    ad["MyAddress"] = there.address
    async with bench.host.connected("collector") as peer:
        await peer.call(UpdateAds(updates=[AdUpdate(ad=ad)]))
    return there


async def test_p4_a_restarted_startd_with_another_address_gives_its_jobs_up_at_once(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _running_job(bench)
        await startd.vanish()
        lost_at = trio.current_time()
        await _elsewhere(bench, startd)
        await bench.until_status(idle=1)
        assert trio.current_time() - lost_at < SOON_S


async def test_a_job_goes_on_when_its_startd_has_another_address(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _running_job(bench)
        there = await _elsewhere(bench, startd)
        there.claims, there.running = startd.claims, startd.running
        startd._up.cancel()
        await bench.until(lambda: len(there.alive) > 2)
        assert await bench.statuses() == {JobStatus.RUNNING: 1}
        await bench.restart()
        heard = len(there.alive)
        await bench.until(lambda: len(there.alive) > heard + 2)
        assert await bench.statuses() == {JobStatus.RUNNING: 1}
        assert (await bench.ad("1.0"))["NumJobStarts"] == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("<10.0.0.1:9618?sock=startd>", "<10.0.0.1:4000?sock=startd>", True),
        ("<10.0.0.1:9618?alias=n1&sock=startd>", "<10.0.0.2:9618?alias=n1&sock=startd>", True),
        ("<10.0.0.1:9618?alias=n1&sock=startd>", "<10.0.0.1:9618?alias=n2&sock=startd>", False),
        ("<10.0.0.1:9618?sock=startd>", "<10.0.0.2:9618?sock=startd>", False),
        ("/run/startd.sock", "/other/startd.sock", True),
        ("/run/startd.sock", "<10.0.0.2:9618?sock=startd>", False),
        ("nonsense", "<10.0.0.2:x>", False),
    ],
)
def test_one_host_is_known_by_its_name_or_address(one: str, other: str, same: bool) -> None:
    assert is_same_host(one, other) is same
