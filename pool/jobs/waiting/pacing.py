"""So many at a time, then a pause: how starts and stops of jobs are spread over time."""

from __future__ import annotations


class Bursts:
    """Hands out moments. JOB_START_COUNT jobs start at once, the next ones JOB_START_DELAY seconds later."""

    __slots__ = ("_free_at", "_in_burst", "_latest")

    def __init__(self) -> None:
        self._in_burst = 0
        self._latest = float("-inf")
        self._free_at = float("-inf")

    def has_room(self, now: float, *, delay_s: float) -> bool:
        """Whether the next one need not wait, as far as is known now."""
        return delay_s <= 0 and now >= self._free_at

    def book(self, now: float, *, count: int, delay_s: float, own_delay_s: float = 0.0) -> float:
        """How many seconds to wait from `now` on. `own_delay_s`: what comes next keeps at least this distance."""
        at = max(now, self._free_at)
        if at >= self._latest + delay_s:
            self._in_burst = 0
        self._in_burst += 1
        pause = 0.0
        if self._in_burst >= count:
            self._in_burst, pause = 0, delay_s
        self._latest, self._free_at = at, at + max(pause, own_delay_s)
        return at - now
