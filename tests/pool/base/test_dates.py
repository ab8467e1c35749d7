"""The calendar, beside the standard library's where that has one."""

from __future__ import annotations

import calendar
import datetime

import pytest

from pool.base.dates import civil, days_before, days_until, is_leap, month_length, utc_seconds, weekday

EPOCH = datetime.date(1970, 1, 1)


@pytest.mark.parametrize("first", [datetime.date(1, 1, 1), datetime.date(1899, 1, 1), datetime.date(2095, 1, 1)])
def test_days_are_those_of_the_standard_library(first: datetime.date) -> None:
    for number in range(4000):
        day = first + datetime.timedelta(number)
        days = (day - EPOCH).days
        assert civil(days) == (day.year, day.month, day.day)
        assert days_until(day.year, day.month, day.day) == days
        assert weekday(days) == day.isoweekday() % 7
        assert month_length(day.year, day.month) == calendar.monthrange(day.year, day.month)[1]


@pytest.mark.parametrize("year", [-401, -1, 0, 1900, 2000, 2024, 12_000])
def test_a_year_is_as_long_as_it_is_leap(year: int) -> None:
    assert days_before(year + 1) - days_before(year) == 365 + is_leap(year)
    assert civil(days_before(year)) == (year, 1, 1)


def test_fields_out_of_range_carry_over() -> None:
    assert days_until(2026, 13, 1) == days_until(2027, 1, 1)
    assert days_until(2026, 0, 31) == days_until(2025, 12, 31)
    assert utc_seconds(2026, 2, 29, 24, 0, 60) == utc_seconds(2026, 3, 2, 0, 1, 0)
