"""The calendar: days and seconds since 1970, for any year and without asking the platform.

It is the Gregorian calendar, carried on before its own beginning. Years are astronomical: 0 is the one before 1.
"""

from __future__ import annotations

from typing import Final

_BEFORE_MONTH: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
DAY_S: Final = 86400


def is_leap(year: int) -> bool:
    """Whether the year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """The days of a month, 1 to 12."""
    return 29 if month == 2 and is_leap(year) else _DAYS[month - 1]


def days_before(year: int) -> int:
    """Days from 1 January 1970 to 1 January of `year`."""
    y = year - 1
    return y * 365 + y // 4 - y // 100 + y // 400 - 719162


def days_until(year: int, month: int, day: int) -> int:
    """Days from 1 January 1970; months and days out of range carry over, as with C's mktime."""
    year, month = divmod(year * 12 + month - 1, 12)
    return days_before(year) + _BEFORE_MONTH[month] + (month > 1 and is_leap(year)) + day - 1


def utc_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Seconds since the epoch of a time in UTC; fields out of range carry over."""
    return days_until(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day, `days` after 1 January 1970."""
    # 719468 days from 1 March of the year 0: leap days then come last in a year, and 400 years are 146097 days.
    cycles, day = divmod(days + 719468, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day += 1 - (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    return year + cycles * 400 + (month <= 2), month, day


def weekday(days: int) -> int:
    """The day of the week, Sunday 0, `days` after 1 January 1970, which was a Thursday."""
    return (days + 4) % 7
