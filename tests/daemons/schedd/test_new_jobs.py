"""Jobs that are made by columns are those that would be made one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daemons.base.pace import Pace
from daemons.schedd.queue.new_jobs import new_cluster, new_job, new_jobs
from pool.classad import ClassAd, expr
from pool.jobs.accounting_groups import ChargeRules
from pool.jobs.edits import EditRules
from pool.jobs.queue.cluster import Job
from protocol.messages.negotiator import AnnounceWork
from protocol.rpc.endpoints import Peer
from protocol.wire.ad_table import AdTable
from protocol.wire.message import Done
from tests.daemons.schedd.bench import USER, Bench, a_bench, a_job


def _seen(job: Job) -> tuple[object, ...]:
    return job.proc, job.status, job.priority, job.packed


def _both(shared: dict[str, Any], row: dict[str, Any]) -> tuple[list[Job] | None, list[Job]]:
    """Two such jobs, made together and one by one."""
    cluster, _ = new_cluster(ClassAd(shared), owner="ann", user="ann@pool", now=1000, edits=EditRules())
    cluster.id, charging = 1, ChargeRules()
    table = AdTable(names=list(row), columns=[[value, value] for value in row.values()], rows=2, shared={})
    by_one = [new_job(cluster, own, proc, charging) for proc, own in enumerate(table.ads(), 4)]
    return new_jobs(cluster, table, 4), by_one


@pytest.mark.parametrize(
    ("shared", "row"),
    [
        ({}, {"Arguments": "a"}),
        ({"JobPrio": 7}, {"Arguments": "a"}),
        ({"JobPrio": 7, "PreJobPrio1": 2, "PostJobPrio2": -1}, {"Arguments": "a"}),
        ({"JobStatus": 5}, {"Arguments": "a", "Rank": expr("Memory * 2")}),
        ({"JobStatus": 5, "NumHolds": 2, "NumHoldsByReason": ClassAd({"SubmittedOnHold": 2})}, {"Arguments": "a"}),
        ({"JobStatus": 2}, {"Arguments": "a"}),
    ],
)
def test_columns_make_the_jobs_that_ads_make(shared: dict[str, Any], row: dict[str, Any]) -> None:
    together, by_one = _both(shared, row)
    assert together is not None
    assert list(map(_seen, together)) == list(map(_seen, by_one))


@pytest.mark.parametrize(
    ("shared", "row"),
    [
        ({"JobStatus": 5}, {"HoldReason": "mine"}),
        ({}, {"JobStatus": 5}),
        ({}, {"jobprio": 3}),
        ({}, {"prejobprio2": 3}),
        ({"PostJobPrio1": expr("ProcId")}, {"Arguments": "a"}),
        ({"JobPrio": expr("1 + 2")}, {"Arguments": "a"}),
    ],
)
def test_jobs_that_may_differ_for_the_schedd_are_made_one_by_one(shared: dict[str, Any], row: dict[str, Any]) -> None:
    assert _both(shared, row)[0] is None


async def test_the_negotiator_hears_of_a_submission_as_a_whole(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two users' jobs that come together, a cycle must not see those of the one and half of the other's."""
    counts: list[list[int]] = []
    heard = Bench._announce

    def announce(bench: Bench, peer: Peer, request: AnnounceWork) -> Done:
        counts.append(sorted(one.count for one in request.requests))
        return heard(bench, peer, request)

    async def breathe(_pace: Pace) -> bool:
        await trio.sleep(1)
        return True

    monkeypatch.setattr(Bench, "_announce", announce)
    async with a_bench(tmp_path) as bench:
        monkeypatch.setattr(Pace, "breathe", breathe)  # as on a machine on which each job takes its time
        await bench.submit(a_job(), *[{"AccountingGroup": f"{group}.{USER}"} for group in "aaaabbbb"])
        await bench.until(lambda: bool(counts) and sum(counts[-1]) == 8)
    assert counts == [[4, 4]]
