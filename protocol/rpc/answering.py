"""What the other side of one connection asks for, and the tasks that answer it.

    calls     a plain function answers where the message is read; a coroutine function in a task of its own
    streams   a task that sends items, as many as it has credit for
    notices   handled one after another, in the order in which they came

The tasks belong to a nursery outside the connection: what has begun ends even when its caller is gone, but for streams
and handlers that `stops_with_caller`. Who may ask what is the service's table (`protocol.security.needs`). Of a user
(one with a stint) only so many calls are answered at a time, and only requests as long as its rights allow are read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from pool.base.errors import PoolError
from protocol.network import turns
from protocol.network.refusals import Refusals
from protocol.rpc import events
from protocol.rpc.connection import Connection
from protocol.rpc.outbox import Outbox
from protocol.rpc.remote import RemoteError
from protocol.rpc.service import Entry, Service
from protocol.rpc.stint import Stint
from protocol.security.authorize import Level
from protocol.wire.frame import LONG_BYTES
from protocol.wire.kinds import decode, encode_answer
from protocol.wire.message import Message, Request, StreamRequest

if TYPE_CHECKING:
    from protocol.rpc.peer import Peer

NOTICES_WAITING_MAX: Final = 1024
READER_BYTES_MAX: Final = 256 * 1024
"""The longest request of who may only read."""

log = logging.getLogger("protocol.rpc.answering")


class Answering:
    """One connection's calls, streams and notices under way here."""

    __slots__ = (
        "_connection",
        "_handlers",
        "_notice_taken",
        "_notices",
        "_noticing",
        "_outbox",
        "_peer",
        "_refusals",
        "_running",
        "_service",
        "_stint",
        "_tasks",
    )

    def __init__(
        self,
        peer: Peer,
        connection: Connection,
        outbox: Outbox,
        *,
        service: Service,
        handlers: trio.Nursery,
        refusals: Refusals,
    ) -> None:
        self._peer = peer
        self._connection = connection
        self._outbox = outbox
        self._service = service
        self._handlers = handlers
        self._refusals = refusals
        self._stint: Stint | None = None
        self._running: dict[int, _Running] = {}
        self._tasks = 0
        self._notices: list[tuple[Entry, Message]] = []
        self._noticing = False
        self._notice_taken: trio.Event | None = None
        """There while somebody waits until fewer wait."""

    def begin(self, stint: Stint | None) -> None:
        """From now on requests may come; with a stint, those of a user."""
        self._stint = stint
        self._connection.request_bytes_max = self._bytes_taken if stint is None else self._bytes_taken_of_user

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked now."""
        return not (self._running or self._notices)

    def judge_again(self) -> None:
        """End what its caller may see no longer."""
        peer = self._peer
        for number, running in list(self._running.items()):
            if running.scope is not None and (objection := running.entry.need.objection(peer.who)):
                self._connection.fail(number, "denied", f"PERMISSION DENIED: {peer.identity} {objection} by now")
                running.scope.cancel()

    def end(self) -> None:
        """The caller is gone: end what stops with it."""
        for running in self._running.values():
            if running.scope is not None:
                running.scope.cancel()

    # ---- calls and streams

    def on_call(self, event: events.Called | events.Streamed) -> None:
        """Answer it, or have a task answer it."""
        wanted = StreamRequest if type(event) is events.Streamed else Request
        found = self._admit(event.tag, event.body, wanted)
        if isinstance(found, RemoteError):
            self._connection.fail(event.id, found.code, found.message)
            return
        entry, request = found
        # No task and no turn: what is quick costs less than to arrange for it.
        if entry.in_place:
            self._answer_in_place(event.id, entry, request)
        elif self._tasks >= 2 * self._connection.limits.calls_max:  # it cancels calls that still run, and calls on
            self._connection.fail(event.id, "busy", "too many calls at a time on one connection")
        else:
            self._begin_answer(event.id, entry, request)

    def on_credit(self, event: events.Credited) -> None:
        """A stream may go on."""
        running = self._running.get(event.id)
        if running is not None and running.credited is not None:
            running.credited.set()

    def on_cancel(self, event: events.Cancelled) -> None:
        """Nobody waits for this answer any more."""
        running = self._running.get(event.id)
        if running is not None and running.scope is not None:
            running.scope.cancel()

    def _admit(self, tag: str, body: object, wanted: type[Message]) -> tuple[Entry, Message] | RemoteError:
        """The handler and the decoded message, or why not. A notice may be any message that is no stream's."""
        entry, peer = self._service.find(tag), self._peer
        if entry is None:
            return RemoteError(
                f"{self._service.name or 'this side'} does not answer {tag[:80]}", code="unknown_request"
            )
        if objection := entry.need.objection(peer.who):
            self._refusals.say(peer.identity, f"PERMISSION DENIED to {peer} for {tag}: the sender {objection}")
            return RemoteError(f"PERMISSION DENIED: {peer.identity} {objection} for {tag}", code="denied")
        if not issubclass(entry.message, wanted) or (wanted is Message and entry.streams):
            kind = "a stream" if entry.streams else "a call" if issubclass(entry.message, Request) else "a notice"
            return RemoteError(f"{tag} is {kind}", code="bad_request")
        try:
            return entry, decode(entry.message, body)
        except PoolError as error:
            return RemoteError(str(error), code="bad_request")

    def _answer_in_place(self, number: int, entry: Entry, request: Message) -> None:
        try:
            value = entry.handler(self._peer, request)
            self._connection.reply(number, encode_answer(entry.message, value))
        except Exception as error:
            self._connection.fail(number, *self._failure(error, entry))

    def _begin_answer(self, number: int, entry: Entry, request: Message) -> None:
        """Have a task answer a call, where the other side's share has room for one more."""
        stint = self._stint
        if stint is not None and not stint.begin_call():
            self._connection.fail(number, "busy", f"too many calls of {self._peer.identity} at a time")
            return
        running = self._running[number] = _Running(entry)
        if stint is not None:
            running.held = stint.hand_on()
        self._tasks += 1
        self._handlers.start_soon(self._answer, number, entry, request, running)

    async def _answer(self, number: int, entry: Entry, request: Message, running: _Running) -> None:
        try:
            if running.scope is None:
                await self._handle(number, entry, request, running)
            else:
                with running.scope:
                    await self._handle(number, entry, request, running)
        except Exception as error:
            self._connection.fail(number, *self._failure(error, entry))
        finally:
            self._tasks -= 1
            self._running.pop(number, None)
            if not self._running:
                self._running.clear()  # its table takes memory, and the connection may be quiet for hours
            if self._stint is not None:
                self._stint.end_call(running.held)
        self._connection.forget(number)
        self._outbox.kick()

    async def _handle(self, number: int, entry: Entry, request: Message, running: _Running) -> None:
        if self._stint is not None:
            await self._stint.turn()
        if entry.streams:
            sender = _Sender(self._connection, self._outbox, number, entry.message, running, self._stint)
            await entry.handler(self._peer, request, sender)
            self._connection.end(number)
        else:
            value = await entry.handler(self._peer, request)
            self._connection.reply(number, encode_answer(entry.message, value))

    def _failure(self, error: BaseException, entry: Entry) -> tuple[str, str]:
        """What the caller is told of a handler's exception; one that nobody foresaw is logged whole, and not told."""
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, PoolError):
            log.debug("%s from %s: %s", entry.message.tag, self._peer, error)
            return type(error).__name__, str(error)
        # A fault that somebody can bring about at will must not fill the disk with its traces.
        if self._refusals.may_say(entry.message.tag):
            log.error("internal error in %s from %s", entry.message.tag, self._peer, exc_info=error)
        return "internal", "internal error"

    # ---- notices

    def on_notice(self, event: events.Noticed) -> bool:
        """Handle it now or in its turn; False when so many wait that no more should be read."""
        found = self._admit(event.tag, event.body, Message)
        if isinstance(found, RemoteError):
            self._refusals.say(self._peer.identity, f"a notice from {self._peer} is dropped: {found.message}")
            return True
        entry, message = found
        if entry.in_place and not self._noticing:
            try:
                entry.handler(self._peer, message)
            except Exception as error:
                self._failure(error, entry)
            return True
        self._notices.append((entry, message))
        if not self._noticing:
            self._noticing = True
            self._handlers.start_soon(self._take_notices)
        return len(self._notices) < NOTICES_WAITING_MAX

    async def room_for_notices(self) -> None:
        """Wait until fewer wait."""
        while len(self._notices) >= NOTICES_WAITING_MAX:
            self._notice_taken = trio.Event()
            await self._notice_taken.wait()

    async def _take_notices(self) -> None:
        """Handle notices one after another, in the order in which they came."""
        try:
            while self._notices:
                entry, message = self._notices.pop(0)
                if self._notice_taken is not None:
                    self._notice_taken.set()
                try:
                    done = entry.handler(self._peer, message)
                    if not entry.in_place:
                        await done
                except Exception as error:
                    self._failure(error, entry)
        finally:
            self._noticing = False

    # ---- how long a request may be

    def _bytes_taken(self, tag: str) -> int:
        return self._connection.limits.frame_bytes_max

    def _bytes_taken_of_user(self, tag: str) -> int:
        """How long a request of the user's may be: as long as its kind needs, for who may change anything."""
        entry, peer = self._service.find(tag), self._peer
        if entry is None or entry.need.objection(peer.who):
            return LONG_BYTES
        return entry.bytes_max if peer.allows(Level.WRITE) else READER_BYTES_MAX


class _Running:
    """A handler's task under way."""

    __slots__ = ("credited", "entry", "held", "scope")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.scope = trio.CancelScope() if entry.stops_with_caller else None  # to enter one costs as much as a turn
        self.held = 0  # bytes of the user's share, until the answer
        self.credited: trio.Event | None = None  # while a stream waits for more credit


class _Sender:
    """What a stream's handler sends its items with."""

    __slots__ = ("_connection", "_message", "_number", "_outbox", "_running", "_stint")

    def __init__(
        self,
        connection: Connection,
        outbox: Outbox,
        number: int,
        message: type[Message],
        running: _Running,
        stint: Stint | None,
    ) -> None:
        self._connection, self._outbox = connection, outbox
        self._number, self._message, self._running, self._stint = number, message, running, stint

    async def __call__(self, item: object) -> None:
        connection = self._connection
        while connection.credit_left(self._number) <= 0:
            self._running.credited = trio.Event()
            await self._running.credited.wait()  # or the scope around the handler is cancelled
        await self._outbox.room()
        connection.item(self._number, encode_answer(self._message, item))
        self._outbox.kick()
        if self._stint is None:
            await trio.lowlevel.checkpoint()
        else:
            await turns.of_loop().give_way()
