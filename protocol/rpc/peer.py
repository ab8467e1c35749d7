"""One connection to one other process, over trio; either side may call.

    connection   what the bytes mean (`protocol.rpc.connection`, without a socket)
    outbox       what was said since its last turn is sent, in one go; by a task of its own where that takes one
    asking       what this side asks, and who waits for it
    answering    what the other side asks, and the tasks of handlers, which outlive the connection
    bulk         the bytes of files
    here         one task reads; who the other side is; the connection's beginning and end

A user's connection ends that stops midway through a message, or leaves what it was sent unread; every peer that watches
is pinged, and given up when it is silent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

import trio

from pool.base.errors import PeerError
from protocol.network import turns
from protocol.network.channel import Channel
from protocol.network.refusals import Refusals
from protocol.network.unix_stream import UnixStream
from protocol.rpc import connection as core
from protocol.rpc import events
from protocol.rpc.answering import Answering
from protocol.rpc.asking import Asking
from protocol.rpc.bulk_lane import BulkLane
from protocol.rpc.connection import Connection
from protocol.rpc.items import Items
from protocol.rpc.outbox import Outbox
from protocol.rpc.remote import ConnectionLost
from protocol.rpc.service import Service
from protocol.rpc.silence import Due, Silence
from protocol.rpc.stint import Stint
from protocol.security.authorize import Level
from protocol.security.identity import Known, Link, Who
from protocol.wire.message import Message, Request, StreamRequest, replace

R = TypeVar("R")
item_T = TypeVar("item_T")

CALL_TIMEOUT_S: Final = 20.0
RECEIVE_BYTES: Final = 64 * 1024
BULK_RECEIVE_BYTES: Final = 512 * 1024
"""How much is read at once in the middle of a long message."""
STREAM_CREDIT: Final = 16
UNREAD_S: Final = 300.0
"""How long a user's connection may leave what it was sent unread."""
STALL_S: Final = 60.0
"""How long a user's message may stop midway."""
FAREWELL_S: Final = 2.0

log = logging.getLogger("protocol.rpc.peer")


