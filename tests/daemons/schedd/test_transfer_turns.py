"""The transfer queue, as file agents and users see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio.testing

from daemons.schedd.files.transfer_turns import LOOK_S, TURNS_PER_EXECUTION_MAX
from pool.classad import ClassAd
from protocol.messages.common import GetAd
from protocol.messages.schedd import AskTurn, EndTurn, TransferReport
from tests.daemons.schedd.bench import Bench, a_bench, a_job
from tests.fakes.agents import FakeAgent

Clock = trio.testing.MockClock
MB = 1_000_000


@asynccontextmanager
async def running(directory: Path, jobs: int = 3, **knobs: str) -> AsyncIterator[tuple[Bench, FakeAgent, list[str]]]:
    """Jobs that run, their user's agent, and their activations in order."""
    limits = {"MAX_CONCURRENT_UPLOADS": "1", "FILE_TRANSFER_DISK_LOAD_THROTTLE": "", **knobs}
    async with a_bench(directory, **limits) as bench:
        startd = await bench.startd(slots=jobs)
        await bench.submit(a_job(RunsFor=1_000_000), *({"Tag": number} for number in range(jobs)))
        await bench.match(startd)
        await bench.until_status(running=jobs)
        await bench.until(lambda: bool(bench.agents.living) and bench.agents.living[0].schedd is not None)
        yield bench, bench.agents.living[0], [order.activation for order in startd.orders]


async def ask(agent: FakeAgent, turn: str, activation: str, *, upload: bool = True, size: int = 200 * MB) -> None:
    assert agent.schedd is not None
    await agent.schedd.notify(AskTurn(turn=turn, activation=activation, upload=upload, size=size))


async def own_ad(bench: Bench) -> ClassAd:
    async with bench.connected() as peer:
        return (await peer.call(GetAd())).ad


async def test_jobs_take_turns_and_show_what_they_do(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path) as (bench, agent, (first, second, third)):
        assert agent.schedd is not None
        await ask(agent, "a", first)
        await bench.until(lambda: agent.given == ["a"])
        await ask(agent, "b", second)
        await ask(agent, "c", third, upload=False)
        await bench.until(lambda: agent.given == ["a", "c"])
        ads = {bool(ad["TransferQueued"]): ad for ad in (await bench.ads()).values() if ad.get("TransferringInput")}
        assert sorted(ads) == [False, True]
        ad = await own_ad(bench)
        assert [ad[f"TransferQueueNum{what}"] for what in ("Uploading", "Downloading", "WaitingToUpload")] == [1, 1, 1]
        assert ad["FileTransferMBWaitingToUpload"] == pytest.approx(190.7, abs=0.1)
        await agent.schedd.notify(EndTurn(turn="a"))
        await bench.until(lambda: agent.given == ["a", "c", "b"])
        await bench.until(lambda: "Seconds spent in queue" in "".join(bench.agents.logs.values()))
        log = "".join(bench.agents.logs.values())
        assert log.count("Entered queue to transfer input files") == 1
        assert log.count("Started transferring input files") == 3  # that of the third comes before its output
        assert log.count("Started transferring output files") == 1


async def test_an_agent_that_dies_has_no_turns(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path, jobs=1) as (bench, agent, (activation,)):
        await ask(agent, "a", activation)
        await ask(agent, "b", activation)
        await bench.until(lambda: agent.given == ["a"])
        agent.kill()
        await agent.wait()
        with trio.fail_after(1000):
            while (await own_ad(bench))["TransferQueueNumWaitingToUpload"]:
                await trio.sleep(1)
        assert (await own_ad(bench))["TransferQueueNumUploading"] == 0


async def test_a_turn_that_is_too_old_goes_to_who_waits(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path, jobs=2, MAX_TRANSFER_QUEUE_AGE="100") as (bench, agent, (first, second)):
        await ask(agent, "a", first)
        await bench.until(lambda: agent.given == ["a"])
        await trio.sleep(150)
        assert not agent.taken_back
        await ask(agent, "b", second)
        await bench.until(lambda: agent.given == ["a", "b"])
        assert agent.taken_back == ["a"]


async def test_a_user_with_enough_input_on_its_way_gets_no_more_slots(tmp_path: Path, autojump_clock: Clock) -> None:
    knobs = {"MAX_CONCURRENT_UPLOADS_PER_USER": "1"}
    async with running(tmp_path, jobs=1, **knobs) as (bench, agent, (activation,)):
        assert agent.schedd is not None
        await ask(agent, "a", activation)
        await bench.until(lambda: agent.given == ["a"])
        await bench.submit(a_job(), {})
        await trio.sleep(100)
        assert bench.announced is not None
        assert not bench.announced.requests
        await agent.schedd.notify(EndTurn(turn="a"))
        await bench.until(lambda: bench.announced is not None and bool(bench.announced.requests))


async def test_what_transfers_cost_is_in_the_ad(tmp_path: Path, autojump_clock: Clock) -> None:
    async with running(tmp_path, jobs=1, STATISTICS_TO_PUBLISH="TRANSFER:2") as (bench, agent, (activation,)):
        assert agent.schedd is not None
        amounts = {"UploadBytes": 5000.0, "FileReadSeconds": 2.5, "Nonsense": 1.0}
        await agent.schedd.notify(TransferReport(activation=activation, amounts=amounts))
        await trio.sleep(120)
        ad = await own_ad(bench)
        assert (ad["FileTransferUploadBytes"], ad["FileTransferFileReadSeconds"]) == (5000, 2.5)
        assert ad["FileTransferUploadBytesPerSecond_1m"] > 0
        assert "FileTransferUploadBytesPerSecond_5m" not in ad
        assert ad["Owner_daemon_FileTransferUploadBytes"] == 5000


async def test_an_agent_has_turns_for_its_own_users_jobs_only_and_few_of_them(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with running(tmp_path, jobs=1, MAX_CONCURRENT_UPLOADS="0") as (bench, agent, (activation,)):
        assert agent.schedd is not None
        for number in range(20):
            await ask(agent, f"mine-{number}", activation)
            await ask(agent, f"made-up-{number}", "somebody-elses")
        await bench.until(lambda: len(agent.given) == TURNS_PER_EXECUTION_MAX)
        await trio.sleep(10)
        assert sorted(agent.given) == [f"mine-{number}" for number in range(TURNS_PER_EXECUTION_MAX)]
        assert (await own_ad(bench))["TransferQueueNumUploading"] == TURNS_PER_EXECUTION_MAX
        await agent.schedd.notify(EndTurn(turn="mine-0"))
        await ask(agent, "another", activation)
        await bench.until(lambda: "another" in agent.given)


async def test_what_an_agent_says_of_costs_is_believed_as_far_as_it_is_possible(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with running(tmp_path, jobs=1) as (bench, agent, (activation,)):
        assert agent.schedd is not None
        amounts = {"FileReadSeconds": 1e9, "UploadBytes": float("inf"), "NetWriteSeconds": float("nan")}
        for name in (activation, "somebody-elses", activation, activation):
            await agent.schedd.notify(TransferReport(activation=name, amounts=amounts))
        await trio.sleep(120)
        ad = await own_ad(bench)
        assert ad["FileTransferFileReadSeconds"] <= LOOK_S
        assert ad["FileTransferUploadBytes"] == 0
