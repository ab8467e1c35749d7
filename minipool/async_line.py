"""The trio API's connection to a schedd: one for all tasks, made anew when it is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import trio

from minipool.patience import Patience
from minipool.session import Session
from pool.errors import PeerError
from protocol import rpc
from protocol.message import Request, StreamRequest
from protocol.remote import ConnectionLost, TimedOut

R = TypeVar("R")
T = TypeVar("T")
item_T = TypeVar("item_T")


async def within(patience: Patience, do: Callable[[], Awaitable[T]]) -> T:
    """Do it; TimedOut when that takes too long."""
    with trio.CancelScope() as scope:
        if patience.deadline is not None:
            scope.deadline = patience.deadline
        return await do()
    raise TimedOut(f"it was not over within {patience.timeout:g} s")


class AsyncLine:
    """The connection; `peer` is the one that works now. Its tasks live in `nursery`."""

    def __init__(self, session: Session, schedd: str | None, nursery: trio.Nursery) -> None:
        self._session, self._schedd, self._nursery = session, schedd, nursery
        self._peer: rpc.Peer | None = None
        self._opening = trio.Lock()

    async def open(self) -> rpc.Peer:
        """The connection; a new one when there is none that works. PeerError when nobody answers."""
        async with self._opening:
            if self._peer is None or self._peer.closed.is_set():
                session = self._session
                address = await trio.to_thread.run_sync(lambda: session.address("schedd", name=self._schedd))
                security = await trio.to_thread.run_sync(session.security_for, address)
                self._peer = await rpc.open_peer(self._nursery, address, security=security)
            return self._peer

    async def aclose(self) -> None:
        """Close the connection."""
        if self._peer is not None:
            await self._peer.aclose()

    async def peer(self, patience: Patience) -> rpc.Peer:
        """The connection, for which a schedd that is gone is looked for as long as `patience` lasts."""
        while True:
            try:
                return await within(patience, self.open)
            except PeerError as error:
                await trio.sleep(patience.pause(trio.current_time(), error))

    async def call(self, request: Request[R], timeout: float | None) -> R:
        """The answer. ConnectionLost when it is not known whether the request had its effect."""
        patience = Patience(trio.current_time(), timeout)
        peer = await self.peer(patience)
        return await peer.call(request, timeout=patience.left(trio.current_time()))

    async def items(self, request: StreamRequest[item_T], timeout: float | None) -> list[item_T]:
        """All items of an answer that changes nothing, so that it may be asked for again."""
        patience = Patience(trio.current_time(), timeout)
        while True:
            peer = await self.peer(patience)
            try:
                return await within(patience, lambda peer=peer: _all_items(peer, request))  # type: ignore[misc]
            except ConnectionLost as error:
                await trio.sleep(patience.pause(trio.current_time(), error))

    async def changes(self, request: StreamRequest[item_T], patience: Patience) -> AsyncGenerator[item_T | None, None]:
        """The items of an answer without end; None when it begins anew on another connection."""
        while True:
            peer = await self.peer(patience)
            yield None
            error = ConnectionLost("the schedd has ended its answer")
            try:
                async with peer.stream(request) as items:
                    while True:
                        try:
                            item = await within(patience, items.__anext__)
                        except StopAsyncIteration:
                            break
                        patience.heard()
                        yield item
            except ConnectionLost as lost:
                error = lost
            await trio.sleep(patience.pause(trio.current_time(), error))


async def _all_items(peer: rpc.Peer, request: StreamRequest[item_T]) -> list[item_T]:
    async with peer.stream(request) as items:
        return [item async for item in items]
