"""Remembered answers are those of evaluating each time."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.classad.values.environment import ENV
from pool.matching.candidates import RankOrder, Working, evaluate_each
from pool.matching.preempt import Asker
from pool.matching.snapshot import Snapshot
from pool.matching.submitters import Submitters
from pool.simulate.remembered import RememberingEvaluator
from tests.pool.matching.test_cycle import a_pslot


def an_asker(**attributes: object) -> Asker:
    wanted = {"RequestCpus": 2, "RequestMemory": 64, "Requirements": True, **attributes}
    return Asker(ClassAd(wanted), "ann@here", Submitters(Snapshot([], [])), 0.0)


def working(*cpus: int) -> list[Working]:
    offers = [a_pslot(f"slot{at}", many) for at, many in enumerate(cpus)]
    return [Working(offer, offer.ad, list(offer.claim_ids)) for offer in offers]


def test_the_answers_are_the_same_the_second_time_and_after_a_change() -> None:
    remembers, asker, slots = RememberingEvaluator(), an_asker(Rank=expr("TARGET.Cpus")), working(1, 2, 4)
    for _ in range(2):
        assert remembers(asker, slots, RankOrder()) == evaluate_each(asker, slots, RankOrder())
    slots[2].ad = ClassAd({"Cpus": 1}, parent=slots[2].ad)
    assert [index for index, _ in remembers(asker, slots, RankOrder())] == [1]


def test_what_may_change_with_time_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    remembers, slots = RememberingEvaluator(), working(4)
    asker = an_asker(Requirements=expr("time() > 1000"))
    monkeypatch.setattr(ENV, "clock", lambda: 999.0)
    assert remembers(asker, slots, RankOrder()) == []
    monkeypatch.setattr(ENV, "clock", lambda: 1001.0)
    assert len(remembers(asker, slots, RankOrder())) == 1
