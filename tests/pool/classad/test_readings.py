"""What attributes of ads read is remembered, and not taken for what another ad's read whose texts are the same."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pool.classad import ClassAd, expr
from pool.classad.eval.readings import KNOWN_BYTES_MAX, Reading, Readings
from pool.classad.eval.references import references

START = "Policy && MY.Wide =!= 1 && list[0] > 1 && [x = Inner; y = x + Cpus].y > 0"
VALUES: dict[str, list[Any]] = {
    "Policy": [None, 1, expr("TARGET.A > 1"), expr("B > 1")],
    "Wide": [None, True, expr("TARGET.C")],
    "list": [None, [1, expr("D")], [1, 2]],
    "Inner": [None, expr("E"), 5],
    "B": [None, 5, expr("F")],
}


def ads() -> list[ClassAd]:
    made = []
    for chosen in itertools.product(*VALUES.values()):
        attributes = {name: value for name, value in zip(VALUES, chosen, strict=True) if value is not None}
        made.append(ClassAd({"Start": expr(START), "Cpus": 1, **attributes}))
    return made


def test_what_is_remembered_is_what_a_new_look_finds() -> None:
    readings = Readings("Start", "Rank")
    for ad in [*ads(), *reversed(ads())]:
        own, theirs = references(expr(START).node, ad.attrs)
        found = readings.of(ad)
        assert found.theirs == {name.lower() for name in theirs}
        assert found.own == {"start", *(name.lower() for name in own)}


def test_the_same_reading_serves_all_ads_that_say_the_same() -> None:
    readings = Readings("Start", "Rank")
    first = readings.of(ClassAd({"Start": expr("Policy"), "Policy": expr("TARGET.Foo > 3"), "Rank": 0, "Memory": 1}))
    assert readings.of(ClassAd({"start": expr("Policy"), "policy": expr("TARGET.Foo > 3"), "Rank": 7})) is first
    assert first.theirs == {"foo"}


@pytest.mark.parametrize(
    ("other", "holds"),
    [
        ({"Policy": expr("TARGET.Foo > 3")}, True),
        ({"Policy": expr("TARGET.Foo > 3"), "Foo": 1}, True),
        ({"Policy": expr("TARGET.Foo > 4")}, False),
        ({"Policy": 3}, False),
        ({}, False),
        ({"Policy": expr("TARGET.Foo > 3"), "Late": 1}, False),
    ],
)
def test_a_reading_holds_for_ads_in_which_every_name_leads_to_the_same(other: dict[str, object], holds: bool) -> None:
    start = {"Start": expr("Policy && Late =!= 5")}
    reading = Reading(ClassAd({**start, "Policy": expr("TARGET.Foo > 3")}), ("start",))
    assert reading.holds_for(ClassAd({**start, **other})) is holds


def test_ever_new_texts_are_not_remembered_without_end() -> None:
    readings = Readings("Start")
    for number in range(1_000):
        readings.of(ClassAd({"Start": expr("Policy"), "Policy": expr(f'TARGET.A{number} == "{"x" * 60_000}"')}))
        readings.of(ClassAd({"Start": expr(f'TARGET.A{number} == "{"x" * 60_000}"')}))
    assert len(readings) * 60_000 <= KNOWN_BYTES_MAX
