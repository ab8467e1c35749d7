"""What jobs leave in files: a record of each execution, and a file for each finished job."""

from __future__ import annotations

from pathlib import Path

import trio.testing

from pool.classad import parse_long
from pool.jobs.queue.history_file import records
from protocol.messages.schedd import Action, QueryHistory, Selection
from tests.daemons.schedd.bench import Bench, a_bench, a_job

Clock = trio.testing.MockClock


async def epochs(bench: Bench, **more: object) -> list[tuple[int, int]]:
    request = QueryHistory(select=Selection(), kinds=["EPOCH"], **more)  # type: ignore[arg-type]
    async with bench.connected() as peer, peer.stream(request) as batches:
        ads = [ad async for batch in batches for ad in batch.ads]
    return [(ad.eval_int("ProcId", -1), ad.eval_int("RunInstanceId", -1)) for ad in ads]


async def test_each_execution_leaves_a_record_newest_first(tmp_path: Path, autojump_clock: Clock) -> None:
    path, directory = tmp_path / "epochs", tmp_path / "runs"
    directory.mkdir()
    async with a_bench(tmp_path, JOB_EPOCH_HISTORY=str(path), JOB_EPOCH_HISTORY_DIR=str(directory)) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=10), {"Tag": 1}, {"Tag": 2})
        await bench.match(startd)
        await bench.until_status(running=1, idle=1)
        await bench.act(Action.HOLD, "1.0")
        await bench.until_status(held=1, running=1)
        await bench.act(Action.RELEASE, "1.0")
        await bench.until_status()
        await bench.until(lambda: path.exists() and path.read_text().count("*** EPOCH") == 3)
        runs = await epochs(bench)
        assert sorted(runs) == [(0, 0), (0, 1), (1, 0)]
        assert runs[-1] == (0, 0)
        assert (await epochs(bench, forwards=True))[0] == (0, 0)
        assert await epochs(bench, limit=1) == runs[:1]
        assert await epochs(bench, scan_limit=2) == runs[:2]
        async with bench.connected() as peer:
            request = QueryHistory(select=Selection(ids=["1.1"]), kinds=["EPOCH"], projection=["Tag", "JobStatus"])
            async with peer.stream(request) as batches:
                (ad,) = [ad async for batch in batches for ad in batch.ads]
        assert (ad["Tag"], ad["JobStatus"]) == (2, 2)
    of_one = [record.ad() for record in records((directory / "job.runs.1.0.ads").read_text())]
    assert [ad["RunInstanceId"] for ad in of_one] == [0, 1]
    assert of_one[0]["EpochAdType"] == "EPOCH"


async def test_a_finished_job_gets_a_file_of_its_own(tmp_path: Path, autojump_clock: Clock) -> None:
    directory = tmp_path / "per-job"
    directory.mkdir()
    async with a_bench(tmp_path, PER_JOB_HISTORY_DIR=str(directory)) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=10, ExitWith=3), {"Tag": 7})
        await bench.match(startd)
        await bench.until_status()
        await bench.until(lambda: (directory / "history.1.0").exists())
        ad = parse_long((directory / "history.1.0").read_text())
        assert (ad["ClusterId"], ad["ProcId"], ad["Tag"], ad["ExitCode"], ad["JobStatus"]) == (1, 0, 7, 3, 4)
        assert [path.name for path in directory.iterdir()] == ["history.1.0"]


async def test_a_file_that_is_too_long_is_put_aside_and_the_oldest_goes(tmp_path: Path, autojump_clock: Clock) -> None:
    path = tmp_path / "epochs"
    knobs = {"JOB_EPOCH_HISTORY": str(path), "MAX_EPOCH_HISTORY_LOG": "1", "MAX_EPOCH_HISTORY_ROTATIONS": "1"}
    async with a_bench(tmp_path, **knobs) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=60), {}, {}, {}, {})
        await bench.match(startd)
        await bench.until_status()
        await bench.until(lambda: path.exists() and "ProcId=3 " in path.read_text())
        assert len(list(tmp_path.glob("epochs.*"))) == 1
        assert [proc for proc, _ in await epochs(bench)] == [3, 2]
