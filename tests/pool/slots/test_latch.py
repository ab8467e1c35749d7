"""Since when an expression of a slot's ad has the value that it has."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.slots.latch import Latch, latch_attributes, look


def test_a_latch_changes_with_the_whole_part_of_its_value() -> None:
    first = look({}, ["Load"], ClassAd({"Load": 1.2}), now=10.0)
    second = look(first, ["Load"], ClassAd({"Load": 1.9}), now=20.0)
    third = look(second, ["Load"], ClassAd({"Load": 2.1}), now=30.0)
    assert (first["Load"], second["Load"], third["Load"]) == (Latch(1, 10.0), Latch(1, 10.0), Latch(2, 30.0))
    assert latch_attributes(third, ["Load"]) == {"LoadValue": 2, "LoadTime": 30}


@pytest.mark.parametrize("value", ['real("INF")', 'real("NaN")'])
def test_a_value_that_is_no_whole_number_is_the_least_one(value: str) -> None:
    assert look({}, ["Load"], ClassAd({"Load": expr(value)}), now=10.0)["Load"].value == -(2**63)
