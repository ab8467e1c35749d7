"""Which changes of a slot may let a waiting job match."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.matching import JobRequest
from pool.matching.interest import Interest


def _request(requirements: str, number: int = 1, **ad: object) -> JobRequest:
    return JobRequest("ap", "ann@pool", number, ClassAd({"Requirements": expr(requirements), **ad}), 1)


@pytest.mark.parametrize(
    ("requirements", "before", "now", "differ"),
    [
        ("TARGET.HasDocker", {"HasDocker": False}, {"HasDocker": True}, True),
        ("HasDocker && Memory > 5", {}, {"HasDocker": True}, True),
        ("TARGET.HasDocker", {"HasDocker": True, "LoadAvg": 0.1}, {"HasDocker": True, "LoadAvg": 0.7}, False),
        ("TARGET.HasDocker", {"HasDocker": expr("A > 1")}, {"HasDocker": expr("A > 2")}, True),
        ("TARGET.Memory > MY.Memory", {"Memory": 5}, {"Memory": 6}, True),
        ("Wanted", {"Special": 1}, {"Special": 2}, True),
        ("true", {"HasDocker": False}, {"HasDocker": True}, False),
    ],
)
def test_a_slot_differs_in_what_is_asked_for(
    requirements: str, before: dict[str, object], now: dict[str, object], differ: bool
) -> None:
    request = _request(requirements, Wanted=expr("TARGET.Special == 2"))
    interest = Interest()
    interest.changed()
    assert interest.differ(ClassAd(before), ClassAd(now), [request]) is differ


def test_other_requests_ask_for_other_things() -> None:
    interest = Interest()
    one, other = ClassAd({"A": 1, "B": 1}), ClassAd({"A": 1, "B": 2})
    interest.changed()
    assert not interest.differ(one, other, [_request("A == 1")])
    interest.changed()
    assert interest.differ(one, other, [_request("A == 1"), _request("B == 2", 2)])
    interest.changed()
    assert not interest.differ(one, other, [])


def test_the_same_requirements_of_another_job_may_ask_for_other_things() -> None:
    interest = Interest()
    before, now = ClassAd({"A": 1, "B": 1}), ClassAd({"A": 1, "B": 2})
    for wanted, differ in (("TARGET.A > 1", False), ("TARGET.B > 1", True), ("TARGET.A > 1", False)):
        interest.changed()
        assert interest.differ(before, now, [_request("Wanted", Wanted=expr(wanted))]) is differ
    for own, differ in (({"B": 7}, False), ({}, True)):
        interest.changed()
        assert interest.differ(before, now, [_request("B == 2", **own)]) is differ


def test_long_requirements_are_not_remembered_without_end() -> None:
    interest = Interest()
    requests = [_request(f'TARGET.A{n} == "{"x" * 60_000}"', n) for n in range(1_000)]
    interest.changed()
    interest.differ(None, ClassAd(), requests)
    assert len(interest._known) * 60_000 < 40 << 20
