"""Whose turn it is to use the event loop: users take turns, however many connections and requests each of them has.

    await turns.enter(user)      # before work of up to a few milliseconds that somebody has asked for

While little is asked for nobody waits. Once the work of one turn of the loop has taken `SLICE_S`, the rest waits in a
queue for each user, and each further turn of the loop serves one that waits: the users one after another, and each
user's in order. So a user with a thousand requests delays another's by one piece of work, not by a thousand.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Final

import trio

SLICE_S: Final = 0.002

user: ContextVar[str] = ContextVar("user", default="")
"""For whom a task works: set for the tasks of a connection."""


class Turns:
    """The queues of one event loop; `of_loop()` is this one's."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[trio.lowlevel.Task]] = {}
        self._since: float | None = None  # when this turn of the loop began to work
        self._server: trio.lowlevel.Task | None = None
        self._is_served = False

    async def enter(self, whose: str | None = None) -> None:
        """Go on at once, or when it is the turn of `whose` (of the current task's user)."""
        now = trio.current_time()
        if not self._waiting:
            if self._since is None:
                self._since = now
                self._wake_server()
                return
            if now - self._since < SLICE_S:
                return
        await self._wait(user.get() if whose is None else whose)

    async def give_way(self) -> None:
        """Let others run, at least once, and then go on when it is our turn."""
        await trio.lowlevel.checkpoint()
        await self.enter()

    async def _wait(self, whose: str) -> None:
        task = trio.lowlevel.current_task()
        queue = self._waiting.setdefault(whose, deque())
        queue.append(task)

        def give_up(_: object) -> trio.lowlevel.Abort:
            queue.remove(task)
            if not queue and self._waiting.get(whose) is queue:
                del self._waiting[whose]
            return trio.lowlevel.Abort.SUCCEEDED

        self._wake_server()
        await trio.lowlevel.wait_task_rescheduled(give_up)

    def _wake_server(self) -> None:
        if not self._is_served:
            self._is_served = True
            trio.lowlevel.spawn_system_task(self._serve, name="turns")
        elif self._server is not None:
            server, self._server = self._server, None
            trio.lowlevel.reschedule(server)

    async def _serve(self) -> None:
        """Once in each turn of the loop in which anything is asked for: begin it, with the next that waits."""
        while True:
            await trio.lowlevel.cancel_shielded_checkpoint()
            self._since = None
            if self._waiting:
                self._since = trio.current_time()
                self._let_go()
            else:
                self._server = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._park)

    def _park(self, _: object) -> trio.lowlevel.Abort:
        self._server = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _let_go(self) -> None:
        whose = next(iter(self._waiting))
        queue = self._waiting.pop(whose)
        task = queue.popleft()
        if queue:
            self._waiting[whose] = queue  # behind all others
        trio.lowlevel.reschedule(task)


_of_loop: trio.lowlevel.RunVar[Turns] = trio.lowlevel.RunVar("turns")


def of_loop() -> Turns:
    """The queues of the event loop that runs here."""
    try:
        return _of_loop.get()
    except LookupError:
        turns = Turns()
        _of_loop.set(turns)
        return turns
