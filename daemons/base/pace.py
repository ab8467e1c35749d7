"""For loops over large tables, and for much that is asked at once: let others run every few milliseconds."""

from __future__ import annotations

from typing import Final

import trio

from protocol.network import turns

SLICE_S: Final = 0.004


class Pace:
    """`await pace.breathe()` in each round of a long loop; it costs little until a slice of time is used up."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._since = trio.current_time()

    async def breathe(self) -> bool:
        """Give way, when it is time to: until it is the turn again of the user for whom this is done. Whether others
        have run meanwhile."""
        if trio.current_time() - self._since < self._slice_s:
            return False
        await turns.of_loop().give_way()
        self._since = trio.current_time()
        return True


class LoopTurns:
    """`await turns.next()` before work that many tasks want to do at once: one does it in each turn of the loop."""

    def __init__(self) -> None:
        # A trio lock hands itself to the next waiter only at a checkpoint: one waiter passes in each turn of the loop.
        self._lock = trio.Lock()

    async def next(self) -> None:
        """Wait until it is our turn."""
        async with self._lock:
            pass
