"""What is said in the log of those who are refused: not more than somebody would read, whatever they do.

In each minute so many lines tell of one account, user or address, and so many of all; the rest is counted, and the
count is logged with the first line of the next minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 60.0
LINES_OF_ONE_MAX: Final = 10
LINES_MAX: Final = 100
LINE_CHARS_MAX: Final = 500

log = logging.getLogger("protocol.network.refusals")


class Refusals:
    """The lines of this period."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0
        self._said: dict[str, int] = {}
        self._lines = 0
        self._unsaid = 0

    def say(self, whom: str, line: str, level: int = logging.WARNING) -> None:
        """Log this line about `whom`, or count it."""
        if self.may_say(whom):
            log.log(level, "%s", line if len(line) <= LINE_CHARS_MAX else line[:LINE_CHARS_MAX] + "...")

    def may_say(self, whom: str) -> bool:
        """Whether there is a line left for `whom`; it is used up, or counted as not logged."""
        now = self._clock()
        if now >= self._until:
            self._begin(now)
        said = self._said.get(whom, 0)
        if said >= LINES_OF_ONE_MAX or self._lines >= LINES_MAX:
            self._unsaid += 1
            return False
        self._said[whom] = said + 1
        self._lines += 1
        return True

    def flush(self) -> None:
        """Log the count of a period that is over; called now and then, since there may be no further line."""
        if self._unsaid and self._clock() >= self._until:
            self._begin(self._clock())

    def _begin(self, now: float) -> None:
        if self._unsaid:
            log.warning("%d more refusals and dropped connections were not logged one by one", self._unsaid)
        self._said.clear()
        self._until, self._lines, self._unsaid = now + PERIOD_S, 0, 0
