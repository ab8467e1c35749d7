"""Machines that sleep come last in a cycle, and take nothing from anybody."""

from __future__ import annotations

from dataclasses import replace

from pool.classad import ClassAd, expr
from pool.matching import CyclePlan, JobRequest, Offer, Snapshot, Standing, negotiate
from pool.matching.sleepers import want_sleepers
from tests.pool.matching.test_cycle import a_pslot, a_request, a_slot


def planned(slots: list[Offer], requests: list[JobRequest], sleepers: list[ClassAd], **more: object) -> CyclePlan:
    snapshot = replace(Snapshot(slots, requests), **more)  # type: ignore[arg-type]
    plan = negotiate(snapshot)
    want_sleepers(plan, snapshot, sleepers, negotiate)
    return plan


def asleep(offer: Offer) -> ClassAd:
    return ClassAd({"Offline": True}, parent=offer.ad).flat()


def test_a_job_that_finds_no_slot_wants_a_machine_that_sleeps() -> None:
    plan = planned(
        [a_slot("small", Memory=64)], [a_request(Requirements=expr("Memory > 512"))], [asleep(a_slot("big"))]
    )
    assert plan.matches == []
    assert [one.slot for one in plan.wanted] == ["big"]
    (rejected,) = plan.rejections
    assert rejected.reason == "no slot that is awake suits it; big does, whose machine is to be woken"


def test_a_job_runs_where_it_can_though_it_ranks_a_sleeper_higher() -> None:
    better = asleep(a_slot("better", Mips=9000))
    plan = planned([a_slot("good", Mips=10)], [a_request(Rank=expr("Mips"))], [better])
    assert [one.slot for one in plan.matches] == ["good"]
    assert plan.wanted == []


def test_only_what_is_left_over_wants_a_sleeper() -> None:
    plan = planned([a_slot("one")], [a_request(count=3)], [asleep(a_slot(name)) for name in ("two", "three", "four")])
    assert len(plan.matches) == 1
    assert len({one.slot for one in plan.wanted}) == 2


def test_one_machine_is_filled_before_another_is_woken() -> None:
    plan = planned([], [a_request(count=4)], [asleep(a_pslot("a", 4)), asleep(a_pslot("b", 4))])
    assert len(plan.wanted) == 4
    assert len({one.slot for one in plan.wanted}) == 1


def test_a_machine_whose_owner_would_not_have_the_job_is_not_wanted() -> None:
    plan = planned([], [a_request()], [asleep(a_slot("mine", Start=False))])
    assert plan.wanted == []
    assert plan.rejections[0].reason == "no match found"


def test_who_may_have_no_more_slots_wakes_nobody() -> None:
    alice = {"alice@pool": Standing(ceiling=1.0)}
    plan = planned([a_slot("one")], [a_request(count=2)], [asleep(a_slot("two"))], standings=alice)
    assert len(plan.matches) == 1
    assert plan.wanted == []


def test_what_a_cycle_gave_counts_when_sleepers_are_looked_at() -> None:
    """The one who has a slot already may have one more, and would have two if that were forgotten."""
    alice = {"alice@pool": Standing(ceiling=2.0)}
    big = a_request(count=3, Requirements=expr("Memory > 512"))
    plan = planned([a_slot("one")], [a_request(), big], [asleep(a_slot(n)) for n in "abc"], standings=alice)
    assert len(plan.matches) == 1
    assert len(plan.wanted) == 1
