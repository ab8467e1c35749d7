"""Which job a claim takes when its last one has ended."""

from __future__ import annotations

from pathlib import Path

import trio.testing

from pool.classad import expr
from tests.daemons.schedd.bench import Bench, FakeStartd, a_bench, a_job

Clock = trio.testing.MockClock


async def _one_runs(bench: Bench, **has: object) -> FakeStartd:
    """A slot with the first of three jobs, 1.0 to 1.2, that take a while each."""
    await bench.submit(a_job(RunsFor=100, RequestMemory=10), {}, {}, {})
    startd = await bench.startd()
    startd.has = has
    await bench.match(startd)
    await bench.until(lambda: len(startd.orders) == 1)
    return startd


async def _order(bench: Bench, startd: FakeStartd, count: int) -> list[str]:
    await bench.until(lambda: len(startd.orders) == count)
    await bench.until(lambda: bool(startd.released))
    return [str(order.job_id) for order in startd.orders]


async def test_a_job_of_higher_priority_gets_the_next_turn_of_a_claim(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _one_runs(bench)
        await bench.submit(a_job(JobPrio=5, RequestMemory=20))
        await bench.submit(a_job(RequestMemory=30, PreJobPrio1=1))
        assert await _order(bench, startd, 5) == ["1.0", "3.0", "2.0", "1.1", "1.2"]


async def test_jobs_of_equal_priority_go_by_id_whatever_they_ask_for(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _one_runs(bench)
        await bench.submit(a_job(RequestMemory=20))
        assert await _order(bench, startd, 4) == ["1.0", "1.1", "1.2", "2.0"]


async def test_a_claim_goes_on_where_the_job_of_higher_priority_does_not_fit(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _one_runs(bench, Requirements=expr('TARGET.Colour =!= "red"'))
        await bench.submit(a_job(JobPrio=5, RequestMemory=2000))
        await bench.submit(a_job(JobPrio=4, Colour="red"))
        assert await _order(bench, startd, 3) == ["1.0", "1.1", "1.2"]
        await bench.until_status(idle=2)


async def test_a_claim_takes_no_job_that_its_slot_likes_less(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _one_runs(bench, Rank=expr("0 - TARGET.RequestMemory"))
        await bench.submit(a_job(JobPrio=5, RequestMemory=20))
        await bench.submit(a_job(JobPrio=4, RequestMemory=5))
        assert await _order(bench, startd, 4) == ["1.0", "3.0", "1.1", "1.2"]


async def test_a_claim_takes_no_job_of_other_concurrency_limits(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _one_runs(bench)
        await bench.submit(a_job(JobPrio=5, ConcurrencyLimits="licence"))
        assert await _order(bench, startd, 3) == ["1.0", "1.1", "1.2"]


async def test_a_job_whose_wishes_move_is_asked_again(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await _one_runs(bench)
        later = expr(f"time() > {int(bench.host.world.wall()) + 150}")
        await bench.submit(a_job(JobPrio=5, Requirements=later))
        assert await _order(bench, startd, 4) == ["1.0", "1.1", "2.0", "1.2"]
