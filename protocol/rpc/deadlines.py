"""When waits are given up: one task of the event loop looks after the deadlines of all calls, and of all long waits.

Nearly every answer comes in time, and a cancel scope for each call would cost a tenth of it. Nearly every long wait
ends before its time as well, and trio keeps a deadline until it is due, even that of a wait that is over: where a wait
of ten minutes is begun at each job, a thousand of them. Those that may take equally long stand in one queue, whose
first is due first; whoever waits no longer leaves its queue, and the task looks at what is due when it wakes.

with LongWait(600.0) as idle:
    await changed.wait()
if idle.cancelled_caught:
    ...
"""

from __future__ import annotations

import math
from types import TracebackType
from typing import Final, Protocol

import trio

LONG_S: Final = 5.0
"""A deadline that is nearer may as well be kept until it is due."""


class Waiter(Protocol):
    """Who waits: for answers to one connection's calls, by their numbers."""

    def give_up(self, number: int) -> None:
        """Nothing has come in time."""


class Deadlines:
    """The deadlines of one event loop; `of_loop()` are this one's."""

    def __init__(self) -> None:
        self._queues: dict[float, dict[tuple[Waiter, int], float]] = {}
        self._next = math.inf
        self._alarm = trio.CancelScope()

    def add(self, waiter: Waiter, number: int, timeout: float) -> None:
        """This wait may take so long from now on."""
        deadline = trio.current_time() + timeout
        queue = self._queues.get(timeout)
        if queue is None:
            queue = self._queues[timeout] = {}
        queue[waiter, number] = deadline
        if deadline < self._next:
            self._next = self._alarm.deadline = deadline

    def remove(self, waiter: Waiter, number: int, timeout: float) -> None:
        """The wait is over."""
        queue = self._queues.get(timeout)
        if queue is not None:
            queue.pop((waiter, number), None)
            if not queue:
                del self._queues[timeout]

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
            for wait, deadline in queue.items():
                if deadline > now:
                    self._next = min(self._next, deadline)
                    break
                due.append(wait)
            for wait in due:
                del queue[wait]
                waiter, number = wait
                waiter.give_up(number)
            if not queue:
                del self._queues[timeout]


class LongWait:
    """`with LongWait(seconds) as scope`: as `trio.move_on_after`, and nothing of it is left when the block is over."""

    __slots__ = ("_scope", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope = trio.CancelScope()

    def __enter__(self) -> trio.CancelScope:
        if self._seconds < LONG_S:
            self._scope.deadline = trio.current_time() + self._seconds
        else:
            of_loop().add(self, 0, self._seconds)
        return self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._seconds >= LONG_S:
            of_loop().remove(self, 0, self._seconds)
        return self._scope.__exit__(kind, error, trace)

    def give_up(self, number: int) -> None:
        """The time is over."""
        self._scope.cancel()


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
