"""Which of a submitter's jobs goes first, of all his autoclusters."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pool.classad import ClassAd, expr
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.priority import priority_of
from pool.jobs.waiting.groups import WaitingGroup
from tests.pool.jobs.waiting.test_autoclusters import ANN, Bench


def _anything(job: Job, autocluster: int) -> bool:
    return True


def _taken(bench: Bench) -> list[str]:
    order = []
    while (job := bench.waiting.first(ANN, _anything)) is not None:
        bench.waiting.discard(job)
        order.append(str(job.id))
    return order


def test_five_numbers_count_one_after_another_and_then_the_id() -> None:
    bench = Bench()
    ranks: list[dict[str, object]] = [
        {},
        {"PostJobPrio2": 1},
        {"PostJobPrio1": 1},
        {"JobPrio": 1},
        {"PreJobPrio2": 1},
        {"PreJobPrio1": 1},
        {"PreJobPrio1": 1, "PostJobPrio2": -1},
        {"JobPrio": 1, "PreJobPrio1": -1, "PostJobPrio1": 9},
    ]
    bench.wait([bench.add({"RequestMemory": n + 1}, **own)[0] for n, own in enumerate(ranks)])
    bench.wait(bench.add({}))
    assert _taken(bench) == ["6.0", "7.0", "5.0", "4.0", "3.0", "2.0", "1.0", "9.0", "8.0"]


def test_what_is_no_number_does_not_count() -> None:
    assert priority_of(ClassAd({"PreJobPrio1": "high", "JobPrio": 2})) == (0, 0, 2, 0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_the_first_that_fits_is_the_first_of_all_that_wait(seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench()
    away: list[Job] = []
    for _ in range(8):
        rows = [{"Size": rng.randrange(4), "JobPrio": rng.randrange(3)} for _ in range(rng.randrange(1, 40))]
        away += bench.add(*rows, RequestMemory=rng.randrange(1, 3), Rank=0)
    bench.autoclusters.learn_slot(ClassAd({"Requirements": True, "Rank": expr("TARGET.Size")}))
    waiting: set[Job] = set()
    for _ in range(600):
        if away and rng.random() < 0.6:
            job = away.pop(rng.randrange(len(away)))
            bench.waiting.add(job, ANN)
            waiting.add(job)
        refused = set(rng.sample(sorted({_number(job) for job in waiting}), k=rng.randrange(2))) if waiting else set()
        found = bench.waiting.first(ANN, _all_but(refused))
        fitting = [job for job in waiting if _number(job) not in refused]
        assert found is min(fitting, key=lambda job: (tuple(-n for n in job.priority), job.id), default=None)
        if found is not None and rng.random() < 0.5:
            bench.waiting.discard(found)
            waiting.discard(found)
            away.append(found)


def _number(job: Job) -> int:
    assert isinstance(job.group, WaitingGroup)
    return job.group.autocluster


def _all_but(refused: set[int]) -> Callable[[Job, int], bool]:
    return lambda job, autocluster: autocluster not in refused


def test_an_order_does_not_grow_with_what_comes_and_goes() -> None:
    bench = Bench()
    (low,) = bench.add({"RequestMemory": 7})
    (other,) = bench.add({"RequestMemory": 8})
    bench.wait([low])
    for _ in range(500):
        bench.wait([other])
        bench.waiting.discard(other)
    level = bench.waiting._orders[ANN]._levels[low.priority]
    assert len(level._heap) < 100
    assert bench.waiting.first(ANN, _anything) is low
