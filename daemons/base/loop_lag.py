"""How long the event loop is held: a heartbeat measures how late it wakes, and the worst per cent is reported."""

from __future__ import annotations

from array import array
from typing import Final

import trio

BEAT_S: Final = 0.1
SAMPLES_MAX: Final = 3000  # the last five minutes


class LoopLag:
    """The lateness of the last beats, in seconds."""

    def __init__(self) -> None:
        self._late = array("d")  # numbers and no objects: a fourth of the memory
        self._oldest = 0

    async def watch(self) -> None:
        """Beat for ever. Under a virtual clock nothing is ever late: do not start it there."""
        while True:
            # From now, not from the last beat: one long hold is one late beat, and not ten.
            due = trio.current_time() + BEAT_S
            await trio.sleep_until(due)
            self._note(trio.current_time() - due)

    def _note(self, late_s: float) -> None:
        if len(self._late) < SAMPLES_MAX:
            self._late.append(late_s)
        else:
            self._late[self._oldest] = late_s
            self._oldest = (self._oldest + 1) % SAMPLES_MAX

    def p99(self) -> float:
        """The lateness that one beat in a hundred exceeds; 0 before the first."""
        if not self._late:
            return 0.0
        ordered = sorted(self._late)
        return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]

    def worst(self) -> float:
        """The greatest lateness."""
        return max(self._late, default=0.0)
