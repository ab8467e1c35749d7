"""When a job on a clock runs next: five crontab fields against local time.

A run is at a whole minute strictly later than the moment that it is counted from. Day of month and day of week are
alternatives when both are restricted. Where the clock is set forward, a run inside the gap comes as much later as the
clock jumps; where it is set back, a run at a fixed hour comes once, and one that is due every hour in each of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pool.base.dates import days_until, month_length, weekday
from pool.base.errors import UserError
from pool.classad import ClassAd

LocalTime = Callable[[float], time.struct_time]
FromLocal = Callable[[tuple[int, int, int, int, int, int, int, int, int]], float]

# attribute, lowest and highest value
FIELDS = (
    ("CronMinute", 0, 59),
    ("CronHour", 0, 23),
    ("CronDayOfMonth", 1, 31),
    ("CronMonth", 1, 12),
    ("CronDayOfWeek", 0, 7),
)
_ALLOWED = re.compile(r"[0-9*,/\s-]*\Z")
_NUMBER = re.compile(r"[-+]?\d+")
# 29 February may be eight years away
_YEARS = 9
FIELD_CHARS_MAX = 1000
"""How long a field may be: every minute named by itself takes less than 200."""


class CronError(UserError):
    """A field is not a crontab field."""


class CronTab(NamedTuple):
    """The values of each field at which the job runs; no days of the week: that field is free."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, minute: str = "*", hour: str = "*", day: str = "*", month: str = "*", weekday: str = "*") -> CronTab:
        """Read the five fields; CronError names the one that is wrong."""
        values = [
            _values(name, text, low, high)
            for (name, low, high), text in zip(FIELDS, (minute, hour, day, month, weekday), strict=True)
        ]
        return cls(values[0], values[1], values[2], values[3], frozenset(values[4]))

    @classmethod
    def of(cls, ad: ClassAd) -> CronTab | None:
        """The job's crontab, or None when it has none of the attributes; absent ones are free."""
        texts = [ad.eval(name) if name in ad else None for name, _, _ in FIELDS]
        if all(text is None for text in texts):
            return None
        said = [text if isinstance(text, str) else str(text) if type(text) is int else "*" for text in texts]
        return cls.parse(*said)

    def next_run(
        self, after: float, local: LocalTime = time.localtime, from_local: FromLocal = time.mktime
    ) -> int | None:
        """The first run strictly later than `after`, in seconds since 1970; None for a date that never comes."""
        start = int(after) - int(after) % 60 + 60
        found = self._first(start, start, local, from_local)
        if found is None or len(self.hours) < 24:
            return found
        back = _set_back(start, min(found, start + 86400), local)
        if back is None or back >= found:
            return found
        again = self._first(back, back, local, from_local)
        return found if again is None else min(found, again)

    def _first(self, start: int, not_before: int, local: LocalTime, from_local: FromLocal) -> int | None:
        for year, month, day, hour, minute in self._moments(local(start)):
            # Where the clock is set back a local time comes twice, as summer time first, which is the earlier one. With
            # -1 the system chooses, for a time inside the gap, which is neither.
            for summer in (1, 0, -1):
                seconds = int(from_local((year, month, day, hour, minute, 0, 0, 0, summer)))
                shown = local(seconds)
                exact = (shown.tm_mday, shown.tm_hour, shown.tm_min) == (day, hour, minute)
                if exact and seconds < not_before and len(self.hours) < 24:
                    break  # past, even if the clock comes to show this time again
                if seconds >= not_before and (exact or summer == -1):
                    return _after_gap(seconds, (day, hour, minute), local) if not exact else seconds
        return None

    def _moments(self, now: time.struct_time) -> Iterator[tuple[int, int, int, int, int]]:
        """Local times that fit, in order, from `now` on."""
        for year in range(now.tm_year, now.tm_year + _YEARS):
            for month in self.months:
                if (year, month) < (now.tm_year, now.tm_mon):
                    continue
                for day in self._days(year, month):
                    today = (year, month, day) == (now.tm_year, now.tm_mon, now.tm_mday)
                    if not today and (year, month, day) < (now.tm_year, now.tm_mon, now.tm_mday):
                        continue
                    for hour in self.hours:
                        if today and hour < now.tm_hour:
                            continue
                        for minute in self.minutes:
                            if not (today and hour == now.tm_hour and minute < now.tm_min):
                                yield year, month, day, hour, minute

    def _days(self, year: int, month: int) -> list[int]:
        length = month_length(year, month)
        # cron's old rule: day of month and day of week are alternatives only where both say something.
        free = len(self.days) == 31
        if free and len(self.weekdays) in (0, 7):
            return list(range(1, length + 1))
        chosen = set() if free else {day for day in self.days if day <= length}
        first = weekday(days_until(year, month, 1))
        chosen.update(day for day in range(1, length + 1) if (first + day - 1) % 7 in self.weekdays)
        return sorted(chosen)


def _values(name: str, text: str, low: int, high: int) -> tuple[int, ...]:
    if len(text) > FIELD_CHARS_MAX:
        raise CronError(f"{name} has {len(text)} characters", expected=f"at most {FIELD_CHARS_MAX}")
    if not _ALLOWED.match(text):
        raise CronError(f"{name}: {text!r} is not a crontab field", expected="numbers, lists, ranges, steps, *")
    found: set[int] = set()
    for token in text.replace(" ", "").replace("\t", "").split(","):
        if token:
            found.update(_token(name, token, low, high))
    if not found and name != "CronDayOfWeek":
        raise CronError(f"{name}: {text!r} stands for no value between {low} and {high}")
    return tuple(sorted(found))


def _token(name: str, token: str, low: int, high: int) -> set[int]:
    """One item of a list. A single number out of range counts as `*`; a step keeps what it divides."""
    body, slash, step_text = token.partition("/")
    step = _leading(step_text) if slash else 1
    if step == 0:
        raise CronError(f"{name}: the step of {token!r} is not a number above 0")
    first, last = low, high
    if "-" in body:
        before, _, after = body.partition("-")
        first, last = max(low, _leading(before)), min(high, _leading(after))
    elif "*" in body:
        if name == "CronDayOfWeek":
            return set()
    elif low <= _leading(body) <= high:
        first = last = _leading(body)
    values = {value % 7 if name == "CronDayOfWeek" else value for value in range(first, last + 1)}
    return {value for value in values if value % abs(step) == 0}


def _leading(text: str) -> int:
    found = _NUMBER.match(text)
    return int(found[0]) if found else 0


def _set_back(start: int, end: int, local: LocalTime) -> int | None:
    """The moment between two others at which the clock was set back, if it was."""

    def offset(moment: int) -> int:
        return local(moment).tm_gmtoff

    if offset(end) >= offset(start):
        return None
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if offset(middle) == offset(start):
            low = middle
        else:
            high = middle
    return high


def _after_gap(seconds: int, wanted: tuple[int, int, int], local: LocalTime) -> int:
    """A local time that does not exist, as much later as the clock jumped."""
    shown = local(seconds)
    day, hour, minute = wanted
    behind = shown.tm_mday == day and (shown.tm_hour, shown.tm_min) < (hour, minute)
    return seconds + 3600 if behind else seconds
