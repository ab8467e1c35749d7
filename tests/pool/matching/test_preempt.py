"""Who is moved aside for whom: what PREEMPTION_REQUIREMENTS and PREEMPTION_RANK see, and what they are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pool.accounting import SubmitterUse
from pool.accounting.groups import Group, GroupTree
from pool.classad import ClassAd, expr
from pool.matching import (
    CyclePlan,
    CycleSettings,
    JobRequest,
    Offer,
    Offers,
    PreemptionPolicy,
    RankOrder,
    SlotHolders,
    Snapshot,
    Standing,
    negotiate,
)
from pool.matching.offers import may_rank_higher
from tests.pool.matching.test_cycle import a_family, a_request, a_slot

LATE, GREEDY = Standing(1.0), Standing(9.0, 2.0, 1)
GROUPS = GroupTree([Group("a", 3.0, is_static=True, regroups=True), Group("b", 2.0, is_static=True)])


def cycle(
    slots: list[Offer],
    *requests: JobRequest,
    policy: PreemptionPolicy,
    groups: GroupTree | None = None,
    **more: Standing,
) -> CyclePlan:
    standings = {f"{name.replace('__', '.')}@p": standing for name, standing in more.items()}
    settings = CycleSettings(RankOrder(preemption=policy), groups=groups or GroupTree())
    return negotiate(Snapshot(slots, requests, standings, settings, pool_weight=8.0))


def held(who: str, name: str = "s", **attributes: object) -> Offer:
    return a_slot(name, claimed=True, **{"RemoteOwner": f"{who}@p", "CurrentRank": 0.0, **attributes})


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("SubmitterUserPrio == 1 && RemoteUserPrio == 9", True),
        ("SubmitterUserResourcesInUse == 0 && RemoteUserResourcesInUse == 2", True),  # one slot, of two cores
        ("RemoteUserFloor == 0", True),
        ("isUndefined(SubmitterGroup) && isUndefined(RemoteGroup) && isUndefined(RemoteGroupQuota)", True),
        ('SubmitterNegotiatingGroup == "<none>" && SubmitterAutoregroup is false', True),
        ("isUndefined(RemoteNegotiatingGroup) && isUndefined(PreemptingUser)", True),
        ("MY.Memory == 1024 && TARGET.RequestMemory == 1", True),
        ("1", False),  # it has to be true itself, and not what counts as true
        ("NoSuchAttribute", False),
    ],
)
def test_preemption_requirements_see_both_sides(condition: str, holds: bool) -> None:
    policy = PreemptionPolicy(requirements=expr(condition))
    plan = cycle([held("greedy")], a_request("late@p"), policy=policy, late=LATE, greedy=GREEDY)
    assert bool(plan.matches) == holds


@pytest.mark.parametrize(
    "condition",
    [
        'SubmitterGroup == "a" && RemoteGroup == "b"',
        "SubmitterGroupQuota == 3 && RemoteGroupQuota == 2",
        "SubmitterGroupResourcesInUse == 0 && RemoteGroupResourcesInUse == 2",
        'SubmitterNegotiatingGroup == "a" && !SubmitterAutoregroup',
        'RemoteNegotiatingGroup == "<none>" && RemoteAutoregroup',
    ],
)
def test_preemption_requirements_see_groups_of_both_sides(condition: str) -> None:
    slot = held("b.greedy", RemoteNegotiatingGroup="<none>", RemoteAutoregroup=True)
    policy = PreemptionPolicy(requirements=expr(condition))
    plan = cycle([slot], a_request("a.late@p"), policy=policy, groups=GROUPS, a__late=LATE, b__greedy=GREEDY)
    assert len(plan.matches) == 1


def test_who_negotiates_with_those_of_no_group_is_seen_to() -> None:
    policy = PreemptionPolicy(requirements=expr('SubmitterAutoregroup && SubmitterNegotiatingGroup == "<none>"'))
    plan = cycle([held("x")], a_request("a.late@p"), policy=policy, groups=GROUPS, a__late=LATE, x=GREEDY)
    assert len(plan.matches) == 1, plan
    plan = cycle([held("x")], a_request("b.late@p"), policy=policy, groups=GROUPS, b__late=LATE, x=GREEDY)
    assert plan.matches == []


def test_for_whom_a_better_claim_waits_counts_and_not_who_still_runs() -> None:
    policy = PreemptionPolicy(requirements=expr("RemoteUserPrio == 5 && CurrentRank == 3"), early=True)
    slot = held("greedy", PreemptingUser="second@p", PreemptingRank=3.0, Rank=3.0, RetirementTimeRemaining=100)
    known = {"greedy": GREEDY, "second": Standing(5.0)}
    plan = cycle([slot], a_request("third@p"), policy=policy, third=Standing(1.0), **known)
    assert len(plan.matches) == 1
    # Better than who runs, and worse than who waits.
    plan = cycle([slot], a_request("third@p"), policy=policy, third=Standing(7.0), **known)
    assert plan.matches == []


def test_a_better_claim_that_waits_is_beaten_by_a_higher_rank_only_than_its_own() -> None:
    policy = PreemptionPolicy(early=True)
    waiting = {"PreemptingUser": "second@p", "PreemptingRank": 3.0, "Rank": expr("TARGET.Loved")}
    for loved, matches in ((2.0, 0), (3.0, 0), (4.0, 1)):
        plan = cycle([held("first", **waiting)], a_request("third@p", Loved=loved), policy=policy)
        assert len(plan.matches) == matches
    assert not may_rank_higher(ClassAd({**waiting, "Rank": 2.0}))
    assert may_rank_higher(ClassAd({**waiting, "Rank": 4.0}))


def test_a_partitionable_slot_in_which_room_is_being_made_makes_no_more() -> None:
    snapshot = a_family({"p_1": 0.0, "p_2": 0.0})
    request = a_request(Loved=9)
    assert len(negotiate(replace(snapshot, requests=[request])).matches) == 1
    (parent,) = snapshot.parents
    busy = replace(parent, ad=ClassAd({"PreemptingUser": "second@p"}, parent=parent.ad))
    assert negotiate(replace(snapshot, requests=[request], parents=[busy])).matches == []


def test_a_dynamic_slot_without_which_the_job_fits_is_left_alone() -> None:
    snapshot = a_family({"p_1": 0.0, "p_2": 1.0, "p_3": 2.0})
    big = replace(snapshot.slots[2], ad=ClassAd({"Cpus": 4}, parent=snapshot.slots[2].ad))
    slots = [*snapshot.slots[:2], big]
    (matched,) = negotiate(replace(snapshot, slots=slots, requests=[a_request(RequestCpus=4, Loved=9)])).matches
    assert [one.name for one in matched.room] == ["p_3"]
    (matched,) = negotiate(replace(snapshot, slots=slots, requests=[a_request(RequestCpus=5, Loved=9)])).matches
    assert [one.name for one in matched.room] == ["p_1", "p_3"]


GPUS = {
    "MachineResources": "Cpus Memory Disk Swap GPUs",
    **{f"GPUs_{letter}": ClassAd({"Id": letter, "Capability": 7.0 + number}) for number, letter in enumerate("abc")},
}


def test_room_has_the_gpus_of_those_who_leave_and_what_is_known_of_each() -> None:
    snapshot = a_family(dict.fromkeys(["p_1", "p_2", "p_3"], 0.0), cpus=4, **GPUS, GPUs=0, AvailableGPUs=expr("{}"))
    slots = [
        replace(one, ad=ClassAd({"GPUs": 1, "AvailableGPUs": expr(f"{{ GPUs_{letter} }}")}, parent=one.ad))
        for one, letter in zip(snapshot.slots, "abc", strict=False)
    ]
    full = replace(snapshot, slots=[*slots, *snapshot.parents])
    fits = "TARGET.GPUs >= RequestGPUs"
    wants = a_request(RequestGPUs=2, Requirements=expr(fits), Loved=9)
    (matched,) = negotiate(replace(full, requests=[wants])).matches
    assert [one.name for one in matched.room] == ["p_1", "p_2"]
    assert (matched.taken or {})["GPUs"] == 2
    new = f"{fits} && countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs"
    wants = a_request(RequestGPUs=2, RequireGPUs=expr("Capability >= 8"), Requirements=expr(new), Loved=9)
    (matched,) = negotiate(replace(full, requests=[wants])).matches
    assert [one.name for one in matched.room] == ["p_2", "p_3"]
    assert matched.pieces == {"GPUs": ("b", "c")}
    many = a_request(RequestGPUs=4, Requirements=expr(fits), Loved=9)
    assert negotiate(replace(full, requests=[many])).matches == []


@pytest.mark.parametrize(("stable", "matches"), [(True, 3), (False, 1)])
def test_what_is_not_stable_is_judged_anew_after_each_job_that_has_to_leave(stable: bool, matches: int) -> None:
    policy = PreemptionPolicy(requirements=expr("RemoteUserResourcesInUse > 3"), stable=stable)
    slots = [held("greedy", f"s{n}") for n in range(4)]
    plan = cycle(slots, a_request("late@p", 9), policy=policy, late=Standing(0.001), greedy=Standing(9e9, 4.0, 4))
    assert len(plan.matches) == matches


def test_a_slot_whose_job_is_suspended_is_charged_for_unless_the_pool_discounts_it() -> None:
    offers, holders = Offers(), SlotHolders()
    for name, activity in (("s1", "Busy"), ("s2", "Suspended")):
        ad = {"Name": name, "State": "Claimed", "Activity": activity, "RemoteOwner": "a@p", "Cpus": 2}
        offers.put(ClassAd({**ad, "SlotWeight": 2, "MyAddress": "<a>"}), None)
        holders.hear("ap", {name: "a@p"}, (), anew=name == "s1")
    assert offers.use(holders) == {"a@p": SubmitterUse(2, 4.0)}
    assert list(offers.not_charged(holders)) == []
    offers.discounts_suspended = True
    assert offers.use(holders) == {"a@p": SubmitterUse(1, 2.0)}
    assert list(offers.not_charged(holders)) == [("a@p", SubmitterUse(1, 2.0))]
    assert SubmitterUse(1, 3.0).without(SubmitterUse(2, 2.0)) == SubmitterUse(0, 1.0)


@pytest.mark.parametrize("consider", [True, False])
def test_nobody_is_moved_aside_where_preemption_is_not_considered(consider: bool) -> None:
    """Neither for a user's share nor for the Rank of a machine; free slots are given away all the same."""
    policy = PreemptionPolicy(consider=consider, requirements=expr("true"))
    slots = [held("greedy", "s1"), held("greedy", "s2", Rank=expr("TARGET.Loved ?: 0")), a_slot("s3")]
    plan = cycle(
        slots, a_request("late@p", 1), a_request("loved@p", 2, Loved=1), policy=policy, late=LATE, greedy=GREEDY
    )
    assert sorted(matched.slot for matched in plan.matches) == (["s1", "s2", "s3"] if consider else ["s3"])
