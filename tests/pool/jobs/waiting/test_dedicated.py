"""Who leaves for a parallel job that has too few slots, and whether one is possible at all."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.jobs.waiting.dedicated import DedicatedRules, Lacks, RunningNode, is_possible, who_leaves

PRIORITY = ("MY.JobPrio < TARGET.JobPrio", "-MY.JobPrio")


def rules(requirements: str = PRIORITY[0], rank: str = PRIORITY[1]) -> DedicatedRules:
    return DedicatedRules(expr(requirements) if requirements else None, expr(rank) if rank else None, True)


def a_node(of: str, prio: int, **slot: object) -> RunningNode[str]:
    return RunningNode(of, ClassAd({"JobPrio": prio}), ClassAd({"Cpus": 1, "Requirements": True, **slot}))


def lacking(count: int, prio: int = 5, needs: str = "TARGET.Cpus >= 1") -> Lacks:
    return Lacks(ClassAd({"JobPrio": prio, "Requirements": expr(needs)}), count)


NODES = [a_node("low", 1), a_node("low", 1), a_node("middle", 3), a_node("lowest", 0), a_node("high", 9)]


@pytest.mark.parametrize(
    ("count", "leave"),
    [(1, ["lowest"]), (2, ["lowest", "low"]), (3, ["lowest", "low"]), (4, ["lowest", "low", "middle"])],
)
def test_those_of_the_highest_rank_leave_and_no_more_than_it_takes(count: int, leave: list[str]) -> None:
    assert who_leaves(rules(), [lacking(count)], NODES) == leave


def test_nobody_leaves_where_that_is_not_enough() -> None:
    assert who_leaves(rules(), [lacking(5)], NODES) == []
    assert who_leaves(rules(), [lacking(3), lacking(2)], NODES) == []


@pytest.mark.parametrize("knobs", [("", "0"), ("True", ""), ("False", "0"), ("undefined", "0"), ("True", '"none"')])
def test_nobody_leaves_unless_both_knobs_say_so(knobs: tuple[str, str]) -> None:
    assert who_leaves(rules(*knobs), [lacking(1)], NODES) == []


def test_each_proc_gets_slots_that_suit_it() -> None:
    nodes = [a_node("small", 0), a_node("large", 1, Cpus=2), a_node("closed", 0, Cpus=2, Requirements=False)]
    wide = lacking(1, needs="TARGET.Cpus >= 2")
    assert who_leaves(rules(), [wide], nodes) == ["large"]
    assert who_leaves(rules(), [wide, lacking(1)], nodes) == ["large", "small"]


def test_the_slot_says_what_it_says_itself_and_the_job_the_rest() -> None:
    assert who_leaves(rules("MY.Cpus == 1 && MY.Kind =?= 7", "0"), [lacking(1)], [a_node("of", 1, Kind=7)]) == ["of"]
    own = RunningNode("of", ClassAd({"Cpus": 9}), ClassAd({"Cpus": 1}))
    assert (own.seen()["Cpus"], own.slot.get("JobPrio")) == (1, None)


def test_a_job_is_possible_where_an_empty_machine_would_do() -> None:
    used = ClassAd({"Cpus": 1, "TotalCpus": 4, "MachineResources": "Cpus", "Requirements": True})
    jobs = {needs: ClassAd({"Requirements": expr(f"TARGET.Cpus >= {needs}")}) for needs in (1, 4, 5)}
    assert [is_possible([job], [used]) for job in jobs.values()] == [True, True, False]
    assert not is_possible([jobs[1], jobs[5]], [used])
    assert not is_possible([jobs[1]], [])
