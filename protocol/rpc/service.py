"""What a process answers: a table from the tag of a message to its handler and to what the caller needs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from protocol.rpc.connection import REQUEST_BYTES_MAX
from protocol.security.needs import Need, Needs
from protocol.wire.message import Message, Request, StreamRequest

if TYPE_CHECKING:
    from protocol.rpc.peer import Peer

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


@dataclass(frozen=True, slots=True)
class Answer:
    """One row of a table of answers; made by `answer`, which checks that message and handler belong together."""

    message: type[Message]
    handler: Callable[..., Any]
    stops_with_caller: bool = False
    bytes_max: int = REQUEST_BYTES_MAX


@overload
def answer(
    message: type[S],
    handler: Callable[[Peer, S, SendItem[Any]], Awaitable[None]],
    *,
    stops_with_caller: bool = ...,
    bytes_max: int = ...,
) -> Answer: ...


@overload
def answer(
    message: type[M],
    handler: Callable[[Peer, M], object],
    *,
    stops_with_caller: bool = ...,
    bytes_max: int = ...,
) -> Answer: ...


def answer(
    message: type[Any],
    handler: Callable[..., Any],
    *,
    stops_with_caller: bool = False,
    bytes_max: int = REQUEST_BYTES_MAX,
) -> Answer:
    """Answer `message` with what `handler(peer, message)` returns, if the caller has what its row in `needs` asks for.

    A plain function is called in place, in order of arrival: right for what is quick. A coroutine function runs as a
    task of its own (those of notices one after another, so that their order holds). It is not cancelled when the caller
    stops waiting or its connection is lost, unless `stops_with_caller`: an effect that has begun ends. A stream's
    handler `(peer, message, send)` stops when nobody receives any more. `bytes_max` is how long the message may be that
    a user sends; the pool's own processes may send what a frame can hold.
    """
    return Answer(message, handler, stops_with_caller, bytes_max)


class Service:
    """What one daemon answers; `name` is what clients and shared ports call it.

    `needs` are the rows of this side in `protocol.security.needs`: what is in none cannot be answered.
    """

    def __init__(self, name: str, needs: Needs) -> None:
        self.name = name
        self._needs = needs
        self._entries: dict[str, Entry] = {}
        self._greeters: list[Callable[[Peer], None]] = []

    def offer(self, *tables: Iterable[Answer]) -> None:
        """Answer what the tables say: each part of a daemon has one, and its main merges them."""
        for answer in itertools.chain(*tables):
            if answer.message.tag in self._entries:
                raise TypeError(f"{answer.message.tag} is answered twice by {self.name or 'this side'}")
            self._enter(answer)

    def _enter(self, answer: Answer) -> None:
        message, handler = answer.message, answer.handler
        if not message.tag:
            raise TypeError(f"{message.__qualname__} has no tag")
        if message.tag not in self._needs:
            raise TypeError(
                f"no row of protocol.security.needs says who may send {message.tag} to {self.name or 'this side'}"
            )
        self._entries[message.tag] = Entry(
            message,
            handler,
            self._needs[message.tag],
            in_place=not _is_async(handler),
            streams=issubclass(message, StreamRequest),
            stops_with_caller=answer.stops_with_caller or issubclass(message, StreamRequest),
            bytes_max=answer.bytes_max,
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
