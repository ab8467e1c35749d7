"""Options may be shortened as far as their row allows, and each row takes its values."""

from __future__ import annotations

import pytest

from minipool.cli.entry.options import MANY, MissingValue, Opt, Parsed, UsageError, parse

TABLE = (
    Opt("help", 1),
    Opt("hold held", 2, colon=True),
    Opt("constraint", 1, 1, "EXPR"),
    Opt("autoformat af", 2, MANY, "ATTR...", colon=True),
    Opt("format", 1, 2, "FMT ATTR"),
    Opt("limit", 3, 1, "N"),
)


def parsed(*argv: str) -> Parsed:
    return parse(TABLE, argv, unknown="what is {}?")


@pytest.mark.parametrize(
    ("word", "key"),
    [("-h", "help"), ("-he", "help"), ("-ho", "hold"), ("-held", "hold"), ("--help", "help"), ("-HELP", "help")],
)
def test_a_shortened_option_is_the_first_row_that_takes_it(word: str, key: str) -> None:
    assert [one.key for one in parsed(word).given] == [key]


@pytest.mark.parametrize("word", ["-x", "-lim2", "-li", "-helpp", "-constraint:x"])
def test_an_unknown_option_is_named(word: str) -> None:
    with pytest.raises(UsageError) as error:
        parsed(word)
    assert str(error.value) == f"what is {word}?"


def test_an_option_of_many_words_ends_at_the_next_option() -> None:
    found = parsed("-af:jh", "A", "B", "-constraint", "x == 1", "7.0")
    assert found.values("autoformat") == ["A", "B"]
    assert found.qualifier("autoformat") == "jh"
    assert (found.value("constraint"), found.words) == ("x == 1", ["7.0"])


def test_a_lone_dash_ends_the_words_of_an_option_of_many() -> None:
    assert parsed("-af", "A", "-", "7.0").words == ["7.0"]


def test_a_value_may_begin_with_a_dash() -> None:
    assert parsed("-const", "-1 < x").value("constraint") == "-1 < x"


@pytest.mark.parametrize("argv", [["-af"], ["-af", "-help"], ["-constraint"], ["-format", "%d"]])
def test_a_missing_value_is_told(argv: list[str]) -> None:
    with pytest.raises(MissingValue, match="requires"):
        parsed(*argv)


def test_a_number_is_a_word_and_not_an_option() -> None:
    assert parsed("-3", "12").words == ["-3", "12"]


def test_a_value_that_should_be_a_number_and_is_none_is_told() -> None:
    with pytest.raises(MissingValue, match="requires a number"):
        parsed("-limit", "few").number("limit", 0)
