"""Concurrency limits: what jobs ask for, and when there is no more."""

from __future__ import annotations

import pytest

from pool.accounting.limits import differ_by_slot, exceeded, limits_of, parse_limits
from pool.classad import ClassAd, expr


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("XSW", {"xsw": 1}),
        ("XSW, DATABASE,FILESERVER:3", {"xsw": 1, "database": 1, "fileserver": 3}),
        ("a:0.5 a:2", {"a": 2.5}),
        ("a:0,b:-3,c:x,d:,e:nan", {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}),
        ("large.swlicense:2", {"large.swlicense": 2}),
        ("", {}),
    ],
)
def test_a_job_names_what_it_uses_and_how_much(text: str, wanted: dict[str, float]) -> None:
    assert parse_limits(text) == wanted


def test_an_expression_is_seen_with_the_slot() -> None:
    job = ClassAd({"ConcurrencyLimits": expr('strcat("net_", TARGET.Network)')})
    assert differ_by_slot(job)
    assert limits_of(job, ClassAd({"Network": "A"})) == {"net_a": 1}
    assert not differ_by_slot(ClassAd({"ConcurrencyLimits": "x"}))
    assert limits_of(ClassAd(), None) == {}


def test_the_limit_that_is_reached_is_named() -> None:
    capacity = {"x": 3.0, "y": 1.0}.__getitem__
    assert exceeded({"x": 1}, {"x": 2}, capacity) == ""
    assert exceeded({"x": 1, "y": 1}, {"x": 2, "y": 1}, capacity) == "y"
    assert exceeded({"x": 0.1}, {"x": 3.0}, capacity) == "x"
