"""Slots that suit a kind of job, kept from event to event, are those that evaluating each time finds."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.classad.values.environment import ENV
from pool.matching.candidates import RankOrder
from pool.simulate.machines import Machine, read_machines
from pool.simulate.suiting import Suiting
from pool.slots.provision.resources import Amounts
from tests.pool.simulate.test_simulate import a_machine


def machines(*cpus: int, **more: object) -> list[Machine]:
    text = "".join(a_machine(f"m{place}", count, **more) for place, count in enumerate(cpus))
    return read_machines(text.splitlines(), file="machines")


def a_kind(**attributes: object) -> ClassAd:
    return ClassAd({"RequestCpus": 2, "RequestMemory": 64, "RequestDisk": 1, "Requirements": True, **attributes})


def name_of(machine: Machine | None) -> str:
    return "" if machine is None else machine.name


def test_the_best_slot_is_the_one_of_highest_rank_until_it_has_too_little_left() -> None:
    slots = machines(1, 2, 4)
    suiting = Suiting([a_kind(Rank=expr("TARGET.Cpus"))], slots, RankOrder())
    assert name_of(suiting.best(0)) == "slot1@m2"
    child = slots[2].take(Amounts({"Cpus": 3, "Memory": 3}), ClassAd())
    suiting.changed("slot1@m2")
    assert name_of(suiting.best(0)) == "slot1@m1"
    slots[2].free(child)
    suiting.changed("slot1@m2")
    assert name_of(suiting.best(0)) == "slot1@m2"


def test_nothing_suits_where_all_is_taken() -> None:
    (slot,) = machines(2)
    suiting = Suiting([a_kind()], [slot], RankOrder())
    slot.take(Amounts({"Cpus": 2, "Memory": 2, "Disk": 2}), ClassAd())
    suiting.changed(slot.name)
    assert suiting.best(0) is None


def test_what_may_change_with_time_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    suiting = Suiting([a_kind(Requirements=expr("time() > 1000"))], machines(4), RankOrder())
    monkeypatch.setattr(ENV, "clock", lambda: 999.0)
    assert suiting.best(0) is None
    monkeypatch.setattr(ENV, "clock", lambda: 1001.0)
    assert name_of(suiting.best(0)) == "slot1@m0"


@pytest.mark.parametrize(
    ("wants", "classes"),
    [("true", 1), ('TARGET.Machine == "m1"', 3), ('eval(strcat("Mach", "ine")) == "m1"', 3)],
)
def test_slots_are_of_one_class_only_where_no_expression_can_tell_them_apart(wants: str, classes: int) -> None:
    suiting = Suiting([a_kind(Requirements=expr(wants))], machines(4, 4, 4), RankOrder())
    assert len(set(suiting.classes.values())) == classes
