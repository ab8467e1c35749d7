"""Amounts with units."""

from __future__ import annotations

import pytest

from pool.base.nearest import nearest_name
from pool.base.units import parse_bytes, parse_in_units, parse_seconds, show_seconds


@pytest.mark.parametrize(
    ("text", "number"),
    [("4 GB", 4 << 30), ("10 Mb", 10 << 20), ("1.5k", 1536), ("12", 12), ("2GiB", 2 << 30), ("x", None), ("2 Q", None)],
)
def test_bytes(text: str, number: int | None) -> None:
    assert parse_bytes(text) == number


def test_bytes_in_units_are_rounded_up() -> None:
    assert parse_in_units("1.5 GB", 1 << 20) == 1536
    assert parse_in_units("100K", 1 << 20) == 1
    assert parse_in_units("7", 1 << 20) == 7


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5h", 5400), ("+1d 2h", 93600), ("2 minutes", 120), ("", None), ("soon", None)],
)
def test_seconds(text: str, seconds: float | None) -> None:
    assert parse_seconds(text) == seconds


def test_times_are_shown_as_the_tools_do() -> None:
    assert show_seconds(93784) == "1+02:03:04"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("request_memroy", "request_memory"),
        ("executible", "executable"),
        ("loog", "log"),
        ("xyz", None),
        ("queue_it", None),
    ],
)
def test_the_name_that_was_meant(wrong: str, right: str | None) -> None:
    assert nearest_name(wrong, ("request_memory", "executable", "log")) == right