class Peer(Known):
    """One connection to one other process, authenticated; both sides may call."""

    __slots__ = (
        "_answering",
        "_asking",
        "_close_calls",
        "_closed",
        "_connection",
        "_granted",
        "_handlers",
        "_outbox",
        "_reading_paused",
        "_refusals",
        "_scope",
        "_silence",
        "_stint",
        "_stream",
        "bulk",
        "close_reason",
        "is_closed",
        "link",
        "me",
        "who",
    )

    def __init__(
        self,
        connection: Connection,
        channel: Channel,
        *,
        handlers: trio.Nursery,
        service: Service,
        silence_s: float | None,
        refusals: Refusals | None = None,
    ) -> None:
        self.link: Link = channel.link
        self.who = Who(identity="unauthenticated@unmapped", method="NONE")
        self.me = ""
        self.is_closed = False
        self._closed: trio.Event | None = None
        self.close_reason = ""
        self._silence = Silence(silence_s, trio.current_time())
        self._connection = connection
        self._stream = channel.stream
        self._handlers = handlers
        self._refusals = refusals or Refusals()
        lost = self._lost  # one for all three
        self._outbox = Outbox(connection, channel.stream, lost=lost, begin_writer=self._begin_writer)
        self._asking = Asking(self, connection, self._outbox, lost)
        self._answering = Answering(
            self, connection, self._outbox, service=service, handlers=handlers, refusals=self._refusals
        )
        self.bulk = BulkLane(connection, self._outbox, channel.stream, channel.link, lost)
        """The raw bytes of files, and files handed over."""
        self._granted: frozenset[Level] = frozenset()
        self._scope = trio.CancelScope()
        self._close_calls: list[Callable[[Peer], None]] = []
        self._reading_paused = False
        self._stint: Stint | None = None

    @property
    def closed(self) -> trio.Event:
        """Set once the connection is gone."""
        if self._closed is None:
            self._closed = trio.Event()
            if self.is_closed:
                self._closed.set()
        return self._closed

    # ---- who it is

    def grant(self, level: Level) -> None:
        """Let it do what needs this level: for a side that knows from elsewhere whom it has connected to."""
        self._granted |= {level}
        self.who = replace(self.who, levels=self.who.levels | self._granted)

    def judge_again(self) -> None:
        """Let it do what it may do by now, and hang up when what it has proven holds no longer."""
        if self._connection.is_closed:
            return
        try:
            who = self._connection.judge()
        except PeerError as error:
            log.warning("%s is disconnected: %s", self, error)
            self._handlers.start_soon(self.aclose, str(error))
            return
        self.who = replace(who, levels=who.levels | self._granted) if self._granted else who
        self._answering.judge_again()
        self._outbox.kick()

    def __repr__(self) -> str:
        return f"<{self.identity} at {self.link.label}>"

    @property
    def silence_s(self) -> float | None:
        """How long it may be silent while something is under way; None when its silence means nothing."""
        return self._silence.most_s

    @property
    def heard_at(self) -> float:
        """When something came from it last."""
        return self._silence.heard_at

    # ---- asking

    async def call(
        self, request: Request[R], *, timeout: float | None = CALL_TIMEOUT_S, left: Callable[[], None] | None = None
    ) -> R:
        """The answer. RemoteError when the other side says no, TimedOut, ConnectionLost.

        `left` is called once the request has its place among those that leave.
        """
        return await self._asking.call(request, timeout, left)

    def stream(
        self, request: StreamRequest[item_T], *, credit: int = STREAM_CREDIT
    ) -> AbstractAsyncContextManager[Items[item_T]]:
        """The items of an answer, as they come; leaving the block ends the stream. At most `credit` are under way."""
        return self._asking.stream(request, credit)

    async def notify(self, message: Message) -> None:
        """Say something that needs no answer; waits only while too much is unsent."""
        await self._asking.notify(message)

    def on_close(self, callback: Callable[[Peer], None]) -> None:
        """Call `callback(peer)` once the connection is gone; at once when it already is."""
        if self.is_closed:
            callback(self)
        else:
            self._close_calls.append(callback)

    async def aclose(self, reason: str = "") -> None:
        """Say goodbye, send what waits (for a moment at most), and close."""
        if not self.is_closed:
            self.close_reason = self.close_reason or reason or "closed here"
            self._connection.bye(reason)
            self._outbox.kick()
            with trio.move_on_after(FAREWELL_S, shield=True):
                while not self._outbox.is_empty and not self.is_closed:
                    await self._outbox.drained()
            self.abort(self.close_reason)
        with trio.CancelScope(shield=True):
            await self.closed.wait()

    def abort(self, reason: str) -> None:
        """Close without a word."""
        self.close_reason = self.close_reason or reason
        self._connection.state = core.ConnectionState.CLOSED
        self._scope.cancel()

    # ---- the connection's life

    async def shake_hands(self) -> list[events.Event]:
        """Authenticate; returns what came directly behind. PeerError when the other side is not what it should be."""
        connection, stream = self._connection, self._stream
        while True:
            if connection.pending_bytes:
                await stream.send_all(connection.take())
            data = await stream.receive_some(RECEIVE_BYTES)
            if not data:
                raise PeerError(f"the other side hung up in state {connection.state.value}")
            try:
                came = connection.receive(data)
            except PeerError:
                if connection.pending_bytes:  # say why
                    await stream.send_all(connection.take())
                raise
            if came and isinstance(came[0], events.Opened):
                self.who, self.me = came[0].who, came[0].me
                if not connection.peer_watches:
                    self._silence.most_s = None
                self._silence.heard_at = self._outbox.said_at = trio.current_time()
                return came[1:]

    async def run(self, early: Sequence[events.Event] = (), stint: Stint | None = None) -> None:
        """Read, write and dispatch until the connection ends; never raises but when cancelled from outside.

        With a stint the other side is a user, whose share bounds what it costs.
        """
        reason = ""
        self._stint = stint
        self._answering.begin(stint)
        if stint is not None:
            turns.user.set(stint.user)
        try:
            with self._scope:
                self._outbox.open()
                reason = await self._read(early)
                self._outbox.kick()
                if self._connection.pending_bytes:  # the last words, such as why this ends
                    with trio.move_on_after(FAREWELL_S):
                        await self._outbox.drained()
        finally:
            self._end(reason or "cancelled")
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    async def _read(self, early: Sequence[events.Event]) -> str:
        """Until the end of the connection; returns why it ended."""
        try:
            for event in early:
                if (quick := _QUICK.get(type(event))) is not None:
                    quick(self, event)
                else:
                    await self._handle_slowly(event)
            while True:
                if self._connection.pending_bytes:
                    self._outbox.kick()
                if self._stint is not None:
                    await self._await_room(self._stint)
                data = await self._receive()
                self._silence.heard_at = trio.current_time()
                if data is None:
                    return (
                        "the connection was cut in the middle of a message" if self._connection.mid_frame else "closed"
                    )
                taken = self._connection.frames_taken
                if self._stint is not None:
                    await self._stint.turn()
                for event in self._connection.receive(data):
                    if type(event) is events.Closing:
                        return event.reason or "closed"
                    if self._stint is not None:
                        await self._stint.turn()
                    quick = _QUICK.get(type(event))
                    if quick is not None:
                        quick(self, event)
                    else:
                        await self._handle_slowly(event)
                if self._stint is not None and self._connection.frames_taken != taken:
                    self._stint.let_go()  # of what no handler has taken over
                # The last message, which would stay here until the next one comes.
                data, event = b"", _NO_EVENT
        except PeerError as error:
            self._refusals.say(self.identity, f"{self} broke the protocol and is disconnected: {error}")
            return str(error)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return f"connection lost: {error.__cause__ or error or 'closed'}"

    async def _receive(self) -> bytes | bytearray | None:
        """What has come: nothing where it has its place in a long message already, None at the end."""
        if isinstance(self._stream, UnixStream) and (room := self._connection.room()) is not None:
            count = await self._stream.receive_into(room[:BULK_RECEIVE_BYTES])
            self._connection.filled(count)
            return b"" if count else None
        return await self._stream.receive_some(self._wanted_bytes()) or None

    def _wanted_bytes(self) -> int:
        # Of a long message hardly more than its rest: it is kept as it comes, and what is behind it has to be moved.
        if missing := self._connection.missing_bytes:
            return min(max(missing, RECEIVE_BYTES), BULK_RECEIVE_BYTES)
        return BULK_RECEIVE_BYTES if self._connection.mid_frame else RECEIVE_BYTES

    async def _await_room(self, stint: Stint) -> None:
        """Before more is read of a user: until what it was sent has been read, and its long message has room."""
        while self._outbox.is_high and not self._connection.is_closed:
            await self._outbox.drained()
        long_bytes = self._connection.long_bytes
        if long_bytes and not stint.holds:
            self._reading_paused = True
            await stint.hold(long_bytes)
            self._reading_paused = False
            self._silence.heard_at = trio.current_time()

    def _begin_writer(self) -> None:
        self._handlers.start_soon(self._write)

    async def _write(self) -> None:
        try:
            await self._outbox.write()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.abort(f"connection lost: {error.__cause__ or error or 'closed'}")

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self} is lost: {self.close_reason or 'closed'}")

    def _end(self, reason: str) -> None:
        """Everybody who waits for the peer learns that it is gone."""
        self.close_reason = self.close_reason or reason
        self._connection.state = core.ConnectionState.CLOSED
        self._asking.end()
        self._answering.end()
        if self._stint is not None:
            self._stint.let_go()
        self.bulk.close()
        self._outbox.close()
        self.is_closed = True
        if self._closed is not None:
            self._closed.set()
        callbacks, self._close_calls = self._close_calls, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                log.exception("a callback at the end of the connection to %s", self)

    def may_rest(self, rest_s: float) -> None:
        """From now on this side may hear nothing for so long while nothing is under way.

        So the kernel, or whoever calls `doubt`, has to see that the other side's host is gone.
        """
        self._silence.may_rest(rest_s)

    def doubt(self) -> None:
        """The other side may be gone: ask it for a sign of life now, and give it up when none comes."""
        now = trio.current_time()
        if self._silence.doubt(now) and not self._connection.is_closed:
            self._ping(now)

    def look(self, now: float) -> None:
        """Called now and then: ping a quiet peer, give up one that is silent for too long."""
        silence = self._silence
        if now < silence.look_at or self._connection.is_closed:
            return
        self._outbox.rest(now)
        if self._reading_paused:
            silence.heard_at = now  # it may have spoken; nobody listened
        is_resting = self._connection.is_resting and not self._reading_paused
        due = silence.due(now, said_at=self._outbox.said_at, is_resting=is_resting)
        if due is Due.PING:
            self._ping(now)
        elif due is Due.END:
            log.warning("%s is silent for %.0f s and is disconnected", self, now - silence.heard_at)
            self.abort(f"silent for {now - silence.heard_at:.0f} s")

    def check_user(self, now: float, idle_s: float) -> None:
        """Called now and then for those who connected: a user's connection ends that stalls, or is not used."""
        if self._stint is None or self._connection.is_closed:
            return
        unread_s = 0.0 if self._outbox.sending_since is None else now - self._outbox.sending_since
        if self._connection.mid_frame and not self._reading_paused and now - self._silence.heard_at >= STALL_S:
            self.abort("a message stopped midway")
        elif unread_s >= UNREAD_S:
            self.abort(f"what was sent has not been read for {unread_s:.0f} s")
        elif idle_s and self.silence_s is None and self.is_idle() and now - self._silence.heard_at >= idle_s:
            self._handlers.start_soon(self.aclose, f"not used for {now - self._silence.heard_at:.0f} s")

    def is_idle(self) -> bool:
        """Whether nothing is asked on this connection now."""
        connection = self._connection
        return self._answering.is_idle and not (connection.pending_bytes or connection.mid_frame)

    async def refuse(self, reason: str) -> None:
        """Close a connection that has authenticated and is not to be run."""
        self._connection.bye(reason)
        try:
            with trio.move_on_after(FAREWELL_S):
                await self._stream.send_all(self._connection.take())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._end(reason)
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    def _ping(self, now: float) -> None:
        # One that only listens is told as much by what waits to be sent anyway.
        if self.silence_s is not None or not self._connection.pending_bytes:
            self._connection.ping()
            self._outbox.kick()
        self._outbox.said_at = now

    # ---- what comes in

    async def _handle_slowly(self, event: events.Event) -> None:
        """What may have to wait."""
        if isinstance(event, events.Noticed):
            if not self._answering.on_notice(event):
                await self._pause(self._answering.room_for_notices())
        elif isinstance(event, events.Bulk | events.BulkHanded | events.BulkEnded | events.BulkFailed):
            await self._pause(self.bulk.put(event))

    async def _pause(self, wait: Awaitable[None]) -> None:
        """Read nothing meanwhile: the other side's silence is then none."""
        self._reading_paused = True
        try:
            await wait
        finally:
            self._reading_paused = False


_NO_EVENT: Final = events.Ended(0)
_QUICK: Final[dict[type, Callable[[Peer, Any], None]]] = {
    events.Replied: lambda peer, event: peer._asking.on_answer(event),
    events.Failed: lambda peer, event: peer._asking.on_answer(event),
    events.Called: lambda peer, event: peer._answering.on_call(event),
    events.Streamed: lambda peer, event: peer._answering.on_call(event),
    events.Item: lambda peer, event: peer._asking.on_item(event),
    events.Ended: lambda peer, event: peer._asking.on_end(event),
    events.Credited: lambda peer, event: peer._answering.on_credit(event),
    events.Cancelled: lambda peer, event: peer._answering.on_cancel(event),
}
"""What is done at once with what has come."""
