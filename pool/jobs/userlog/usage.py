"""Processor time as the events of a job's log show it: `Usr 0 00:01:30, Sys 0 00:00:02`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pool.base.units import show_seconds


@dataclass(frozen=True)
class Usage:
    """Seconds of processor time."""

    user: float = 0.0
    system: float = 0.0

    def __str__(self) -> str:
        return f"Usr {_days(self.user)}, Sys {_days(self.system)}"

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.user + other.user, self.system + other.system)


NO_USAGE: Final = Usage()


def _days(seconds: float) -> str:
    return _in_days(int(seconds))


@lru_cache(256)
def _in_days(seconds: int) -> str:
    return show_seconds(seconds).replace("+", " ")
