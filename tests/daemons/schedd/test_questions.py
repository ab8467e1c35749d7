"""Queries, edits and watches of a real schedd."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio.testing

from daemons.schedd.core.writer import Writer
from pool.base.ids import JobId
from pool.classad import expr
from pool.jobs.queue.store import WriteBatch
from protocol.messages.collector import QueryAds
from protocol.messages.common import Reconfigure
from protocol.messages.offers import Rejection, RejectRequests
from protocol.messages.schedd import (
    Action,
    CountJobs,
    EditJobs,
    JobsChanged,
    Outcome,
    QueryHistory,
    QueryJobs,
    Selection,
    WatchJobs,
)
from protocol.rpc.endpoints import Items, RemoteError
from protocol.wire.ad_table import ads_of
from tests.daemons.schedd.bench import USER, Bench, a_bench, a_job

Clock = trio.testing.MockClock
LOOK_S = 0.05


async def ids(bench: Bench, select: Selection, limit: int | None = None) -> list[str]:
    async with bench.connected() as peer:
        async with peer.stream(QueryJobs(select=select, projection=["ClusterId", "ProcId"], limit=limit)) as batches:
            return [f"{ad['ClusterId']}.{ad['ProcId']}" async for batch in batches for ad in batch.ads]


async def test_jobs_are_found_by_id_user_and_constraint(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(), {}, {"Tag": 7})
        await bench.submit(a_job(), user="bin")
        everything = ["1.0", "1.1", "2.0"]
        assert await ids(bench, Selection()) == everything
        assert await ids(bench, Selection(all=True), limit=2) == everything[:2]
        assert await ids(bench, Selection(ids=["1"])) == ["1.0", "1.1"]
        assert await ids(bench, Selection(ids=["2", "1.1", "9"])) == ["1.1", "2.0"]
        assert await ids(bench, Selection(users=["bin"])) == ["2.0"]
        assert await ids(bench, Selection(users=["bin"], ids=["1.0"])) == ["1.0", "2.0"]
        assert await ids(bench, Selection(constraint="Tag == 7")) == ["1.1"]
        assert await ids(bench, Selection(ids=["1"], constraint="Tag =!= 7")) == ["1.0"]
        with pytest.raises(RemoteError):
            await ids(bench, Selection(constraint="Tag =="))
        with pytest.raises(RemoteError):
            await ids(bench, Selection(ids=["1x"]))


async def test_what_a_projected_expression_reads_comes_along(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(A=expr("B + ProcId"), B=expr("C * 2"), C=1), {}, {"C": 5})
        await bench.act(Action.REMOVE, "1.1")
        async with bench.connected() as peer:
            for request in (
                QueryJobs(select=Selection(), projection=["A"]),
                QueryHistory(select=Selection(), projection=["A"]),
            ):
                async with peer.stream(request) as batches:
                    (ad,) = [ad async for batch in batches for ad in batch.ads]
                assert ad.eval("A") == (2 if isinstance(request, QueryJobs) else 11)
                assert "Cmd" not in ad


async def test_the_totals_count_owners_and_states_and_the_scheduler_universe_apart(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path, START_SCHEDULER_UNIVERSE="false") as bench:
        await bench.submit(a_job(), {}, {"JobStatus": 5})
        await bench.submit(a_job(JobUniverse=7), {}, {})
        await bench.submit(a_job(), user="bin")
        async with bench.connected() as peer:
            counts = (await peer.call(CountJobs())).counts
        found = {(one.owner, one.status, one.scheduler): one.count for one in counts}
        assert found == {(USER, 1, False): 1, (USER, 5, False): 1, (USER, 1, True): 2, ("bin", 1, False): 1}


@pytest.mark.parametrize("asks_for", ["jobs", "totals"])
async def test_the_end_of_a_job_that_is_not_told_of_any_more_is_in_its_log_though_the_disk_is_slow(
    tmp_path: Path, autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch, asks_for: str
) -> None:
    async with a_bench(tmp_path) as bench:

        async def is_there() -> bool:
            if asks_for == "jobs":
                return bool(await bench.ads())
            async with bench.connected() as peer:
                return bool((await peer.call(CountJobs())).counts)

        await bench.submit(a_job(RunsFor=1))
        commits_take(monkeypatch, 10 * LOOK_S)
        await bench.match(await bench.startd())
        while await is_there():
            await trio.sleep(LOOK_S)
        assert bench.events("1.0") == [0, 1, 5]


def commits_take(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From now on the disk is slow."""
    commit = Writer._commit_in_thread

    async def slowly(writer: Writer, batch: WriteBatch) -> float:
        await trio.sleep(seconds)
        return await commit(writer, batch)

    monkeypatch.setattr(Writer, "_commit_in_thread", slowly)
    monkeypatch.setattr("daemons.schedd.core.writer.IN_PLACE_MAX_S", 0.0)


