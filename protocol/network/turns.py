"""Whose turn it is to use the event loop: who has used it least comes first, however much others ask for.

    await turns.of_loop().enter(user)      # before work of up to a few milliseconds that somebody has asked for

While little is asked for nobody waits. Once the work of one turn of the loop has taken `SLICE_S`, the rest waits, and
each further turn of the loop does one piece of it: of the user who has used the loop least of late. Who has used it
less than all who wait does not wait at all. So a user with a thousand requests delays another's by the piece of work
that is just being done, not by a thousand.

Strangers have a part of the loop of their own (`STRANGERS_PART`), since what they cost most, a TLS handshake, is paid
before anybody knows who they are; they too take turns, by their addresses.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Final

import trio

SLICE_S: Final = 0.002
LESS_S: Final = 0.0005
"""How much less who passes by must have used than those who wait."""
MEMORY_S: Final = 0.5
"""What was used is halved so often."""
STRANGERS_PART: Final = 0.3
"""How much of the loop's time strangers get together, while there are others too."""

user: ContextVar[str] = ContextVar("user", default="")
"""For whom a task works: set for the tasks of a connection."""


class _Queue:
    """Tasks that wait, each for somebody; and what everybody has used of late, in seconds."""

    def __init__(self) -> None:
        self.waiting: dict[str, deque[trio.lowlevel.Task]] = {}
        self.used: dict[str, float] = {}

    def add(self, whose: str, task: trio.lowlevel.Task) -> None:
        self.waiting.setdefault(whose, deque()).append(task)

    def remove(self, whose: str, task: trio.lowlevel.Task) -> None:
        queue = self.waiting[whose]
        queue.remove(task)
        if not queue:
            del self.waiting[whose]

    def least(self) -> str:
        """Who of those that wait has used least."""
        return min(self.waiting, key=self.used_by)

    def used_by(self, whose: str) -> float:
        return self.used.get(whose, 0.0)

    def take(self, whose: str) -> trio.lowlevel.Task:
        task = self.waiting[whose].popleft()
        if not self.waiting[whose]:
            del self.waiting[whose]
        return task

    def forget_half(self) -> None:
        self.used = {whose: seconds / 2 for whose, seconds in self.used.items() if seconds > LESS_S / 2}


class Turns:
    """The queues of one event loop; `of_loop()` is this one's."""

    def __init__(self) -> None:
        self._users, self._strangers = _Queue(), _Queue()
        self._since: float | None = None  # when this turn of the loop began to work
        self._piece: tuple[_Queue, str, float] | None = None  # what is being done: whose it is, and since when
        self._strangers_from = 0.0  # when the next stranger's piece may begin
        self._forget_at = 0.0
        self._server: trio.lowlevel.Task | None = None
        self._is_served = False

    async def enter(self, whose: str | None = None) -> None:
        """Go on at once, or when it is the turn of `whose` (of the current task's user)."""
        whose, now = user.get() if whose is None else whose, trio.current_time()
        self._end_piece(now)
        if not self._must_wait(whose, now):
            self._begin_piece(self._users, whose, now)
            return
        await self._wait(self._users, whose)

    async def enter_stranger(self, address: str) -> None:
        """The same, for who has not authenticated."""
        now = trio.current_time()
        self._end_piece(now)
        if not self._strangers.waiting and now >= self._strangers_from and not self._is_full(now):
            self._begin_piece(self._strangers, address, now)
            return
        await self._wait(self._strangers, address)

    async def give_way(self) -> None:
        """Let others run, at least once, and then go on when it is our turn."""
        if self._users.waiting:  # wait among them, or each turn of the loop would first do a piece of theirs
            self._end_piece(trio.current_time())
            await self._wait(self._users, user.get())
            return
        await trio.lowlevel.checkpoint()
        await self.enter()

    def _must_wait(self, whose: str, now: float) -> bool:
        queue = self._users
        if queue.waiting:
            return queue.used_by(whose) + LESS_S > queue.used_by(queue.least())
        return self._is_full(now)

    def _is_full(self, now: float) -> bool:
        return self._since is not None and now - self._since >= SLICE_S

    def _begin_piece(self, queue: _Queue, whose: str, now: float) -> None:
        self._piece = queue, whose, now
        if self._since is None:
            self._since = now
            self._wake_server()

    def _end_piece(self, now: float) -> None:
        """Account for the piece of work that was being done until now."""
        if self._piece is None:
            return
        queue, whose, began = self._piece
        self._piece = None
        queue.used[whose] = queue.used_by(whose) + now - began
        if queue is self._strangers:
            # A piece of theirs is followed by a pause that makes it their part of the time.
            self._strangers_from = now + (now - began) * (1 / STRANGERS_PART - 1)
        # Half, and not all: who has flooded the loop for a minute comes behind the others for some seconds yet.
        if now >= self._forget_at:
            self._forget_at = now + MEMORY_S
            self._users.forget_half()
            self._strangers.forget_half()

    async def _wait(self, queue: _Queue, whose: str) -> None:
        task = trio.lowlevel.current_task()
        queue.add(whose, task)

        def give_up(_: object) -> trio.lowlevel.Abort:
            queue.remove(whose, task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._wake_server()
        await trio.lowlevel.wait_task_rescheduled(give_up)

    # ---- what serves those who wait

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
            now = trio.current_time()
            self._end_piece(now)
            self._since = None
            if self._strangers.waiting and now >= self._strangers_from:
                self._let_go(self._strangers, now)
            elif self._users.waiting:
                self._let_go(self._users, now)
            else:
                with trio.move_on_at(self._strangers_from if self._strangers.waiting else float("inf")):
                    self._server = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._stop_parking)

    def _stop_parking(self, _: object) -> trio.lowlevel.Abort:
        self._server = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _let_go(self, queue: _Queue, now: float) -> None:
        whose = queue.least()
        self._since, self._piece = now, (queue, whose, now)
        trio.lowlevel.reschedule(queue.take(whose))


_of_loop: trio.lowlevel.RunVar[Turns] = trio.lowlevel.RunVar("turns")


def of_loop() -> Turns:
    """The queues of the event loop that runs here."""
    try:
        return _of_loop.get()
    except LookupError:
        turns = Turns()
        _of_loop.set(turns)
        return turns
