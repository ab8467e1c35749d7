"""What a process answers: a table from the tag of a message to its handler and to what the caller needs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from protocol.connection import REQUEST_BYTES_MAX
from protocol.message import Message, Request, StreamRequest
from protocol.needs import Need, Needs

if TYPE_CHECKING:
    from protocol.peer import Peer

Q = TypeVar("Q", bound=Request[Any])
S = TypeVar("S", bound=StreamRequest[Any])
M = TypeVar("M", bound=Message)
I_contra = TypeVar("I_contra", contravariant=True)


class SendItem(Protocol[I_contra]):
    """Sends one item of a stream; waits while the receiver has not asked for more."""

    async def __call__(self, item: I_contra) -> None: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table. `in_place`: a plain function, which is called where the message is read."""

    message: type[Message]
    handler: Callable[..., Any]
    need: Need
    in_place: bool
    streams: bool
    stops_with_caller: bool
    bytes_max: int


class Service:
    """What one daemon answers; `name` is what clients and shared ports call it.

    `needs` are the rows of this side in `protocol.needs`: what is in none cannot be answered.
    """

    def __init__(self, name: str, needs: Needs) -> None:
        self.name = name
        self._needs = needs
        self._entries: dict[str, Entry] = {}
        self._greeters: list[Callable[[Peer], None]] = []

    @overload
    def on(
        self,
        message: type[S],
        handler: Callable[[Peer, S, SendItem[Any]], Awaitable[None]],
        *,
        stops_with_caller: bool = ...,
        bytes_max: int = ...,
    ) -> None: ...

    @overload
    def on(
        self,
        message: type[M],
        handler: Callable[[Peer, M], object],
        *,
        stops_with_caller: bool = ...,
        bytes_max: int = ...,
    ) -> None: ...

    def on(
        self,
        message: type[Any],
        handler: Callable[..., Any],
        *,
        stops_with_caller: bool = False,
        bytes_max: int = REQUEST_BYTES_MAX,
    ) -> None:
        """Answer `message` with what `handler(peer, message)` returns, when the caller has what its row asks for.

        A plain function is called in place, in order of arrival: right for what is quick. A coroutine function runs as
        a task of its own (those of notices one after another, so that their order holds). It is not cancelled when the
        caller stops waiting or its connection is lost, unless `stops_with_caller`: an effect that has begun ends. A
        stream's handler `(peer, message, send)` stops when nobody receives any more. `bytes_max` is how long the
        message may be that a user sends; the pool's own processes may send what a frame can hold.
        """
        if not message.tag:
            raise TypeError(f"{message.__qualname__} has no tag")
        if message.tag not in self._needs:
            raise TypeError(f"no row of protocol.needs says who may send {message.tag} to {self.name or 'this side'}")
        self._entries[message.tag] = Entry(
            message,
            handler,
            self._needs[message.tag],
            in_place=not _is_async(handler),
            streams=issubclass(message, StreamRequest),
            stops_with_caller=stops_with_caller or issubclass(message, StreamRequest),
            bytes_max=bytes_max,
        )

    def on_peer(self, greeter: Callable[[Peer], None]) -> None:
        """Call `greeter(peer)` with each peer that has authenticated."""
        self._greeters.append(greeter)

    def find(self, tag: str) -> Entry | None:
        """The row for a tag."""
        return self._entries.get(tag)

    def greet(self, peer: Peer) -> None:
        """Tell everybody who asked that a peer is there."""
        for greeter in self._greeters:
            greeter(peer)

    def copy(self, name: str) -> Service:
        """The same answers under another name, to which more can be added."""
        twin = Service(name, self._needs)
        twin._entries.update(self._entries)
        twin._greeters.extend(self._greeters)
        return twin


def _is_async(handler: Callable[..., Any]) -> bool:
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
