"""A starter has a claim's first job with the grant, before the schedd says so: that word comes, and counts."""

from __future__ import annotations

from pathlib import Path

import trio
from trio.testing import MockClock

from pool.classad import ClassAd
from tests.daemons.startd.schedd import a_bench, a_job
from tests.own_attributes import own


async def test_a_starter_has_the_job_with_the_grant_and_the_order_that_follows_starts_it_no_second_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RunsFor=50), early="first")
        assert held.answer.granted, held.answer.reason
        starter = await bench.until_running()
        assert starter.job is not None
        assert starter.job.early
        assert (await schedd.run(held, activation="first")).started
        assert [order.activation for order in starter.jobs] == ["first"]
        await bench.until("Claimed/Busy", held.slot)


async def test_the_owner_sees_the_job_as_it_is_once_the_schedd_has_asked(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {"PREEMPT": "TARGET.Unloved ?: false", "WANT_VACATE": "true", "MAXJOBRETIREMENTTIME": "0"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RunsFor=5000), early="first")
        starter = await bench.until_running()
        await trio.sleep(60)
        assert starter.stops == []
        later = ClassAd({**dict(held.job.items()), **own(Unloved=True)})
        assert (await schedd.run(held, later, activation="first")).started
        with trio.fail_after(600):
            while not starter.stops:
                await trio.sleep(1)


async def test_another_job_waits_until_the_one_that_was_begun_with_the_grant_has_left(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RunsFor=50), early="first")
        starter = await bench.until_running()
        began = trio.current_time()
        assert (await schedd.run(held, activation="second", concluded=True)).started
        assert trio.current_time() - began >= 49
        assert [order.activation for order in starter.jobs] == ["first", "second"]


async def test_a_job_that_the_owner_does_not_let_start_is_not_begun_with_the_grant(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, START='MY.SlotType != "Dynamic"') as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RunsFor=50), early="first")
        assert held.answer.granted, held.answer.reason
        await trio.sleep(1)
        assert bench.farm.running("1.0") is None
        assert not (await schedd.run(held, activation="first")).started


async def test_a_job_that_is_over_before_its_order_comes_is_not_started_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RunsFor=5), early="first")
        starter = await bench.until_running()
        await bench.until("Claimed/Idle", held.slot)
        assert (await schedd.run(held, activation="first")).started
        await bench.until("Claimed/Idle", held.slot)
        assert (await schedd.run(held, activation="second", concluded=True)).started
        assert [order.activation for order in starter.jobs] == ["first", "second"]
