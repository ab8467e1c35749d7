"""Arguments and environments in both styles, there and back."""

from __future__ import annotations

import pytest

from pool.base.argv import BadQuoting, join_new, split_new
from pool.submit.quoting import (
    EnvironmentFilter,
    arguments_old_style,
    join_environment,
    parse_environment,
    unquote_new_style,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"a b"', ["a", "b"]),
        ("\"'a b' c\"", ["a b", "c"]),
        ("\"it''s\"", ["its"]),
        ("\"'it''s'\"", ["it's"]),
        ('"say ""hi"""', ["say", '"hi"']),
        ("\"''\"", [""]),
        ('""', []),
        ("\"a''b\"", ["ab"]),
    ],
)
def test_new_style_arguments(text: str, words: list[str]) -> None:
    assert split_new(unquote_new_style(text)) == words


@pytest.mark.parametrize("words", [[], [""], ["a b"], ["it's"], ["'"], ["a", "", "b c'd"], ["\t"], ["''", "x y  z"]])
def test_new_style_round_trip(words: list[str]) -> None:
    assert split_new(join_new(words)) == words


@pytest.mark.parametrize("text", ['"a', '"a" b', '"\'a"'])
def test_bad_quoting_is_refused(text: str) -> None:
    with pytest.raises(BadQuoting):
        split_new(unquote_new_style(text))


def test_old_style_arguments() -> None:
    assert arguments_old_style(r"a  \"b\"") == 'a "b"'
    with pytest.raises(BadQuoting):
        arguments_old_style('a "b"')


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A=1;B=two words", {"A": "1", "B": "two words"}),
        ("\"A=1 B='two words' C=\"", {"A": "1", "B": "two words", "C": ""}),
        ("A=x=y;", {"A": "x=y"}),
    ],
)
def test_environments(text: str, variables: dict[str, str]) -> None:
    assert parse_environment(text) == variables


@pytest.mark.parametrize("text", ["A", "=1", '"A"'])
def test_an_entry_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(BadQuoting):
        parse_environment(text)


def test_environment_is_written_in_order() -> None:
    assert join_environment({"B": "2 3", "A": "1"}) == "A=1 B=2' '3"


def test_what_getenv_lets_through() -> None:
    wanted = EnvironmentFilter("CF_*, !CF_SECRET*")
    assert wanted.passes("CF_X", "1")
    assert not wanted.passes("CF_SECRET1", "1")
    assert not wanted.passes("HOME", "/")
    assert not EnvironmentFilter("").passes("X", "two\nlines")
