"""Clusters that belong together."""

from __future__ import annotations

from pool.classad import ClassAd, expr
from pool.jobs.queue import job_sets
from pool.jobs.queue.cluster import Cluster


def test_a_name_is_worked_out_once() -> None:
    first, second = (
        Cluster(number, ClassAd({"JobSetName": expr(text)}), user="alice@p", owner="alice")
        for number, text in ((7, 'strcat("a", "b")'), (8, '"AB"'))
    )
    job_sets.join(first, [], None)
    assert first.ad["JobSetName"] == "ab"
    job_sets.join(second, [first], None)
    assert second.ad["JobSetId"] == 7
