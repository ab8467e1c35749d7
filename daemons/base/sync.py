"""What tasks wait with: for the next time that something happens, for the first of several things, before another try.

changed = Signal()
while True:
    news = changed.next()           # before one looks, so that nothing that happens meanwhile is missed
    look()
    await first_of(news, peer.closed, timeout_s=60.0)

backoff = Backoff(first_s=0.1, most_s=30.0)
while not await attempt():
    await backoff.wait()            # 0.1 s, 0.2 s, 0.4 s ... 30 s
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import trio

from protocol.rpc.deadlines import LongWait


class Signal:
    """Something that happens again and again; each task that waits wakes at the next time, however many there are."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: trio.Event | None = None

    def fire(self) -> None:
        """It happens now."""
        if self._next is not None:
            # A new event for each time: whoever was waiting wakes, and nobody who comes later does.
            self._next.set()
            self._next = None

    def next(self) -> trio.Event:
        """Set when it happens for the next time after now."""
        if self._next is None:
            self._next = trio.Event()
        return self._next

    async def wait(self) -> None:
        """Wait for the next time."""
        await self.next().wait()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true; it is looked at now, and each time that this happens."""
        while not condition():
            await self.wait()


Awaited: TypeAlias = "trio.Event | Signal | Callable[[], Awaitable[object]]"
"""What can be waited for; of a function (`stream.wait`) only that it returns counts."""
A = TypeVar("A", bound=Awaited)


async def first_of(*awaited: A, timeout_s: float = math.inf) -> A | None:
    """Wait for the first of these; which one it was, or None when the time is over before.

    Of several that are there at once the first one named counts. The others are cancelled, so name no function whose
    work would be lost by that. What one of them raises comes in a group, as it does from a nursery.
    """
    events = [one.next() if isinstance(one, Signal) else one for one in awaited]  # what happens from now on counts
    returned: set[int] = set()
    with LongWait(timeout_s):
        async with trio.open_nursery() as race:

            async def run(number: int, wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                returned.add(number)
                race.cancel_scope.cancel()

            for number, one in enumerate(events):
                race.start_soon(run, number, one.wait if isinstance(one, trio.Event) else one)
            await trio.sleep_forever()
    for number, one in enumerate(events):
        if number in returned or (isinstance(one, trio.Event) and one.is_set()):
            return awaited[number]
    return None


class Backoff:
    """How long to wait before another try: twice as long after each one, up to `most_s`."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self.first_s, self.most_s = first_s, most_s
        self.now_s = first_s

    def reset(self) -> None:
        """It has worked: the next wait is a short one again."""
        self.now_s = self.first_s

    def take(self) -> float:
        """How long to wait this time, where something else may end the wait."""
        taken_s, self.now_s = self.now_s, min(2 * self.now_s, self.most_s)
        return taken_s

    async def wait(self) -> None:
        """Wait this time's wait."""
        await trio.sleep(self.take())