async def test_an_idle_job_says_why_it_has_no_slot(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job())
        await bench.until(lambda: bench.announced is not None and bool(bench.announced.requests))
        assert bench.announced is not None
        assert bench.schedd_peer is not None
        request = bench.announced.requests[0]
        rejection = Rejection(submitter=request.submitter, autocluster=request.autocluster, reason="no match found")
        await bench.schedd_peer.notify(RejectRequests(rejections=[rejection]))
        async with bench.connected() as peer:
            await peer.call(EditJobs(select=Selection(ids=["1.0"]), assignments={"Note": "1"}))
        ad = await bench.ad("1.0")
        assert (ad["LastRejMatchReason"], ad["AutoClusterId"]) == ("no match found", request.autocluster)


async def test_jobs_are_alike_in_what_is_configured_now(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(Grade=1), {}, {"Grade": 2})

        async def until_kinds(count: int) -> None:
            await bench.until(lambda: bench.announced is not None and len(bench.announced.requests) == count)

        await until_kinds(1)
        for added, kinds in (("Grade", 2), ("", 1)):
            start = bench.host.daemons["schedd"]
            overrides = {**start.source.overrides, "ADD_SIGNIFICANT_ATTRIBUTES": added}
            start.source = replace(start.source, overrides=overrides)
            async with bench.host.connected("schedd") as peer:
                await peer.call(Reconfigure())
            await until_kinds(kinds)


async def test_edits_are_checked_before_anything_is_set(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(), {}, {})
        async with bench.connected() as peer:
            everything = Selection(ids=["1"])
            for assignments, said in (
                ({"A": "1", "Owner": '"root"'}, 'immutable attribute "Owner"'),
                ({"A": "(("}, "illegal value for : A"),
                ({"JobPrio": '"high"'}, "illegal value for : JobPrio"),
            ):
                with pytest.raises(RemoteError, match=said):
                    await peer.call(EditJobs(select=everything, assignments=assignments))
            answer = await peer.call(EditJobs(select=everything, assignments={"A": "ProcId + 1", "JobPrio": "5"}))
            assert [result.outcome for result in answer.results] == [Outcome.DONE] * 2
        ads = await bench.ads()
        assert [ads[job].eval("A") for job in ("1.0", "1.1")] == [1, 2]
        await bench.until(lambda: bench.events("1.0") == [0, 33])
        async with bench.connected("bin") as peer:
            answer = await peer.call(EditJobs(select=Selection(ids=["1.0"]), assignments={"A": "9"}))
            assert [result.outcome for result in answer.results] == [Outcome.PERMISSION_DENIED]


async def test_a_changed_priority_is_announced(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(), {}, {})
        async with bench.connected() as peer:
            await peer.call(EditJobs(select=Selection(ids=["1.1"]), assignments={"JobPrio": "5"}))
        await bench.until(lambda: bench.announced is not None and [r.prio for r in bench.announced.requests] == [5, 0])


async def test_history_is_searched(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        for _ in range(3):
            await bench.submit(a_job(), {"Tag": 0}, {"Tag": 1})
        await bench.act(Action.REMOVE, "1", "2", "3")

        async def found(select: Selection | None = None, **more: object) -> list[str]:
            async with bench.connected() as peer:
                request = QueryHistory(select=select or Selection(), **more)  # type: ignore[arg-type]
                async with peer.stream(request) as batches:
                    return [f"{ad['ClusterId']}.{ad['ProcId']}" async for batch in batches for ad in batch.ads]

        newest = ["3.1", "3.0", "2.1", "2.0", "1.1", "1.0"]
        assert await found() == newest
        assert await found(forwards=True) == newest[::-1]
        assert await found(limit=2) == newest[:2]
        assert await found(since="2.1") == newest[:2]
        assert await found(since="2") == newest[:2]
        assert await found(since="ClusterId == 1") == newest[:4]
        assert await found(Selection(ids=["2"])) == newest[2:4]
        assert await found(Selection(ids=["2.0"])) == ["2.0"]
        assert await found(Selection(constraint="Tag == 1")) == newest[::2]
        assert await found(Selection(users=[USER])) == newest
        assert await found(Selection(users=["nobody"])) == []


async def test_a_watch_tells_what_is_there_and_every_change(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=10), {}, {})
        async with bench.connected() as peer:
            request = WatchJobs(select=Selection(users=[USER]), projection=["JobStatus", "ExitCode"])
            async with peer.stream(request) as changes:
                first = await _next(changes)
                assert first.synced
                assert {str(delta.job_id): delta.ad["JobStatus"] for delta in first.deltas} == {"1.0": 1, "1.1": 1}
                await bench.match(startd)
                story: dict[JobId, list[object]] = {}
                left: set[JobId] = set()
                while len(left) < 2:
                    for delta in (await _next(changes)).deltas:
                        story.setdefault(delta.job_id, []).append(delta.ad.get("JobStatus"))
                        if delta.left:
                            left.add(delta.job_id)
                            assert delta.ad["ExitCode"] == 0
                assert list(story.values()) == [[2, 4], [2, 4]]
                await bench.submit(a_job(), user="bin")
                await bench.submit(a_job())
                (delta,) = (await _next(changes)).deltas
                assert str(delta.job_id) == "3.0"


