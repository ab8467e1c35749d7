"""When calls are given up: one task of the event loop looks after the deadlines of all of them.

Nearly every answer comes in time, and a cancel scope for each call would cost a tenth of it. Calls that may take
equally long stand in one queue, whose first is due first; whoever has its answer leaves its queue.
"""

from __future__ import annotations

import math
from typing import Protocol

import trio


class Asker(Protocol):
    """Who asks: one connection's calls, by their numbers."""

    def give_up(self, number: int) -> None:
        """No answer has come in time."""


class Deadlines:
    """The deadlines of one event loop; `of_loop()` are this one's."""

    def __init__(self) -> None:
        self._queues: dict[float, dict[tuple[Asker, int], float]] = {}
        self._next = math.inf
        self._alarm = trio.CancelScope()

    def add(self, asker: Asker, number: int, timeout: float) -> None:
        """This call may take so long from now on."""
        deadline = trio.current_time() + timeout
        queue = self._queues.get(timeout)
        if queue is None:
            queue = self._queues[timeout] = {}
        queue[asker, number] = deadline
        if deadline < self._next:
            self._next = self._alarm.deadline = deadline

    def remove(self, asker: Asker, number: int, timeout: float) -> None:
        """The call is over."""
        queue = self._queues.get(timeout)
        if queue is not None:
            queue.pop((asker, number), None)

    async def keep(self) -> None:
        """Give up what is due, for as long as the loop runs."""
        while True:
            with trio.CancelScope(deadline=self._next) as self._alarm:
                await trio.sleep_forever()
            self._give_up_what_is_due(trio.current_time())

    def _give_up_what_is_due(self, now: float) -> None:
        self._next = math.inf
        for timeout, queue in list(self._queues.items()):
            due = []
            for call, deadline in queue.items():
                if deadline > now:
                    self._next = min(self._next, deadline)
                    break
                due.append(call)
            for call in due:
                del queue[call]
                asker, number = call
                asker.give_up(number)
            if not queue:
                del self._queues[timeout]


_of_loop: trio.lowlevel.RunVar[Deadlines] = trio.lowlevel.RunVar("deadlines")


def of_loop() -> Deadlines:
    """The deadlines of the event loop that runs here."""
    try:
        return _of_loop.get()
    except LookupError:
        deadlines = Deadlines()
        _of_loop.set(deadlines)
        trio.lowlevel.spawn_system_task(deadlines.keep)
        return deadlines
