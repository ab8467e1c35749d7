"""Clusters whose jobs the schedd makes one after another."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from pool.classad import ClassAd
from pool.submit.recipe import recipe
from protocol.messages.schedd import Action, EditJobs, Outcome, QueryJobs, Selection
from protocol.messages.submit import SubmitJobs
from protocol.rpc.endpoints import RemoteError
from tests.daemons.schedd.bench import LOG, USER, Bench, a_bench
from tests.pool.submit.build import Place

Clock = trio.testing.MockClock

PLAIN = (
    "executable = /bin/true\nlog = /home/ann/log\nshould_transfer_files = no\nskip_filechecks = true\n"
    "requirements = TARGET.Memory >= RequestMemory\nrequest_memory = 1\n"
)


async def submit(bench: Bench, text: str, user: str = USER) -> int:
    """Submit a description whose jobs the schedd makes; the cluster's id."""
    plan = Place(Path("/"), {}).plan(PLAIN + text)
    ad = plan.cluster_ad.copy()
    ad["Requirements"] = True
    async with bench.connected(user) as peer:
        answer = await peer.call(SubmitJobs(cluster_ad=ad, procs=[], factory=recipe(plan)))
    assert answer.count == plan.count
    return answer.cluster


async def factories(bench: Bench, *ids: str) -> list[ClassAd]:
    async with bench.connected() as peer:
        request = QueryJobs(select=Selection(ids=list(ids)), factories=True)
        async with peer.stream(request) as batches:
            return [ad async for batch in batches for ad in batch.ads]


async def procs(bench: Bench) -> list[str]:
    return sorted(await bench.ads())