async def _next(changes: Items[JobsChanged]) -> JobsChanged:
    return await changes.__anext__()


async def test_the_collector_knows_schedd_and_submitters(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.host.start("collector")
        await bench.submit(a_job(), {}, {"JobStatus": 5})
        (schedd,) = await bench.host.until_known("Scheduler", "TotalIdleJobs == 1 && TotalHeldJobs == 1")
        assert schedd["Name"] == "cm.pool.test"
        (submitter,) = await bench.host.until_known("Submitter", "IdleJobs == 1")
        assert (submitter["Name"], submitter["HeldJobs"]) == (f"{USER}@pool.test", 1)
        await bench.act(Action.REMOVE, "1")
        await bench.host.until_known("Scheduler", "TotalJobAds == 0")
        async with bench.host.connected("collector") as peer:
            while True:
                async with peer.stream(QueryAds(ad_type="Submitter")) as batches:
                    if not [ad async for batch in batches for ad in batch.ads]:
                        break
                await trio.sleep(1)


@pytest.mark.parametrize(
    "projection",
    [[], ["ProcId"], ["ClusterId", "ProcId", "JobStatus", "GlobalJobId", "Args"], ["Total"], ["autoclusterid", "tag"]],
)
async def test_tables_say_the_same_as_ads(tmp_path: Path, autojump_clock: Clock, projection: list[str]) -> None:
    async with a_bench(tmp_path) as bench:
        rows: list[dict[str, object]] = [{"Args": f"{n}", "Weight": n} for n in range(30)]
        rows += [{"Args": "same"}] * 10 + [{"args": "odd", "Args2": 2**62}] * 10 + [{"Weight": expr("2 + 3")}] * 10
        await bench.submit(a_job(Total=expr("Weight + 1"), Args="none"), *rows)
        await bench.submit(a_job(), {}, {"Tag": 1.5}, {"Tag": True})
        await bench.act(Action.HOLD, "1.3", "1.12")
        answers = []
        async with bench.connected() as peer:
            for tables in (False, True):
                request = QueryJobs(select=Selection(), projection=projection, tables=tables)
                async with peer.stream(request) as batches:
                    answers.append([ad async for batch in batches for ad in ads_of(batch)])
        plain, tabled = answers
        assert len(plain) == 63
        assert plain == tabled


async def test_a_job_that_an_edit_leaves_out_by_its_constraint_is_not_called_missing(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job())
        async with bench.connected() as peer:
            select = Selection(ids=["1.0", "7.0"], constraint='Cmd == "/bin/other"')
            done = await peer.call(EditJobs(select=select, assignments={"Note": "1"}))
        assert [(str(one.job_id), one.outcome) for one in done.results] == [("7.0", Outcome.NOT_FOUND)]


@pytest.mark.parametrize("across", [True, False])
async def test_submitters_ads_tell_the_priorities_that_count_across_schedds(
    tmp_path: Path, autojump_clock: Clock, across: bool
) -> None:
    async with a_bench(tmp_path, USE_GLOBAL_JOB_PRIOS=str(across), MAX_GLOBAL_JOB_PRIOS="2") as bench:
        await bench.host.start("collector")
        await bench.submit(a_job(), {"JobPrio": 3}, {"JobPrio": -1}, {"JobPrio": 7}, {"JobPrio": 3})
        (ad,) = await bench.host.until_known("Submitter", "IdleJobs == 4")
        told = ad.get("JobPrioArray"), ad.get("JobPrioArrayOverflow")
        assert told == (("7,3", 3) if across else (None, None))


async def test_what_changes_no_count_is_told_of_submitters_all_the_same(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, USE_GLOBAL_JOB_PRIOS="true") as bench:
        await bench.host.start("collector")
        await bench.submit(a_job(RequestCpus=3), {"JobPrio": 3}, {"JobPrio": 5})
        (ad,) = await bench.host.until_known("Submitter", 'JobPrioArray == "5,3"')
        assert (ad["IdleJobs"], ad["WeightedIdleJobs"], ad["WeightedRunningJobs"]) == (2, 6, 0)
        async with bench.connected() as peer:
            await peer.call(EditJobs(select=Selection(ids=["1.0"]), assignments={"JobPrio": "9"}))
        await bench.host.until_known("Submitter", 'JobPrioArray == "9,5"')


async def test_the_schedds_ad_counts_waiting_jobs_of_each_universe(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, START_LOCAL_UNIVERSE="false", START_SCHEDULER_UNIVERSE="false") as bench:
        await bench.host.start("collector")
        await bench.submit(a_job(JobUniverse=12), {}, {})
        await bench.submit(a_job(JobUniverse=7), {})
        await bench.submit(a_job(), {})
        (ad,) = await bench.host.until_known("Scheduler", "TotalJobAds == 4")
        assert (ad["TotalLocalJobsIdle"], ad["TotalSchedulerJobsIdle"]) == (2, 1)
