"""The items of a stream, as they come to who has asked for it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

import trio

from pool.base.errors import PeerError
from protocol.wire.kinds import decode_answer
from protocol.wire.message import StreamRequest

item_T = TypeVar("item_T")


class Items(Generic[item_T]):
    """The items of a stream; iterate once. `async for item in items`.

    `ask_for(count)` gives the sender credit for more; it begins with `credit`.
    """

    def __init__(self, request: StreamRequest[item_T], credit: int, ask_for: Callable[[int], None]) -> None:
        self._request = type(request)
        self._batch = max(1, credit // 2)
        self._ask_for = ask_for
        self._taken = 0
        self._queue: deque[object] = deque()
        self._arrived = trio.Event()
        self._ended = False
        self._error: PeerError | None = None

    def __aiter__(self) -> AsyncIterator[item_T]:
        return self

    async def __anext__(self) -> item_T:
        await trio.lowlevel.checkpoint()
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._arrived = trio.Event()
            await self._arrived.wait()
        body = self._queue.popleft()
        self._taken += 1
        # Credit is given for half of them at once, so that the sender never waits and is not asked for each.
        if self._taken >= self._batch and not self._ended:
            self._ask_for(self._taken)
            self._taken = 0
        item: item_T = decode_answer(self._request, body)
        return item

    def put(self, body: object) -> None:
        """One more has come."""
        self._queue.append(body)
        self._arrived.set()

    def put_end(self, error: PeerError | None) -> None:
        """No more will come; an error is raised after the items that did."""
        if not self._ended:
            self._ended, self._error = True, error
        self._arrived.set()