async def test_no_more_jobs_are_made_than_the_limit_allows(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 2\narguments = $(Process)\nqueue 5\n")
        assert await procs(bench) == ["1.0", "1.1"]
        (factory,) = await factories(bench)
        assert factory["JobMaterializeNextProcId"] == 2
        assert (factory["JobsPresent"], factory["JobsIdle"], factory["JobMaterializeLimit"]) == (2, 2, 2)
        await bench.act(Action.REMOVE, "1.0")
        await bench.until(lambda: bench.events("1.2") == [0])
        assert await procs(bench) == ["1.1", "1.2"]
        assert (await bench.ad("1.2"))["Args"] == "2"


async def test_jobs_that_run_make_room_for_idle_ones(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_idle = 1\n+RunsFor = 1000\nqueue 3\n")
        assert await procs(bench) == ["1.0"]
        await bench.match(await bench.startd(slots=1))
        await bench.until_status(running=1, idle=1)


async def test_all_jobs_run_once_and_then_the_factory_is_gone(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 1\nqueue 4\n")
        await bench.match(await bench.startd(slots=1))
        done: list[str] = []
        with trio.fail_after(5000):
            while len(done) < 4 or await factories(bench):
                await trio.sleep(1)
                done = sorted(f"{ad['ClusterId']}.{ad['ProcId']}" for ad in await bench.history())
                if await bench.ads():
                    await bench.match(bench.startds[0])
        assert done == ["1.0", "1.1", "1.2", "1.3"]
        text = bench.agents.logs[LOG]
        assert "035 (001.-01.000)" in text
        assert "Materialized 4 jobs from 1 items.\tComplete" in text


async def test_a_factory_goes_on_after_a_restart(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 2\narguments = $(x)\nqueue x in (a b c d)\n")
        await bench.act(Action.REMOVE, "1.0", "1.1")
        await bench.until(lambda: bench.events("1.3") == [0])
        await bench.restart()
        assert await procs(bench) == ["1.2", "1.3"]
        await submit(bench, "max_materialize = 1\nqueue 2\n")
        await bench.restart()
        await bench.act(Action.REMOVE, "2.0")
        await bench.until(lambda: bench.events("2.1") == [0])
        assert (await bench.ad("1.3"))["Args"] == "d"


async def test_holding_the_cluster_pauses_the_factory(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 1\nqueue 3\n")
        assert await bench.act(Action.HOLD, "1") == [Outcome.DONE]
        await bench.act(Action.REMOVE, "1.0")
        await bench.restart()
        (factory,) = await factories(bench)
        assert (factory["JobMaterializePaused"], factory["JobsPresent"]) == (1, 0)
        assert await bench.act(Action.RELEASE, "1") == [Outcome.DONE]
        await bench.until(lambda: bench.events("1.1") == [0])
        text = bench.agents.logs[LOG]
        assert "037 (001.-01.000)" in text
        assert "\tPauseCode 1\n\tHoldCode 1\n" in text
        assert "Job Materialization Resumed" in text


async def test_removing_the_cluster_ends_the_factory(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 1\nqueue 3\n")
        async with bench.connected("bin") as peer:
            await peer.call(EditJobs(select=Selection(ids=["1"]), assignments={"JobMaterializeLimit": "3"}))
        assert await bench.act(Action.REMOVE, "1", user="bin") == [Outcome.PERMISSION_DENIED]
        assert await bench.act(Action.REMOVE, "1") == [Outcome.DONE]
        assert await procs(bench) == []
        assert await factories(bench) == []
        await bench.until(lambda: "Materialized 1 jobs from 1 items.\tIncomplete" in bench.agents.logs[LOG])
        await bench.restart()
        assert await factories(bench) == []


async def test_an_edit_of_the_cluster_holds_for_jobs_made_later(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 1\narguments = $(Process)\nqueue 9\n")
        async with bench.connected() as peer:
            everything = {"Args": '"edited"', "JobMaterializeLimit": "2", "Mine": "7"}
            await peer.call(EditJobs(select=Selection(ids=["1"]), assignments=everything))
        await bench.until(lambda: bench.events("1.1") == [0])
        for job in ("1.0", "1.1"):
            ad = await bench.ad(job)
            assert (ad["Args"], ad["Mine"]) == ("edited", 7)
        assert len(await procs(bench)) == 2


async def test_the_schedds_own_limits_hold_for_factories(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, MAX_JOBS_PER_OWNER="3") as bench:
        await submit(bench, "max_materialize = 100\nqueue 10\n")
        assert len(await procs(bench)) == 3
        with pytest.raises(RemoteError, match="MAX_JOBS_PER_OWNER"):
            await submit(bench, "max_materialize = 100\nqueue 10\n")
        await bench.act(Action.REMOVE, "1.0")
        await bench.until(lambda: bench.events("1.3") == [0])


async def test_a_job_that_cannot_be_made_pauses_the_factory_with_a_reason(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 1\npriority = $(x)\nqueue x in (1 high 2)\n")
        await bench.act(Action.REMOVE, "1.0")
        await bench.until(lambda: "Job Materialization Paused" in bench.agents.logs[LOG])
        (factory,) = await factories(bench)
        assert factory["JobMaterializePaused"] == -1
        assert "priority" in str(factory["JobMaterializePauseReason"])
        assert await bench.act(Action.REMOVE, "1") == [Outcome.DONE]


async def test_a_first_job_that_cannot_be_made_leaves_nothing(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.connected() as peer:
            for text in ("{}", "no recipe"):
                with pytest.raises(RemoteError, match="cannot be read"):
                    await peer.call(SubmitJobs(cluster_ad=ClassAd(), procs=[], factory=text))
        assert await procs(bench) == []
        assert await factories(bench) == []


async def test_a_million_jobs_cost_what_is_made_of_them(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await submit(bench, "max_materialize = 3\narguments = $(Process)\nqueue 1000000\n")
        await bench.restart()
        assert len(await procs(bench)) == 3
        size = sum(path.stat().st_size for path in (tmp_path / "spool").glob("job_queue.sqlite*"))
        assert size < 2_000_000
