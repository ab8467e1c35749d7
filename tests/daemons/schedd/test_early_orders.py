"""A startd may have a starter prepare a claim's first job with the grant; the schedd has the last word."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from pool.classad import expr
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.schedd import Action
from tests.daemons.schedd.bench import a_bench, a_job

Clock = trio.testing.MockClock
SUBMITTED, EXECUTING, ENDED = 0, 1, 5


async def test_a_job_that_was_begun_with_the_grant_runs_once_and_its_starter_hears_of_the_slot(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(RunsFor=10))
        startd = await bench.startd()
        await bench.match(startd)
        await bench.until_status()
        (early,), (order,) = startd.early, startd.orders
        assert early.order.activation == order.activation
        assert "RemoteHost" not in early.order.job_ad
        assert early.told is not None
        assert early.told["RemoteHost"] == startd.slot(startd.offers[0])["Name"]
        assert early.told["JobStatus"] == JobStatus.RUNNING
        assert bench.events("1.0") == [SUBMITTED, EXECUTING, ENDED]


async def test_p2_a_starter_that_is_here_before_the_grant_waits_for_it(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(RunsFor=10))
        startd = await bench.startd()
        startd.grants = trio.Event()
        await bench.match(startd)
        await bench.until(lambda: bool(startd.early))
        await trio.sleep(5)
        assert startd.early[0].told is None
        assert bench.events("1.0") == [SUBMITTED]
        startd.grants.set()
        await bench.until_events("1.0", [SUBMITTED, EXECUTING, ENDED])
        assert len(startd.early) == len(startd.orders) == 1


@pytest.mark.parametrize("action", [Action.REMOVE, Action.HOLD])
async def test_p2_a_starter_is_refused_whose_job_went_before_the_grant(
    tmp_path: Path, autojump_clock: Clock, action: Action
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(RunsFor=10))
        startd = await bench.startd()
        startd.grants = trio.Event()
        await bench.match(startd)
        await bench.until(lambda: bool(startd.early))
        await bench.act(action, "1.0")
        startd.grants.set()
        await startd.early[0].over.wait()
        assert startd.early[0].told is None
        await bench.until(lambda: bool(startd.released))
        assert startd.orders == []


async def test_p2_a_job_whose_slot_is_not_as_was_told_is_another_execution_once_the_starter_has_been_refused(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(RunsFor=10, ShouldTransferFiles="IF_NEEDED", FileSystemDomain="here"))
        startd = await bench.startd()
        startd.has["FileSystemDomain"] = "here"
        startd.grants = trio.Event()
        await bench.match(startd)
        await bench.until(lambda: bool(startd.early))
        startd.has["FileSystemDomain"] = "elsewhere"
        startd.grants.set()
        await bench.until_events("1.0", [SUBMITTED, EXECUTING, ENDED])
        (early,), (order,) = startd.early, startd.orders
        assert early.told is None
        assert order.activation != early.order.activation
        assert order.agent_address


async def test_p2_a_job_whose_grant_was_lost_runs_under_another_claim_alone(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(RunsFor=10))
        startd = await bench.startd()
        startd.grants = trio.Event()
        await bench.match(startd)
        await bench.until(lambda: bool(startd.early))
        startd.lose_connections()
        await startd.early[0].over.wait()
        assert startd.early[0].told is None
        startd.grants.set()
        other = await bench.startd("two")
        while not await bench.match(other):
            await trio.sleep(1)
        await bench.until_events("1.0", [SUBMITTED, EXECUTING, ENDED])
        assert len(other.orders) == 1


async def test_what_depends_on_the_slot_or_on_an_agents_answer_waits_for_the_grant(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(Args=expr('"$$(OpSys)"')))
        await bench.submit(a_job(ShouldTransferFiles="YES", UserLog=expr("undefined")))
        await bench.submit(a_job(SkipIfDataflow=True))
        startd = await bench.startd("one", slots=3)
        for _ in range(3):
            await bench.match(startd, 1)
        await bench.until_status()
        assert startd.early == []
        assert [asked.early for asked in startd.asked] == [None] * len(startd.asked)


async def test_no_starter_has_a_job_whose_start_has_to_wait(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, JOB_START_COUNT="1", JOB_START_DELAY="300") as bench:
        await bench.submit(a_job(RunsFor=10), {}, {}, {})
        startd = await bench.startd("one", slots=3)
        await bench.match(startd)
        await bench.until_status()
        assert startd.early == []
        assert len(startd.orders) == 3
