"""Jobs that are made by columns are those that would be made one by one."""

from __future__ import annotations

from typing import Any

import pytest

from daemons.schedd.new_jobs import cluster_ad, new_job, new_jobs
from pool.classad import ClassAd, expr
from pool.jobs.job_queue import Cluster, Job
from protocol.ad_table import AdTable


def _seen(job: Job) -> tuple[object, ...]:
    return job.proc, job.status, job.prio, job.packed


@pytest.mark.parametrize(
    ("shared", "row"),
    [
        ({}, {"Arguments": "a"}),
        ({"JobPrio": 7}, {"Arguments": "a"}),
        ({"JobStatus": 5}, {"Arguments": "a", "Rank": expr("Memory * 2")}),
        ({"JobStatus": 5, "NumHolds": 2, "NumHoldsByReason": ClassAd({"SubmittedOnHold": 2})}, {"Arguments": "a"}),
        ({"JobStatus": 5}, {"HoldReason": "mine"}),
        ({"JobStatus": 2}, {"Arguments": "a"}),
        ({}, {"JobStatus": 5}),
        ({}, {"jobprio": 3}),
        ({"JobPrio": expr("1 + 2")}, {"Arguments": "a"}),
    ],
)
def test_columns_make_the_jobs_that_ads_make(shared: dict[str, Any], row: dict[str, Any]) -> None:
    cluster = Cluster(1, cluster_ad(ClassAd(shared), "ann", "ann@pool", 1000), user="ann@pool", owner="ann")
    table = AdTable(list(row), [[value, value] for value in row.values()], 2, {})
    by_one = [new_job(cluster, own, proc) for proc, own in enumerate(table.ads(), 4)]
    assert list(map(_seen, new_jobs(cluster, table, 4))) == list(map(_seen, by_one))
