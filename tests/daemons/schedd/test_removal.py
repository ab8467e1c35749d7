"""A removed job leaves the queue in bounded time, whatever its execute host does."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from pool.classad import ClassAd
from protocol.messages.schedd import Action
from tests.daemons.schedd.bench import Bench, FakeStartd, a_bench, a_job

Clock = trio.testing.MockClock
LONG_S = 1e6


async def running(bench: Bench, **more: object) -> FakeStartd:
    """A job that runs, and does not leave when it is told to."""
    startd = await bench.startd()
    await bench.submit(a_job(RunsFor=LONG_S, Stubborn=True, JobLeaseDuration=LONG_S, **more))
    await bench.match(startd)
    await bench.until_events("1.0", [0, 1])
    return startd


async def gone_after(bench: Bench) -> float:
    """How long it took until the queue was empty."""
    began = trio.current_time()
    with trio.fail_after(LONG_S / 2):
        while await bench.ads():
            await trio.sleep(1)
    return trio.current_time() - began


@pytest.mark.parametrize(("graceful", "most_s"), [(False, 65.0), (True, 185.0)])
async def test_a_job_that_nobody_ends_is_given_up_with_its_slot(
    tmp_path: Path, autojump_clock: Clock, graceful: bool, most_s: float
) -> None:
    async with a_bench(tmp_path, KILLING_TIMEOUT="30") as bench:
        startd = await running(bench, WantGracefulRemoval=graceful, JobMaxVacateTime=120)
        await bench.act(Action.REMOVE, "1.0")
        assert await gone_after(bench) < most_s
        await bench.until(lambda: bool(startd.released))
        (ad,) = await bench.history()
        assert ad.eval_int("JobStatus") == 3
        await bench.until_events("1.0", [0, 1, 24, 9])
        assert "did not end it within" in bench.agents.logs[str(ad["UserLog"])]


async def test_a_job_may_not_ask_for_more_time_than_its_machine_gives(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, KILLING_TIMEOUT="30") as bench:
        await running(bench, WantGracefulRemoval=True, JobMaxVacateTime=LONG_S)
        await bench.act(Action.REMOVE, "1.0")
        assert await gone_after(bench) < 700


async def test_a_removed_job_does_not_wait_for_a_host_that_is_gone(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, KILLING_TIMEOUT="30") as bench:
        startd = await running(bench, WantGracefulRemoval=False)
        await startd.vanish()
        await bench.act(Action.REMOVE, "1.0")
        assert await gone_after(bench) < 65


async def test_the_bound_holds_after_a_restart(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, KILLING_TIMEOUT="30") as bench:
        await running(bench, WantGracefulRemoval=True, JobMaxVacateTime=120)
        await bench.act(Action.REMOVE, "1.0")
        await bench.restart()
        assert await gone_after(bench) < 200


async def test_p2_a_held_job_that_nobody_ends_keeps_its_claim(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, KILLING_TIMEOUT="30") as bench:
        startd = await running(bench)
        await bench.act(Action.HOLD, "1.0")
        await bench.act(Action.RELEASE, "1.0")
        await trio.sleep(2000)
        ad: ClassAd = await bench.ad("1.0")
        assert ad.eval_int("JobStatus") == 1
        assert not startd.released
        assert len(startd.orders) == 1


async def until_left(bench: Bench, *jobs: str) -> None:
    """Until these jobs are in the queue, and no others."""
    with trio.fail_after(LONG_S):
        while sorted(await bench.ads()) != list(jobs):
            await trio.sleep(1)


async def test_a_job_takes_those_along_that_it_says_and_they_theirs(tmp_path: Path, autojump_clock: Clock) -> None:
    along = {"OtherJobRemoveRequirements": "DAGManJobId =?= 1"}
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(**along))
        inner = {"OtherJobRemoveRequirements": "DAGManJobId =?= 2", "DAGManJobId": 1}
        await bench.submit(a_job(**inner))  # a graph in the graph
        await bench.submit(a_job(DAGManJobId=2))
        await bench.submit(a_job(DAGManJobId=1), user="bin")
        await bench.submit(a_job(DAGManJobId=7))
        await bench.act(Action.REMOVE, "1.0")
        await until_left(bench, "4.0", "5.0")
        reasons = {ad.eval_int("ClusterId"): ad.eval_str("RemoveReason", "") for ad in await bench.history()}
        fired = "removed because <OtherJobRemoveRequirements = DAGManJobId =?= {0}> fired when job ({0}.0) was removed"
        assert reasons[2] == fired.format(1)
        assert reasons[3] == fired.format(2)


async def test_what_cannot_be_read_takes_no_job_along(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(OtherJobRemoveRequirements="(("))
        await bench.submit(a_job())
        await bench.act(Action.REMOVE, "1.0")
        await until_left(bench, "2.0")


async def test_a_policy_that_removes_a_job_takes_them_along_too(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(DAGManJobId=2))
        await bench.submit(a_job(OtherJobRemoveRequirements="DAGManJobId =?= 2", PeriodicRemove=True))
        await until_left(bench)
