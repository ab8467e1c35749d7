"""Words of configuration, submit files and ads: lists, and true or false; and values that count as true."""

from __future__ import annotations

import pytest

from pool.base.words import split_list, truth_word
from pool.classad import ERROR, UNDEFINED, ClassAd
from pool.classad.values.truth import is_true, truth_of


@pytest.mark.parametrize(
    ("text", "items"),
    [("a, b,c d", ["a", "b", "c", "d"]), (" ,\ta\n,, b ", ["a", "b"]), (",", []), ("", []), (None, [])],
)
def test_a_list_is_what_stands_between_commas_and_blanks(text: str | None, items: list[str]) -> None:
    assert split_list(text) == items


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        *((word, True) for word in ("true", "T", "Yes", "1", " TRUE ")),
        *((word, False) for word in ("false", "F", "No", "0")),
        *((word, None) for word in ("", None, "2", "y", "truth", "1 == 1")),
    ],
)
def test_words_for_true_and_false(text: str | None, truth: bool | None) -> None:
    assert truth_word(text) is truth


@pytest.mark.parametrize(("value", "truth"), [(True, True), (0, False), (-2, True), (0.0, False), (0.5, True)])
def test_a_number_that_is_not_zero_counts_as_true(value: object, truth: bool) -> None:
    assert truth_of(value) is truth
    assert is_true(value) is truth


@pytest.mark.parametrize("value", [UNDEFINED, ERROR, "true", [True], ClassAd({"A": True}), None])
def test_what_is_neither_true_nor_false_is_not_true(value: object) -> None:
    assert truth_of(value) is None
    assert is_true(value) is False
