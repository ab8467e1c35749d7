"""What this side asks on one connection, and who waits for it here.

A call waits for its one answer, a stream takes items as they come, a notice waits for nothing. Each first waits while
too much is unsent. Whoever waits no longer tells the other side so; what still comes of it is dropped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import outcome
import trio

from protocol.rpc import deadlines, events
from protocol.rpc.connection import Connection
from protocol.rpc.items import Items
from protocol.rpc.outbox import Outbox
from protocol.rpc.remote import ConnectionLost, RemoteError, TimedOut
from protocol.wire.kinds import decode_answer, encode
from protocol.wire.message import Message, Request, StreamRequest

R = TypeVar("R")
item_T = TypeVar("item_T")


class Asking:
    """One connection's calls and streams under way there. `lost` makes the error of who waits when it is closed."""

    __slots__ = ("_connection", "_deadlines", "_items", "_lost", "_outbox", "_waiting", "_whom")

    def __init__(
        self, whom: object, connection: Connection, outbox: Outbox, lost: Callable[[], ConnectionLost]
    ) -> None:
        self._whom = whom
        self._connection = connection
        self._outbox = outbox
        self._lost = lost
        self._waiting: dict[int, trio.lowlevel.Task] = {}
        self._deadlines = deadlines.of_loop()
        self._items: dict[int, Items[Any]] = {}

    async def call(self, request: Request[R], timeout: float | None, left: Callable[[], None] | None = None) -> R:
        """The answer. RemoteError when the other side says no, TimedOut, ConnectionLost."""
        if not self._outbox.has_room:
            await self._outbox.room()
        number = self._connection.call(request.tag, encode(request))
        self._outbox.kick()
        if left is not None:
            left()
        # A task that is woken by hand: an event and a memory channel for each call cost a tenth of its time.
        self._waiting[number] = trio.lowlevel.current_task()

        def stop(_: object) -> trio.lowlevel.Abort:
            self._waiting.pop(number, None)
            return trio.lowlevel.Abort.SUCCEEDED

        if timeout is not None:
            self._deadlines.add(self, number, timeout)
        try:
            event = await trio.lowlevel.wait_task_rescheduled(stop)
        except (trio.Cancelled, KeyboardInterrupt):
            # Not in `stop`: trio goes through the tasks of the scope then, and a writer that begins would be one more.
            self._forget(number)
            raise
        finally:
            if timeout is not None:
                self._deadlines.remove(self, number, timeout)
        if event is None:
            raise TimedOut(f"no answer to {request.tag} from {self._whom} within {timeout or 0:g} s")
        if type(event) is events.Failed:
            raise RemoteError(event.message, code=event.code)
        answer: R = decode_answer(type(request), event.body)
        return answer

    @asynccontextmanager
    async def stream(self, request: StreamRequest[item_T], credit: int) -> AsyncGenerator[Items[item_T], None]:
        """The items of an answer, as they come, for the time of the block."""
        await self._outbox.room()
        number = self._connection.stream(request.tag, encode(request), credit)
        items: Items[item_T] = Items(request, credit, partial(self._ask_for, number))
        self._items[number] = items
        self._outbox.kick()
        try:
            yield items
        finally:
            self._items.pop(number, None)
            self._connection.cancel(number)
            self._outbox.kick()

    def give_up(self, number: int) -> None:
        """A call's answer has not come in time."""
        task = self._forget(number)
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _forget(self, number: int) -> trio.lowlevel.Task | None:
        """Nobody waits for this answer any more; returns who did."""
        task = self._waiting.pop(number, None)
        self._connection.cancel(number)
        self._outbox.kick()
        return task

    async def notify(self, message: Message) -> None:
        """Say something that needs no answer."""
        if not self._outbox.has_room:
            await self._outbox.room()
        self._connection.notify(message.tag, encode(message))
        self._outbox.kick()

    # ---- what comes of it

    def on_answer(self, event: events.Replied | events.Failed) -> None:
        """A call has its answer, or a stream came to nothing."""
        task = self._waiting.pop(event.id, None)
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Value(event))
        elif type(event) is events.Failed and event.id in self._items:
            self._items[event.id].put_end(RemoteError(event.message, code=event.code))

    def on_item(self, event: events.Item) -> None:
        """One more item of a stream."""
        items = self._items.get(event.id)
        if items is not None:
            items.put(event.body)

    def on_end(self, event: events.Ended) -> None:
        """A stream is complete."""
        items = self._items.get(event.id)
        if items is not None:
            items.put_end(None)

    def end(self) -> None:
        """The other side is gone: everybody who waits for it learns that."""
        waiting, self._waiting = self._waiting, {}
        for task in waiting.values():
            trio.lowlevel.reschedule(task, outcome.Error(self._lost()))
        for items in self._items.values():
            items.put_end(self._lost())

    def _ask_for(self, number: int, count: int) -> None:
        self._connection.credit(number, count)
        self._outbox.kick()
