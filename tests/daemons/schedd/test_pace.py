"""How fast jobs start and are stopped, and how many there may be: the knobs that spare an access point."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import trio.testing

from protocol.messages.schedd import Action
from protocol.rpc.endpoints import RemoteError
from tests.daemons.schedd.bench import Bench, a_bench, a_job

Clock = trio.testing.MockClock


async def starts(bench: Bench, jobs: int) -> list[float]:
    """When each of so many jobs was started, in seconds after the first."""
    await bench.until_status(running=jobs)
    names = [f"1.{proc}" for proc in range(jobs)]
    while not all("JobCurrentStartExecutingDate" in ad for ad in (await bench.ads()).values()):
        await trio.sleep(5)
    ads = await bench.ads()
    moments = sorted(ads[name].eval_float("JobCurrentStartExecutingDate", 0.0) for name in names)
    return [moment - moments[0] for moment in moments]


@pytest.mark.parametrize(
    ("knobs", "own", "distances"),
    [
        ({}, None, [0, 0, 0, 0]),
        ({"JOB_START_DELAY": "60"}, None, [60, 60, 60]),
        ({"JOB_START_DELAY": "60", "JOB_START_COUNT": "2"}, None, [0, 60, 0]),
        ({}, 30, [30, 30, 30]),
        ({"MAX_NEXT_JOB_START_DELAY": "20"}, 30, [20, 20, 20]),
        ({"JOB_START_DELAY": "50", "JOB_START_COUNT": "2"}, 30, [30, 50, 30]),
    ],
)
async def test_jobs_start_no_faster_than_they_may(
    tmp_path: Path, autojump_clock: Clock, knobs: dict[str, str], own: int | None, distances: list[float]
) -> None:
    async with a_bench(tmp_path, **knobs) as bench:
        startd = await bench.startd(slots=4)
        delay = {} if own is None else {"NextJobStartDelay": own}
        await bench.submit(a_job(RunsFor=1e6, **delay), *[{"Args": str(n)} for n in range(4)])
        await bench.match(startd)
        found = await starts(bench, 4)
        steps = [after - before for before, after in itertools.pairwise(found)]
        assert all(abs(step - wanted) <= 2 for step, wanted in zip(steps, distances, strict=False)), found


async def test_a_job_that_waits_for_its_start_can_be_removed(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, JOB_START_DELAY="1000") as bench:
        startd = await bench.startd(slots=2)
        await bench.submit(a_job(RunsFor=1e6), {"Args": "0"}, {"Args": "1"})
        await bench.match(startd)
        await bench.until(lambda: len(startd.orders) == 1)
        await bench.until_status(running=2)
        (started,) = (str(order.job_id) for order in startd.orders)
        (waits,) = {"1.0", "1.1"} - {started}
        await bench.act(Action.REMOVE, waits)
        await bench.until_status(running=1)
        assert len(startd.orders) == 1


async def test_jobs_are_stopped_no_faster_than_they_may(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, JOB_STOP_DELAY="100", JOB_STOP_COUNT="2") as bench:
        startd = await bench.startd(slots=4)
        await bench.submit(a_job(RunsFor=1e6), *[{"Args": str(n)} for n in range(4)])
        await bench.match(startd)
        await bench.until(lambda: len(startd.orders) == 4)
        await bench.until_status(running=4)
        before = trio.current_time()
        await bench.act(Action.HOLD, "1.0", "1.1", "1.2", "1.3")
        await bench.until_status(held=4)
        await bench.until(lambda: len(startd.running) == 2)
        assert trio.current_time() - before < 90
        await bench.until(lambda: not startd.running)
        assert trio.current_time() - before >= 100


@pytest.mark.parametrize(("knob", "first"), [("MAX_JOBS_SUBMITTED", 2), ("MAX_JOBS_PER_SUBMISSION", 0)])
async def test_a_submit_beyond_a_limit_is_refused_whole(
    tmp_path: Path, autojump_clock: Clock, knob: str, first: int
) -> None:
    async with a_bench(tmp_path, **{knob: "3"}) as bench:
        if first:
            await bench.submit(a_job(), *[{"Args": str(n)} for n in range(first)])
        with pytest.raises(RemoteError, match=knob):
            await bench.submit(a_job(), *[{"Args": str(n)} for n in range(4 - first)])
        assert len(await bench.ads()) == first


async def test_no_more_jobs_run_than_max_jobs_running(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, MAX_JOBS_RUNNING="2") as bench:
        startd = await bench.startd(slots=4)
        await bench.submit(a_job(RunsFor=1e6), *[{"Args": str(n)} for n in range(4)])
        await bench.match(startd)
        await bench.until_status(running=2, idle=2)
        assert len(startd.orders) <= 2


async def test_no_slots_are_asked_for_while_no_more_jobs_may_run(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, MAX_JOBS_RUNNING="1") as bench:
        startd = await bench.startd(slots=4)
        await bench.submit(a_job(RunsFor=100))
        await bench.submit(a_job(RunsFor=100), user="bin")
        await bench.until(lambda: bench.announced is not None and len(bench.announced.requests) == 2)
        await bench.match(startd)
        await bench.until_status(running=1, idle=1)
        await bench.until(lambda: bench.announced is not None and not bench.announced.requests)
        await bench.until(lambda: bench.announced is not None and len(bench.announced.requests) == 1)
