"""Sorting anew in steps, while jobs come, go and are taken."""

from __future__ import annotations

import random

import pytest

from pool.classad import ClassAd, expr
from pool.jobs.queue.cluster import Job
from pool.jobs.waiting.groups import ALIKE_MAX, Waiting
from tests.pool.jobs.waiting.test_autoclusters import ANN, Bench

COLORS = ("red", "blue", "green")


def _slot(name: str) -> ClassAd:
    return ClassAd({"Requirements": expr(f"TARGET.{name} is undefined")})


def _seen(waiting: Waiting) -> list[tuple[int, list[str]]]:
    """Which jobs wait together."""
    groups = [(group.priority.prio, sorted(str(job.id) for job in group.members())) for group in waiting.groups()]
    assert all(group.count == len(ids) for group, (_, ids) in zip(waiting.groups(), groups, strict=True))
    return sorted(groups)


def _afresh(bench: Bench, jobs: list[Job]) -> list[tuple[int, list[str]]]:
    """Which of these jobs would wait together if they had not waited before."""
    for job in jobs:
        job.group = None
    waiting = Waiting(bench.autoclusters)
    for job in jobs:
        waiting.add(job, ANN)
    waiting.sort_some(1_000_000)
    return _seen(waiting)


@pytest.mark.parametrize("seed", range(12))
def test_what_happens_between_the_steps_of_a_sorting_is_sorted_as_well(seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench()
    idle: list[Job] = []
    waiting: list[Job] = []
    for _ in range(6):
        rows = [{"Color": rng.choice(COLORS)} if rng.random() < 0.3 else {} for _ in range(rng.randrange(1, 300))]
        jobs = bench.add(*rows, JobPrio=rng.randrange(2), Size=rng.randrange(2))
        bench.waiting.add_alike(jobs, ANN)
        waiting += jobs
    for name in ("Color", "Size"):
        bench.autoclusters.learn_slot(_slot(name))
        while bench.waiting.sort_some(1):
            for _ in range(rng.randrange(5)):
                if waiting and rng.random() < 0.6:
                    job = waiting.pop(rng.randrange(len(waiting)))
                    bench.waiting.discard(job)
                    idle.append(job)
                elif idle:
                    job = idle.pop(rng.randrange(len(idle)))
                    bench.waiting.add(job, ANN)
                    waiting.append(job)
            if rng.random() < 0.05:
                bench.autoclusters.learn_slot(_slot(f"Other{rng.randrange(3)}"))
    assert not bench.waiting.is_stale
    assert _seen(bench.waiting) == _afresh(bench, waiting)


def test_a_large_group_is_sorted_in_steps_and_its_jobs_can_be_had_meanwhile() -> None:
    bench = Bench()
    jobs = bench.add(*({"Color": "red"} if n == 2500 else {} for n in range(5 * ALIKE_MAX)))
    bench.waiting.add_alike(jobs, ANN)
    (group,) = bench.waiting.groups()
    bench.autoclusters.learn_slot(_slot("Color"))
    steps, had = 0, []
    while bench.waiting.sort_some(1):
        steps += 1
        found = [group.first() for group in bench.waiting.groups()]
        had.append(next(job for job in found if job is not None))
        bench.waiting.discard(had[-1])
    assert steps > 5
    assert len(set(had)) == steps
    assert sorted(group.count for group in bench.waiting.groups()) in (
        [1, 5 * ALIKE_MAX - 1 - steps],
        [5 * ALIKE_MAX - steps],
    )
    assert not group.count
