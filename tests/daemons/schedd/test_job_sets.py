"""Job sets: clusters of one owner under one name, counted together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio.testing

from pool.classad import ClassAd
from protocol.messages.schedd import Action, QueryJobs, Selection
from tests.daemons.schedd.bench import Bench, a_bench, a_job

Clock = trio.testing.MockClock


async def sets(bench: Bench, **selection: Any) -> list[ClassAd]:
    """The ads of the job sets."""
    async with bench.connected() as peer:
        async with peer.stream(QueryJobs(select=Selection(**selection), job_sets=True)) as batches:
            return [ad async for batch in batches for ad in batch.ads]


async def test_clusters_of_one_name_are_one_set(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        said = ClassAd({"Phase": 2})
        await bench.submit(a_job(JobSetName="survey"), {"Args": "0"}, {"Args": "1"}, jobset=said)
        await bench.submit(a_job(JobSetName="other"))
        await bench.submit(a_job(JobSetName="Survey", RunsFor=1e6))
        await bench.submit(a_job())
        found = await sets(bench, all=True)
        assert [(ad["JobSetId"], ad["JobSetName"], ad["NumIdle"]) for ad in found] == [
            (1, "survey", 3),
            (2, "other", 1),
        ]
        assert (found[0]["Phase"], found[0]["JobSetClusters"], found[0]["MyType"]) == (2, "1,3", "JobSet")
        ads = await bench.ads()
        assert [ads[name].get("JobSetId") for name in ("1.0", "2.0", "3.0")] == [1, 2, 1]
        assert "JobSetId" not in ads["4.0"]


async def test_what_has_left_the_queue_counts_until_the_last_cluster_is_gone(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(JobSetName="s", RunsFor=1), {"Args": "0"}, {"Args": "1"})
        await bench.match(startd)
        await bench.until_status()
        assert await sets(bench, all=True) == []
        await bench.submit(a_job(JobSetName="s"), *[{"Args": str(n)} for n in range(3)])
        await bench.act(Action.REMOVE, "2.0")
        await bench.act(Action.HOLD, "2.1")
        (ad,) = await sets(bench, all=True)
        counts = [ad[f"Num{what}"] for what in ("Idle", "Running", "Held", "Removed", "Completed")]
        assert (ad["JobSetId"], counts) == (2, [1, 0, 1, 1, 0])
        await bench.submit(a_job(JobSetName="s"))
        await bench.act(Action.REMOVE, "2")
        await bench.restart()
        (ad,) = await sets(bench, constraint='JobSetName == "s"')
        assert (ad["JobSetId"], ad["NumRemoved"], ad["NumIdle"], ad["NumJobs"]) == (2, 3, 1, 4)


async def test_without_use_jobsets_a_name_is_only_a_name(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, USE_JOBSETS="false") as bench:
        await bench.submit(a_job(JobSetName="s"))
        assert await sets(bench, all=True) == []
        assert (await bench.ads())["1.0"]["JobSetName"] == "s"
