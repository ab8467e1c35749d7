"""strftime as the C locale has it, for any year and without asking the platform.

As in HTCondor a time has no zone of its own: %Z is the name of local standard time whatever the time, %z is +0000, and
%s takes the time for local standard time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from re import Match
from typing import Final

from pool.base.dates import civil, days_before, is_leap, weekday
from pool.classad.values.environment import ENV

_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
MAX_OUTPUT: Final = 1022


@dataclass(frozen=True, slots=True)
class Moment:
    """A broken-down time; days of the week count from Sunday, days of the year from 0."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int
    yearday: int

    @classmethod
    def at(cls, secs: int) -> Moment:
        """The moment `secs` after the epoch."""
        days, rest = divmod(secs, 86400)
        year, month, day = civil(days)
        return cls(year, month, day, rest // 3600, rest // 60 % 60, rest % 60, weekday(days), days - days_before(year))

    @classmethod
    def of(cls, year: int, month: int, day: int, hour: int, minute: int, second: int) -> Moment:
        """The moment of fields that may be out of range; the day's numbers follow from year, month and day."""
        fixed = _fixed(year, month, day)
        return cls(year, month, day, hour, minute, second, _rest(fixed, 7), fixed - _fixed(year, 1, 1))

    def field(self, name: str) -> int:
        """What getYear() and its kin give."""
        return {
            "getYear": self.year,
            "getMonth": self.month,
            "getDayOfYear": self.yearday,
            "getDayOfMonth": self.day,
            "getDayOfWeek": self.weekday,
            "getHours": self.hour,
            "getMinutes": self.minute,
            "getSeconds": self.second,
        }[name]


def _towards_zero(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _rest(a: int, b: int) -> int:
    return a - b * _towards_zero(a, b)


def _fixed(year: int, month: int, day: int) -> int:
    # Not `days_until`: HTCondor divides as C does, towards zero, which shows where fields are out of range.
    y = year - 1
    # The formula counts 30 days for February, and takes them back here.
    adjust = 0 if month <= 2 else -1 if is_leap(year) else -2
    return (
        365 * y
        + _towards_zero(y, 4)
        - _towards_zero(y, 100)
        + _towards_zero(y, 400)
        + _towards_zero(367 * month - 362, 12)
        + adjust
        + day
    )


def _name(names: tuple[str, ...], index: int, size: int | None) -> str:
    # As glibc writes a month 13: fields may be out of range.
    return names[index][:size] if 0 <= index < len(names) else "?"


def _iso(m: Moment) -> tuple[int, int]:
    """Year and week by ISO 8601."""
    week = (m.yearday - (m.weekday - 1) % 7 + 10) // 7
    if week < 1:
        return m.year - 1, _weeks(m.year - 1)
    if week > _weeks(m.year):
        return m.year + 1, 1
    return m.year, week


def _weeks(year: int) -> int:
    def dec31(y: int) -> int:
        return (y + y // 4 - y // 100 + y // 400) % 7

    return 53 if dec31(year) == 4 or dec31(year - 1) == 3 else 52


def _seconds(m: Moment) -> int:
    return days_before(m.year) * 86400 + m.yearday * 86400 + m.hour * 3600 + m.minute * 60 + m.second


def _hour12(m: Moment) -> int:
    return 12 if m.hour in (0, 12) else m.hour - 12 if m.hour > 12 else m.hour


_FIELDS: Final[dict[str, Callable[[Moment], str]]] = {
    "a": lambda m: _name(_DAYS, m.weekday, 3),
    "A": lambda m: _name(_DAYS, m.weekday, None),
    "b": lambda m: _name(_MONTHS, m.month - 1, 3),
    "B": lambda m: _name(_MONTHS, m.month - 1, None),
    "c": lambda m: strftime("%a %b %e %H:%M:%S %Y", m),
    "C": lambda m: f"{m.year // 100:02d}",
    "d": lambda m: f"{m.day:02d}",
    "D": lambda m: strftime("%m/%d/%y", m),
    "e": lambda m: f"{m.day:2d}",
    "F": lambda m: strftime("%Y-%m-%d", m),
    "g": lambda m: f"{_iso(m)[0] % 100:02d}",
    "G": lambda m: str(_iso(m)[0]),
    "h": lambda m: _name(_MONTHS, m.month - 1, 3),
    "H": lambda m: f"{m.hour:02d}",
    "I": lambda m: f"{_hour12(m):02d}",
    "j": lambda m: f"{m.yearday + 1:03d}",
    # k, l, P, s: glibc's own, beside those of POSIX.
    "k": lambda m: f"{m.hour:2d}",
    "l": lambda m: f"{_hour12(m):2d}",
    "m": lambda m: f"{m.month:02d}",
    "M": lambda m: f"{m.minute:02d}",
    "n": lambda _m: "\n",
    "p": lambda m: "PM" if m.hour > 11 else "AM",
    "P": lambda m: "pm" if m.hour > 11 else "am",
    "r": lambda m: strftime("%I:%M:%S %p", m),
    "R": lambda m: strftime("%H:%M", m),
    "s": lambda m: str(_seconds(m) - ENV.zone(0, True)),
    "S": lambda m: f"{m.second:02d}",
    "t": lambda _m: "\t",
    "T": lambda m: strftime("%H:%M:%S", m),
    "u": lambda m: str((m.weekday - 1) % 7 + 1),
    "U": lambda m: f"{(m.yearday - m.weekday + 7) // 7:02d}",
    "V": lambda m: f"{_iso(m)[1]:02d}",
    "w": lambda m: str(m.weekday),
    "W": lambda m: f"{(m.yearday - (m.weekday - 1) % 7 + 7) // 7:02d}",
    "x": lambda m: strftime("%m/%d/%y", m),
    "X": lambda m: strftime("%H:%M:%S", m),
    "y": lambda m: f"{m.year % 100:02d}",
    "Y": lambda m: str(m.year),
    "z": lambda _m: "+0000",
    "Z": lambda _m: ENV.zone_name,
    "%": lambda _m: "%",
}
_DIRECTIVE: Final = re.compile(r"%[EO]?(.)", re.DOTALL)


def strftime(form: str, moment: Moment) -> str:
    """`moment` as `form` says; empty when that is longer than 1022 characters."""

    def replace(found: Match[str]) -> str:
        show = _FIELDS.get(found[1])
        return found[0] if show is None else show(moment)

    # E and O ask for a locale's other digits and eras, which the C locale has not.
    out = _DIRECTIVE.sub(replace, form)
    return out if len(out) <= MAX_OUTPUT else ""
