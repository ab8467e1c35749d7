"""The trio shell of the core: it performs its steps over one connection to a schedd, which all tasks share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeVar

import trio

from minipool.client import steps
from minipool.client.patience import Attempts
from minipool.client.session import ANSWERS_S, Session
from pool.base.errors import PeerError, PoolError
from protocol.rpc import endpoints
from protocol.rpc.remote import ConnectionLost, TimedOut
from protocol.wire.address import Address
from protocol.wire.message import StreamRequest

T = TypeVar("T")
item_T = TypeVar("item_T")


async def within(patience: Attempts, do: Callable[[], Awaitable[T]]) -> T:
    """Do it; TimedOut when that takes too long."""
    with trio.CancelScope() as scope:
        if patience.deadline is not None:
            scope.deadline = patience.deadline
        return await do()
    raise TimedOut(f"it was not over within {patience.timeout:g} s")


class Contact(Protocol):
    """Who is told that the connection is made, and that it is lost or cannot be made, and why."""

    def made(self) -> None: ...
    def lost(self, why: str) -> None: ...


class AsyncLine:
    """The connection; `peer` is the one that works now. Its tasks live in `nursery`."""

    def __init__(
        self, session: Session, schedd: str | None, nursery: trio.Nursery, contact: Contact | None = None
    ) -> None:
        self._session, self._schedd, self._nursery, self._contact = session, schedd, nursery, contact
        self._peer: endpoints.Peer | None = None
        self._opening = trio.Lock()
        self._closed = False

    async def open(self) -> endpoints.Peer:
        """The connection; a new one when there is none that works. PeerError when nobody answers."""
        # Tasks that find the connection gone at the same time must not each open one.
        async with self._opening:
            if self._closed:
                raise steps.PoolClosed
            if self._peer is None or self._peer.closed.is_set():
                if self._peer is not None:
                    self._lost(self._peer.close_reason)
                try:
                    self._peer = await self._new_peer()
                except PeerError as error:
                    self._lost(str(error))
                    raise
                if self._contact is not None:
                    self._contact.made()
            return self._peer

    async def _new_peer(self) -> endpoints.Peer:
        # Names are looked up and key files read in threads: the program's other tasks go on meanwhile.
        session = self._session
        address = await trio.to_thread.run_sync(lambda: session.address("schedd", name=self._schedd))
        security = await trio.to_thread.run_sync(session.security_for, address)
        return await endpoints.open_peer(self._nursery, address, security=security)

    def _lost(self, why: str) -> None:
        if self._contact is not None:
            self._contact.lost(why)

    def _there(self) -> endpoints.Peer:
        """The connection as it was opened; ConnectionLost, of it or of what it is asked, when it is lost since."""
        if self._closed:
            raise steps.PoolClosed
        if self._peer is None:
            raise ConnectionLost("the connection to the schedd is lost: closed")
        return self._peer

    async def aclose(self) -> None:
        """Close the connection."""
        self._closed = True
        if self._peer is not None:
            await self._peer.aclose()

    async def perform(self, asked: steps.Steps[T], *, left: Callable[[], None] | None = None) -> T:
        """The result of these steps; `left` is called when a request has left, behind all that left before."""
        run = steps.Run(asked)
        async with AsyncExitStack() as begun:
            while run.step is not None:
                await self._advance(run, begun, left)
        return run.result

    async def stream(self, asked: steps.Steps[None]) -> AsyncGenerator[Any, None]:
        """The values that these steps tell."""
        run = steps.Run(asked)
        async with AsyncExitStack() as begun:
            while run.step is not None:
                if isinstance(run.step, steps.Tell):
                    yield run.step.value
                    run.answer(None)
                else:
                    await self._advance(run, begun)

    async def _advance(
        self, run: steps.Run[Any], begun: AsyncExitStack, left: Callable[[], None] | None = None
    ) -> None:
        assert run.step is not None
        try:
            answer = await self._do(run.step, begun, left)
        except PoolError as error:
            run.fail(error)
        else:
            run.answer(answer)

    async def _do(self, step: steps.Step, begun: AsyncExitStack, left: Callable[[], None] | None) -> object:
        match step:
            case steps.Now():
                return trio.current_time()
            case steps.Sleep(seconds=seconds):
                await trio.sleep(seconds)
                return None
            case steps.Do(function=function):
                return await trio.to_thread.run_sync(function)
            case steps.Connect(patience=patience):
                return await within(patience, self.open)
            case steps.Call(request=asked, timeout=timeout):
                return await self._there().call(asked, timeout=timeout, left=left)
            case steps.All(request=request, patience=patience):
                peer = self._there()
                return await within(patience, lambda: _all_items(peer, request))
            case steps.AllOfCollector(request=request, patience=patience):
                return await within(patience, lambda: self._all_of_collector(request))
            # A stream that was begun before is given back first: only one is followed at a time.
            case steps.Begin(request=request):
                await begun.aclose()
                return await begun.enter_async_context(self._there().stream(request))
            case steps.BeginOfCollector(request=request, patience=patience):
                await begun.aclose()
                return await within(patience, lambda: self._of_collector(request, begun))
            case steps.Next(items=items, patience=patience):
                return await within(patience, lambda: anext(items, steps.END))
            case steps.Tell():
                raise AssertionError("nobody listens")

    async def _of_collector(self, request: StreamRequest[item_T], begun: AsyncExitStack) -> AsyncIterator[item_T]:
        if self._closed:
            raise steps.PoolClosed
        peer = await self._collector()
        # Before the stream, so that it is closed after it.
        begun.push_async_callback(peer.aclose)
        return await begun.enter_async_context(peer.stream(request))

    async def _collector(self) -> endpoints.Peer:
        """A connection to the first collector that answers."""
        *first, last = await trio.to_thread.run_sync(self._session.collector_addresses)
        for where in first:
            try:
                return await self._open_at(where, timeout=ANSWERS_S)
            except PeerError:
                pass  # the next one may know as much
        return await self._open_at(last, timeout=endpoints.HANDSHAKE_S)

    async def _open_at(self, where: Address, *, timeout: float) -> endpoints.Peer:
        security = await trio.to_thread.run_sync(self._session.security_for, where)
        return await endpoints.open_peer(self._nursery, where, security=security, timeout=timeout)

    async def _all_of_collector(self, request: StreamRequest[item_T]) -> list[item_T]:
        peer = await self._collector()
        try:
            return await _all_items(peer, request)
        finally:
            await peer.aclose()


async def _all_items(peer: endpoints.Peer, request: StreamRequest[item_T]) -> list[item_T]:
    async with peer.stream(request) as items:
        return [item async for item in items]
