"""Matching by columns makes the plan that matching slot by slot makes."""

from __future__ import annotations

from random import Random

import pytest

from pool.classad import expr
from pool.matching import CycleSettings, JobRequest, Offer, RankOrder, Snapshot, Standing, negotiate
from pool.matching.columnar import ColumnEvaluator
from tests.pool.matching.test_cycle import a_pslot, a_request, a_slot


def a_pool(rng: Random) -> Snapshot:
    """Slots of all kinds, and jobs that want some of them."""
    slots: list[Offer] = []
    for number in range(40):
        memory = rng.choice([512, 1024, 4096, 8192])
        if rng.random() < 0.4:
            slots.append(a_pslot(f"p{number}", rng.randrange(1, 5), memory=memory, Start=rng.random() < 0.8))
        else:
            held = {"RemoteUser": "bob@pool", "CurrentRank": 0.0, "Rank": expr("TARGET.Vip =?= true")}
            claimed = rng.random() < 0.3
            start = rng.choice([True, expr("TARGET.RequestMemory < MY.Memory / 2")])
            slots.append(a_slot(f"s{number}", claimed=claimed, Memory=memory, Start=start, **(held if claimed else {})))
    requests: list[JobRequest] = [
        a_request(
            f"{rng.choice(['alice', 'bob', 'carol'])}@pool",
            rng.randrange(1, 12),
            prio=rng.randrange(3),
            RequestMemory=rng.choice([1, 300, 2000]),
            Rank=rng.choice([0.0, expr("TARGET.Memory"), expr("TARGET.Cpus - TARGET.Nothing")]),
            Requirements=rng.choice([True, expr("TARGET.Memory >= RequestMemory"), expr('TARGET.Name != "p3"')]),
            Vip=rng.random() < 0.3,
        )
        for _ in range(6)
    ]
    order = RankOrder(pre=rng.choice([None, expr("isUndefined(RemoteUser)")]), post=rng.choice([None, expr("-Memory")]))
    return Snapshot(
        slots, requests, standings={"bob@pool": Standing(10.0)}, settings=CycleSettings(order=order), now=1000.0
    )


@pytest.mark.parametrize("seed", range(25))
def test_plans_are_the_same(seed: int) -> None:
    evaluator = ColumnEvaluator()
    for cycle in range(2):
        snapshot = a_pool(Random(seed * 2 + cycle))
        assert negotiate(snapshot, evaluator) == negotiate(snapshot)
