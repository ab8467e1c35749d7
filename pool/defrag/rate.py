"""How many machines may be drained now, for so many in an hour.

The machines of an hour are spread over its looks at the pool. What is less than one machine a look comes at the first
look of each hour, what is less than one an hour at the first look of each day (UTC), rounded to whole machines: that is
HTCondor's way (defrag.cpp). It counts nothing for a time in which nobody looked.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Final

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
_EPSILON: Final = 0.00001
"""A rate that was divided and multiplied again is no less than it was."""


@dataclass(frozen=True, slots=True)
class Due:
    """So many machines; `exact` is what was rounded."""

    count: int
    exact: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Machines to drain at every look, at the first of an hour, and at the first of a day."""

    interval_s: float
    each_look: int
    each_hour: int
    each_day: int

    @classmethod
    def of(cls, machines_per_hour: float, interval_s: float) -> Rate:
        """The rate of a pool that is looked at every `interval_s`."""
        looks_per_hour = HOUR_S / interval_s
        each_look = floor(machines_per_hour / looks_per_hour + _EPSILON)
        rest = max(0.0, machines_per_hour - each_look * looks_per_hour)
        # Not every hour has a look of its own where they are further apart: the rest is the day's then.
        each_hour = floor(rest + _EPSILON) if interval_s <= HOUR_S else 0
        each_day = floor((rest - each_hour) * 24 + 0.5) if interval_s <= DAY_S else 0
        return cls(interval_s, each_look, each_hour, each_day)

    def due(self, last: float, now: float) -> Due:
        """What may be drained at `now`, wall time; `last` is that of the look before, 0 where there was none."""
        count, exact = self.each_look, float(self.each_look)
        for each, period_s in ((self.each_hour, HOUR_S), (self.each_day, DAY_S)):
            if last and last // period_s != now // period_s:
                # In proportion to what is left of the period, with the time that no look could have come sooner.
                left_s = period_s - now % period_s + self.interval_s
                part = each * left_s / period_s
                count, exact = count + min(each, floor(part + 0.5)), exact + min(each, part)
        return Due(count, exact)
