"""Matching by columns makes the plan that matching slot by slot makes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool.accounting.groups import Group
from pool.classad import ClassAd, expr
from pool.classad.columns import few
from pool.matching import (
    CyclePlan,
    CycleSettings,
    JobRequest,
    Offer,
    PreemptionPolicy,
    RankOrder,
    Snapshot,
    Standing,
    negotiate,
)
from pool.matching.columnar import FEW, ColumnEvaluator
from pool.matching.snapshot import TimeLimits
from tests.pool.matching.test_bounds import grouped, static
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


@pytest.mark.parametrize("seed", range(25))
def test_plans_are_the_same_where_slots_that_are_alike_count_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROWS_MIN", "ASKED_MIN", "ALIKE_MIN"):
        monkeypatch.setattr(few, name, 0)
    test_plans_are_the_same(seed)


MEMBERS = ["a.ann@p", "a.bob@p", "a.sub.cid@p", "b.dan@p", "eve@p", "fay@p"]
POLICIES = [
    PreemptionPolicy(consider=False),
    PreemptionPolicy(requirements=expr("RemoteUserPrio > 1.2 * SubmitterUserPrio"), rank=expr("RemoteUserPrio")),
    PreemptionPolicy(requirements=expr("RemoteGroupResourcesInUse > RemoteGroupQuota"), rank=expr("-TotalJobRunTime")),
    PreemptionPolicy(requirements=expr("RemoteUserResourcesInUse > SubmitterUserResourcesInUse"), together=True),
    PreemptionPolicy(requirements=expr("true"), rank=expr("-TotalJobRunTime"), early=True),
    PreemptionPolicy(requirements=expr("RemoteUserResourcesInUse > 2"), stable=False),
]
CONSUMES = {
    "ConsumptionCpus": expr("quantize(TARGET.RequestCpus, {2})"),
    "ConsumptionMemory": expr("quantize(TARGET.RequestMemory, {256})"),
    "ConsumptionDisk": expr("TARGET.RequestDisk"),
    "NumDynamicSlots": 0,
}
TOYS = {
    "MachineResources": "Cpus Memory Disk Swap Toy",
    **{f"Toy_t{number}": ClassAd({"Id": f"t{number}", "Colour": number}) for number in range(3)},
}


def toys(*numbers: int) -> dict[str, object]:
    """These pieces of a custom resource."""
    return {"Toy": len(numbers), "AvailableToy": expr(f"{{ {', '.join(f'Toy_t{number}' for number in numbers)} }}")}


def a_slot_of_any_kind(rng: Random, number: int) -> list[Offer]:
    """A free slot, one that somebody holds, or a partitionable one with a dynamic slot carved out of it."""
    common = {"Memory": rng.choice([512, 1024, 4096]), "Net": rng.choice(["left", "right"]), "Rank": expr("TARGET.Vip")}
    held = {**common, "RemoteOwner": rng.choice(MEMBERS), "CurrentRank": rng.choice([0.0, 0.0, 1.0])}
    held["TotalJobRunTime"] = rng.randrange(1000)
    held["RetirementTimeRemaining"] = rng.choice([0, 0, 100])
    if rng.random() < 0.2:
        held |= {"PreemptingUser": rng.choice(MEMBERS), "PreemptingRank": rng.choice([0.0, 2.0])}
    kind = rng.randrange(5)
    if kind == 0:
        return [a_slot(f"s{number}", **common)]
    if kind == 1:
        return [a_slot(f"c{number}", claimed=True, **held)]
    if kind == 2:
        return [a_pslot(f"q{number}", rng.randrange(1, 9), Net=common["Net"], **CONSUMES)]
    child = a_slot(f"p{number}_1", claimed=True, DynamicSlot=True, **TOYS, **toys(0), **held)
    left = {"Net": common["Net"], **TOYS, **toys(*rng.choice([(), (1,), (1, 2)]))}
    return [a_pslot(f"p{number}", rng.randrange(1, 5), ChildName=[child.name], **left), child]


def a_bounded_pool(rng: Random) -> Snapshot:
    """Slots, groups, jobs, and all that bounds a cycle, some of it tight."""
    slots = [slot for number in range(24) for slot in a_slot_of_any_kind(rng, number)]
    held = Counter(str(slot.ad["RemoteOwner"]) for slot in slots if slot.claimed)
    groups = (
        static("a", rng.randrange(2, 30), surplus=rng.random() < 0.5, regroup=rng.random() < 0.3),
        Group("a.sub", rng.random(), accepts_surplus=rng.random() < 0.5),
        static("b", rng.randrange(1, 12), surplus=rng.random() < 0.5),
    )
    policy = rng.choice(POLICIES)
    order = RankOrder(
        pre=rng.choice([None, expr("isUndefined(RemoteOwner)")]),
        post=rng.choice([None, expr("-Memory")]),
        preemption=policy,
        depth_first=rng.random() < 0.3,
    )
    times = TimeLimits(*(rng.choice([inf, inf, 6.0]) for _ in range(4)))
    capacity = {name: float(rng.randrange(6)) for name in ("license", "left", "right")}
    rate = rng.choice([2.0, float("inf")])
    chosen = grouped(*(groups if rng.random() < 0.7 else ()), rounds=rng.randrange(1, 4), rate=rate)
    return Snapshot(
        slots,
        [a_bounded_request(rng) for _ in range(8)],
        {name: a_standing(rng, held[name]) for name in MEMBERS},
        replace(chosen, order=order, capacity=capacity.__getitem__, times=times, global_prios=rng.random() < 0.3),
        now=1000.0,
        parents=[slot for slot in slots if slot.partitionable] if policy.together else [],
        pool_weight=float(sum(slot.ad.eval_int("Cpus", 1) for slot in slots)),
        limits_used={"license": 1.0},
    )


def a_bounded_request(rng: Random) -> JobRequest:
    limits = rng.choice([None, "license:2", expr("TARGET.Net"), "license, left"])
    return a_request(
        rng.choice(MEMBERS),
        rng.randrange(1, 9),
        prio=rng.randrange(3),
        RequestCpus=rng.choice([1, 1, 2]),
        RequestMemory=rng.choice([1, 600]),
        Rank=rng.choice([0.0, expr("TARGET.Memory")]),
        RequestToy=rng.choice([0, 0, 1, 2]),
        RequireToy=expr("Colour >= 1"),
        Requirements=rng.choice(
            [
                expr("TARGET.Cpus >= RequestCpus && (TARGET.Toy ?: 0) >= RequestToy"),
                expr("TARGET.Memory >= RequestMemory"),
                expr("RequestToy == 0 || countMatches(MY.RequireToy, TARGET.AvailableToy) >= RequestToy"),
            ]
        ),
        Vip=rng.choice([0, 0, 1]),
        **({} if limits is None else {"ConcurrencyLimits": limits}),
    )


def a_standing(rng: Random, held: int) -> Standing:
    ceiling, floor = rng.choice([-1.0, -1.0, held + 2.0]), rng.choice([0.0, 0.0, held + 1.0])
    return Standing(rng.choice([500.0, 700.0, 4000.0]), float(held), held, ceiling, floor)


def timed(snapshot: Snapshot) -> Snapshot:
    """The same where each match takes a second."""
    ticks = count()
    times = replace(snapshot.settings.times, clock=lambda: float(next(ticks)))
    return replace(snapshot, settings=replace(snapshot.settings, times=times))


def in_words(plan: CyclePlan) -> object:
    """What matches and rejections say, in their order: short where plans differ."""
    matches = [(one.request.submitter, one.slot, one.claim_id, one.weight, len(one.room)) for one in plan.matches]
    return matches, [(one.request.submitter, one.unmatched, one.reason) for one in plan.rejections]


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_plans_are_the_same_under_all_that_bounds_a_cycle(rng: Random) -> None:
    evaluator = ColumnEvaluator()
    for _ in range(2):  # the second cycle finds the first one's columns
        snapshot = a_bounded_pool(rng)
        assert len(snapshot.slots) >= FEW
        by_columns, by_scalars = negotiate(timed(snapshot), evaluator), negotiate(timed(snapshot))
        assert in_words(by_columns) == in_words(by_scalars)
        assert by_columns == by_scalars
