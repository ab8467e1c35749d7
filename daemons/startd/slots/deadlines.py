"""Wakes the startd when something happens by itself: leases, retirement, vacating, killing; and the regular look."""

from __future__ import annotations

from collections.abc import Callable

import trio

from daemons.base.pace import Pace
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import NEVER, Slot, Slots


class Deadlines:
    """One task that sleeps until the next deadline of any slot; `moved` tells it that there may be a sooner one."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._alarm = trio.CancelScope()

    def moved(self, slot: Slot | None = None) -> None:
        """The slot's deadlines have changed, or any slot's."""
        soonest = self._next() if slot is None else slot.next_deadline()
        if soonest < self._alarm.deadline:
            self._alarm.deadline = soonest

    async def run(self, wake: Callable[[], None]) -> None:
        """Sleep until something is due, and have it dealt with by `wake`; for ever."""
        while True:
            with trio.CancelScope(deadline=self._next()) as self._alarm:
                await trio.sleep_forever()
            wake()

    def _next(self) -> float:
        return min((slot.next_deadline() for slot in self._slots), default=NEVER)


async def poll(moves: Moves, first: Callable[[], None]) -> None:
    """Look at the machine and at the policy every POLLING_INTERVAL; before that do what comes `first`."""
    while True:
        first()
        pace = Pace()
        for _ in moves.evaluate_each():
            await pace.breathe()
        await trio.sleep(moves.polling_s)
