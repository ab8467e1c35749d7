"""One connection to one other process, over trio; either side may call.

One task reads and one writes (all that was said since its last turn, in one go); the tasks of handlers belong to a
nursery outside, so that what has begun ends even when its connection is lost.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import outcome
import trio

from pool.errors import PeerError, PoolError
from protocol import connection as core
from protocol import events, turns
from protocol.authorize import Level
from protocol.connection import Connection
from protocol.frame import LONG_BYTES
from protocol.identity import Link, Who
from protocol.message import (
    Message,
    Request,
    StreamRequest,
    decode,
    decode_answer,
    encode,
    encode_answer,
    replace,
)
from protocol.net import Channel
from protocol.refusals import Refusals
from protocol.remote import ConnectionLost, RemoteError, TimedOut
from protocol.service import Entry, Service
from protocol.stint import Stint
from protocol.unix_stream import OpenFile, UnixStream

R = TypeVar("R")
item_T = TypeVar("item_T")

SILENCE_S: Final = 30.0
CALL_TIMEOUT_S: Final = 20.0
RECEIVE_BYTES: Final = 64 * 1024
BULK_RECEIVE_BYTES: Final = 512 * 1024
"""How much is read at once in the middle of a long message."""
UNSENT_BYTES_HIGH: Final = 1024 * 1024
NOTICES_WAITING_MAX: Final = 1024
BULK_FRAMES_WAITING_MAX: Final = 4
STREAM_CREDIT: Final = 16
READER_BYTES_MAX: Final = 256 * 1024
"""The longest request of who may only read."""
SENT_AT_ONCE_BYTES: Final = 1024 * 1024
UNREAD_S: Final = 300.0
"""How long a user's connection may leave what it was sent unread."""
STALL_S: Final = 60.0
"""How long a user's message may stop midway."""
FAREWELL_S: Final = 2.0

log = logging.getLogger("protocol.peer")


class Peer:
    """One connection to one other process, authenticated; both sides may call."""

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
        self.closed = trio.Event()
        self.close_reason = ""
        self.silence_s = silence_s
        self.heard_at = self.said_at = trio.current_time()
        self._connection = connection
        self._stream = channel.stream
        self._send_now = channel.stream.send_now if isinstance(channel.stream, UnixStream) else None
        self._service = service
        self._handlers = handlers
        self._granted: frozenset[Level] = frozenset()
        self._scope = trio.CancelScope()
        self._idle_writer: trio.lowlevel.Task | None = None
        self._drained = trio.Event()
        self._writing = False
        self._waiting: dict[int, trio.lowlevel.Task] = {}
        self._items: dict[int, Items[Any]] = {}
        self._running: dict[int, _Running] = {}
        self._tasks = 0
        self._notices: deque[tuple[Entry, Message]] = deque()
        self._noticing = False
        self._close_calls: list[Callable[[Peer], None]] = []
        self._bulk_in: trio.MemorySendChannel[events.Event] | None = None
        self._bulk_out: trio.MemoryReceiveChannel[events.Event] | None = None
        self._reading_paused = False
        self._refusals = refusals or Refusals()
        self._stint: Stint | None = None
        self._sending_since: float | None = None

    # ---- who it is

    @property
    def identity(self) -> str:
        """The mapped name, `user@domain`."""
        return self.who.identity

    @property
    def method(self) -> str:
        """How it proved who it is."""
        return self.who.method

    @property
    def uid(self) -> int | None:
        """Its account, when it came over a unix socket of this host."""
        return self.who.uid

    @property
    def ticket(self) -> str:
        """The label of the ticket that it came with; "" once that is revoked."""
        return self.who.ticket

    @property
    def duties(self) -> frozenset[str]:
        """The duties of its host by its certificate (or the duty of a joining token)."""
        return self.who.duties

    @property
    def host_name(self) -> str:
        """The host by the certificate that it has shown; "" for one that showed none."""
        return self.who.host_name

    @property
    def levels(self) -> frozenset[Level]:
        """What it may do here."""
        return self.who.levels

    @property
    def address(self) -> str:
        """Where it is, for logs."""
        return self.link.label

    def allows(self, level: Level) -> bool:
        """Whether it may do what needs this level."""
        return level in self.who.levels

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
        self.who = replace(who, levels=who.levels | self._granted)
        for number, running in list(self._running.items()):
            objection = running.entry.stops_with_caller and running.entry.need.objection(self.who)
            if objection:
                self._connection.fail(number, "denied", f"PERMISSION DENIED: {self.identity} {objection} by now")
                running.scope.cancel()
        self._kick()

    def __repr__(self) -> str:
        return f"<{self.identity} at {self.link.label}>"

    # ---- asking

    async def call(self, request: Request[R], *, timeout: float | None = CALL_TIMEOUT_S) -> R:
        """The answer. RemoteError when the other side says no, TimedOut, ConnectionLost."""
        await self._room()
        number = self._connection.call(request.tag, encode(request))
        self._kick()
        self._waiting[number] = trio.lowlevel.current_task()

        def give_up(_: object) -> trio.lowlevel.Abort:
            self._waiting.pop(number, None)
            self._connection.cancel(number)
            self._kick()
            return trio.lowlevel.Abort.SUCCEEDED

        if timeout is None:
            event = await trio.lowlevel.wait_task_rescheduled(give_up)
        else:
            event = None
            with trio.move_on_after(timeout):
                event = await trio.lowlevel.wait_task_rescheduled(give_up)
            if event is None:
                raise TimedOut(f"no answer to {request.tag} from {self} within {timeout:g} s")
        if type(event) is events.Failed:
            raise RemoteError(event.message, code=event.code)
        answer: R = decode_answer(type(request), event.body)
        return answer

    @asynccontextmanager
    async def stream(
        self, request: StreamRequest[item_T], *, credit: int = STREAM_CREDIT
    ) -> AsyncGenerator[Items[item_T], None]:
        """The items of an answer, as they come; leaving the block ends the stream. At most `credit` are under way."""
        await self._room()
        number = self._connection.stream(request.tag, encode(request), credit)
        items: Items[item_T] = Items(self, number, request, credit)
        self._items[number] = items
        self._kick()
        try:
            yield items
        finally:
            self._items.pop(number, None)
            self._connection.cancel(number)
            self._kick()

    async def notify(self, message: Message) -> None:
        """Say something that needs no answer; waits only while too much is unsent."""
        await self._room()
        self._connection.notify(message.tag, encode(message))
        self._kick()

    def on_close(self, callback: Callable[[Peer], None]) -> None:
        """Call `callback(peer)` once the connection is gone; at once when it already is."""
        if self.closed.is_set():
            callback(self)
        else:
            self._close_calls.append(callback)

    async def aclose(self, reason: str = "") -> None:
        """Say goodbye, send what waits (for a moment at most), and close."""
        if not self.closed.is_set():
            self.close_reason = self.close_reason or reason or "closed here"
            self._connection.bye(reason)
            self._kick()
            with trio.move_on_after(FAREWELL_S, shield=True):
                while (self._connection.pending_bytes or self._writing) and not self.closed.is_set():
                    await self._drained.wait()
            self.abort(self.close_reason)
        with trio.CancelScope(shield=True):
            await self.closed.wait()

    def abort(self, reason: str) -> None:
        """Close without a word."""
        self.close_reason = self.close_reason or reason
        self._connection.state = core.State.CLOSED
        self._scope.cancel()

    # ---- bulk bytes (see protocol.bulk)

    async def send_bulk(self, data: bytes | memoryview) -> None:
        """Raw bytes, as one frame."""
        await self._room()
        self._connection.bulk(data)
        self._kick()

    async def end_bulk(self, size: int, crc: int) -> None:
        """The file is complete."""
        await self._room()
        self._connection.bulk_end(size, crc)
        self._kick()

    async def fail_bulk(self, message: str) -> None:
        """The file cannot be sent to its end."""
        await self._room()
        self._connection.bulk_fail(message)
        self._kick()

    def take_files(self) -> bool:
        """From now on take files that are handed over open; False when this connection cannot carry any."""
        if isinstance(self._stream, UnixStream):
            self._stream.take_files()
            return True
        return False

    def reaches(self, pid: int) -> bool:
        """Whether this process is at the other end itself, by the kernel's word: it can be handed open files."""
        credentials = self.link.credentials
        return bool(pid) and isinstance(self._stream, UnixStream) and credentials is not None and credentials.pid == pid

    async def hand_over(self, descriptor: int, size: int) -> None:
        """Give the peer this open file, instead of its `size` bytes; it is closed here."""
        file = OpenFile(descriptor)
        await self._room()
        assert isinstance(self._stream, UnixStream)
        while self._stream.is_loaded and not self._connection.is_closed:
            await self._drained.wait()
        if self._connection.is_closed:
            raise self._lost()
        self._connection.bulk_handed(size)
        self._stream.attach(file)
        self._kick()

    async def next_bulk(self) -> events.Bulk | events.BulkHanded | events.BulkEnded | events.BulkFailed:
        """The next piece of a file; ConnectionLost when none can come."""
        try:
            event = await self._bulk_receiver().receive()
        except trio.EndOfChannel:
            raise self._lost() from None
        assert isinstance(event, events.Bulk | events.BulkHanded | events.BulkEnded | events.BulkFailed)
        return event

    def _bulk_receiver(self) -> trio.MemoryReceiveChannel[events.Event]:
        if self._bulk_out is None:
            self._bulk_in, self._bulk_out = trio.open_memory_channel[events.Event](BULK_FRAMES_WAITING_MAX)
            if self.closed.is_set():
                self._bulk_in.close()
        return self._bulk_out

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
                    self.silence_s = None
                self.heard_at = self.said_at = trio.current_time()
                return came[1:]

    async def run(self, early: Sequence[events.Event] = (), stint: Stint | None = None) -> None:
        """Read, write and dispatch until the connection ends; never raises but when cancelled from outside.

        With a stint the other side is a user, whose share bounds what it costs.
        """
        reason = ""
        self._stint = stint
        self._connection.request_bytes_max = self._bytes_taken if stint is None else self._bytes_taken_of_user
        if stint is not None:
            turns.user.set(stint.user)
        try:
            with self._scope:
                async with trio.open_nursery() as own:
                    own.start_soon(self._write)
                    reason = await self._read(early)
                    self._kick()
                    if self._connection.pending_bytes:  # the last words, such as why this ends
                        with trio.move_on_after(FAREWELL_S):
                            await self._drained.wait()
                    own.cancel_scope.cancel()
        finally:
            self._end(reason or "cancelled")
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    async def _read(self, early: Sequence[events.Event]) -> str:
        """Until the end of the connection; returns why it ended."""
        try:
            for event in early:
                await self._handle(event)
            while True:
                if self._connection.pending_bytes:
                    self._kick()
                if self._stint is not None:
                    await self._await_room(self._stint)
                wanted = BULK_RECEIVE_BYTES if self._connection.mid_frame else RECEIVE_BYTES
                data = await self._stream.receive_some(wanted)
                self.heard_at = trio.current_time()
                if not data:
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
                    await self._handle(event)
                if self._stint is not None and self._connection.frames_taken != taken:
                    self._stint.let_go()  # of what no handler has taken over
        except PeerError as error:
            self._refusals.say(self.identity, f"{self} broke the protocol and is disconnected: {error}")
            return str(error)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return f"connection lost: {error.__cause__ or error or 'closed'}"

    async def _await_room(self, stint: Stint) -> None:
        """Before more is read of a user: until what it was sent has been read, and its long message has room."""
        while self._connection.pending_bytes > UNSENT_BYTES_HIGH and not self._connection.is_closed:
            await self._drained.wait()
        long_bytes = self._connection.long_bytes
        if long_bytes and not stint.holds:
            self._reading_paused = True
            await stint.hold(long_bytes)
            self._reading_paused = False
            self.heard_at = trio.current_time()

    async def _write(self) -> None:
        """Send what waits, all in one go, whenever something waits."""
        connection = self._connection
        try:
            while True:
                while connection.pending_bytes:
                    self._writing = True
                    await self._send_all(connection.take())
                    self._writing = False
                    self.said_at = trio.current_time()
                    drained, self._drained = self._drained, trio.Event()
                    drained.set()
                await self._wait_for_words()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.abort(f"connection lost: {error.__cause__ or error or 'closed'}")

    async def _send_all(self, data: bytearray) -> None:
        """In pieces, so that it shows whether the other side reads."""
        with memoryview(data) as view:
            for at in range(0, len(view), SENT_AT_ONCE_BYTES):
                self._sending_since = trio.current_time()
                await self._stream.send_all(view[at : at + SENT_AT_ONCE_BYTES])
        self._sending_since = None

    async def _wait_for_words(self) -> None:
        self._idle_writer = trio.lowlevel.current_task()

        def stop(_: object) -> trio.lowlevel.Abort:
            self._idle_writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(stop)

    def _kick(self) -> None:
        """Send what the kernel takes at once, which is nearly always all; have the writer send the rest."""
        task = self._idle_writer
        if task is None or not self._connection.pending_bytes:
            return
        if self._send_now is not None:
            self._connection.send_with(self._send_now)
            self.said_at = trio.current_time()
            if not self._connection.pending_bytes:
                return
        self._idle_writer = None
        trio.lowlevel.reschedule(task)

    async def _room(self) -> None:
        """Wait while too much is unsent; ConnectionLost when it never will be sent."""
        while not self._connection.is_closed and self._connection.pending_bytes > UNSENT_BYTES_HIGH:
            await self._drained.wait()
        if self._connection.is_closed:
            raise self._lost()

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self} is lost: {self.close_reason or 'closed'}")

    def _end(self, reason: str) -> None:
        """Everybody who waits for the peer learns that it is gone."""
        self.close_reason = self.close_reason or reason
        self._connection.state = core.State.CLOSED
        waiting, self._waiting = self._waiting, {}
        for task in waiting.values():
            trio.lowlevel.reschedule(task, outcome.Error(self._lost()))
        for items in self._items.values():
            items.put_end(self._lost())
        for running in self._running.values():
            if running.entry.stops_with_caller:
                running.scope.cancel()
        if self._stint is not None:
            self._stint.let_go()
        if self._bulk_in is not None:
            self._bulk_in.close()
        self._drained.set()
        self.closed.set()
        callbacks, self._close_calls = self._close_calls, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                log.exception("a callback at the end of the connection to %s", self)

    def check_silence(self, now: float) -> None:
        """Called now and then: ping a quiet peer, give up one that is silent for too long."""
        if self._connection.is_closed:
            return
        if self.silence_s is None:
            if now - self.said_at >= SILENCE_S / 3:
                self._ping(now)
            return
        if self._reading_paused:
            self.heard_at = now  # it may have spoken; nobody listened
        if now - self.heard_at >= self.silence_s:
            log.warning("%s is silent for %.0f s and is disconnected", self, now - self.heard_at)
            self.abort(f"silent for {now - self.heard_at:.0f} s")
        elif now - self.said_at >= self.silence_s / 3:
            self._ping(now)

    def check_user(self, now: float, idle_s: float) -> None:
        """Called now and then for those who connected: a user's connection ends that stalls, or is not used."""
        if self._stint is None or self._connection.is_closed:
            return
        if self._connection.mid_frame and not self._reading_paused and now - self.heard_at >= STALL_S:
            self.abort("a message stopped midway")
        elif self._sending_since is not None and now - self._sending_since >= UNREAD_S:
            self.abort(f"what was sent has not been read for {now - self._sending_since:.0f} s")
        elif idle_s and self.silence_s is None and self.is_idle() and now - self.heard_at >= idle_s:
            self._handlers.start_soon(self.aclose, f"not used for {now - self.heard_at:.0f} s")

    def is_idle(self) -> bool:
        """Whether nothing is asked on this connection now."""
        connection = self._connection
        return not (self._running or self._notices or connection.pending_bytes or connection.mid_frame)

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
        if not self._connection.pending_bytes:
            self._connection.ping()
            self._kick()
        self.said_at = now

    # ---- what comes in

    async def _handle(self, event: events.Event) -> None:
        kind = type(event)
        if kind is events.Replied or kind is events.Failed:
            self._on_answer(event)
        elif kind is events.Called or kind is events.Streamed:
            self._on_call(event)  # type: ignore[arg-type]  # narrowed by `kind`
        elif kind is events.Item:
            items = self._items.get(event.id)  # type: ignore[union-attr]
            if items is not None:
                items.put(event.body)  # type: ignore[union-attr]
        elif kind is events.Noticed:
            await self._on_notice(event)  # type: ignore[arg-type]
        elif kind is events.Ended:
            items = self._items.get(event.id)  # type: ignore[union-attr]
            if items is not None:
                items.put_end(None)
        elif kind is events.Credited or kind is events.Cancelled:
            self._on_stream_control(event)  # type: ignore[arg-type]
        elif kind in (events.Bulk, events.BulkEnded, events.BulkFailed):
            await self._on_bulk(event)
        elif kind is events.BulkHanded:
            await self._on_bulk(events.BulkHanded(event.size, self._next_file()))  # type: ignore[union-attr]

    def _on_answer(self, event: Any) -> None:
        task = self._waiting.pop(event.id, None)
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Value(event))
            return
        items = self._items.get(event.id)
        if items is not None:
            items.put_end(RemoteError(event.message, code=event.code))

    def _on_call(self, event: events.Called | events.Streamed) -> None:
        wanted = StreamRequest if type(event) is events.Streamed else Request
        found = self._admit(event.tag, event.body, wanted)
        if isinstance(found, RemoteError):
            self._connection.fail(event.id, found.code, found.message)
            return
        entry, request = found
        if entry.in_place:
            self._answer_in_place(event.id, entry, request)
        elif self._tasks >= 2 * self._connection.limits.calls_max:  # it cancels calls that still run, and calls on
            self._connection.fail(event.id, "busy", "too many calls at a time on one connection")
        else:
            self._begin_answer(event.id, entry, request)

    def _begin_answer(self, number: int, entry: Entry, request: Message) -> None:
        """Have a task answer a call, where the other side's share has room for one more."""
        stint = self._stint
        if stint is not None and not stint.begin_call():
            self._connection.fail(number, "busy", f"too many calls of {self.identity} at a time")
            return
        running = self._running[number] = _Running(trio.CancelScope(), entry)
        if stint is not None:
            running.held = stint.hand_on()
        self._tasks += 1
        self._handlers.start_soon(self._answer, number, entry, request, running)

    def _admit(self, tag: str, body: object, wanted: type[Message]) -> tuple[Entry, Message] | RemoteError:
        """The handler and the decoded message, or why not. A notice may be any message that is no stream's."""
        entry = self._service.find(tag)
        if entry is None:
            return RemoteError(
                f"{self._service.name or 'this side'} does not answer {tag[:80]}", code="unknown_request"
            )
        if objection := entry.need.objection(self.who):
            self._refusals.say(self.identity, f"PERMISSION DENIED to {self} for {tag}: the sender {objection}")
            return RemoteError(f"PERMISSION DENIED: {self.identity} {objection} for {tag}", code="denied")
        if not issubclass(entry.message, wanted) or (wanted is Message and entry.streams):
            kind = "a stream" if entry.streams else "a call" if issubclass(entry.message, Request) else "a notice"
            return RemoteError(f"{tag} is {kind}", code="bad_request")
        try:
            return entry, decode(entry.message, body)
        except PoolError as error:
            return RemoteError(str(error), code="bad_request")

    def _answer_in_place(self, number: int, entry: Entry, request: Message) -> None:
        try:
            value = entry.handler(self, request)
            self._connection.reply(number, encode_answer(entry.message, value))
        except Exception as error:
            self._connection.fail(number, *_failure(error, entry, self))

    async def _answer(self, number: int, entry: Entry, request: Message, running: _Running) -> None:
        try:
            with running.scope:
                if self._stint is not None:
                    await self._stint.turn()
                if entry.streams:
                    await entry.handler(self, request, _Sender(self, number, entry.message, running))
                    self._connection.end(number)
                else:
                    value = await entry.handler(self, request)
                    self._connection.reply(number, encode_answer(entry.message, value))
        except Exception as error:
            self._connection.fail(number, *_failure(error, entry, self))
        finally:
            self._tasks -= 1
            self._running.pop(number, None)
            if self._stint is not None:
                self._stint.end_call(running.held)
        self._connection.forget(number)
        self._kick()

    async def _on_notice(self, event: events.Noticed) -> None:
        found = self._admit(event.tag, event.body, Message)
        if isinstance(found, RemoteError):
            self._refusals.say(self.identity, f"a notice from {self} is dropped: {found.message}")
            return
        entry, message = found
        if entry.in_place and not self._noticing:
            try:
                entry.handler(self, message)
            except Exception as error:
                _failure(error, entry, self)
            return
        self._notices.append((entry, message))
        if not self._noticing:
            self._noticing = True
            self._handlers.start_soon(self._take_notices)
        while len(self._notices) >= NOTICES_WAITING_MAX:
            self._reading_paused = True
            await trio.sleep(0.01)
        self._reading_paused = False

    async def _take_notices(self) -> None:
        """Handle notices one after another, in the order in which they came."""
        try:
            while self._notices:
                entry, message = self._notices.popleft()
                try:
                    done = entry.handler(self, message)
                    if not entry.in_place:
                        await done
                except Exception as error:
                    _failure(error, entry, self)
        finally:
            self._noticing = False

    def _on_stream_control(self, event: events.Credited | events.Cancelled) -> None:
        running = self._running.get(event.id)
        if running is None:
            return
        if type(event) is events.Credited:
            running.credited.set()
        elif running.entry.stops_with_caller:
            running.scope.cancel()

    def _bytes_taken(self, tag: str) -> int:
        return self._connection.limits.frame_bytes_max

    def _bytes_taken_of_user(self, tag: str) -> int:
        """How long a request of the user's may be: as long as its kind needs, for who may change anything."""
        entry = self._service.find(tag)
        if entry is None or entry.need.objection(self.who):
            return LONG_BYTES
        return entry.bytes_max if self.allows(Level.WRITE) else READER_BYTES_MAX

    def _next_file(self) -> OpenFile:
        file = self._stream.next_file() if isinstance(self._stream, UnixStream) else None
        if file is None:
            raise PeerError("a file was announced as handed over, and did not come")
        return file

    async def _on_bulk(self, event: events.Event) -> None:
        self._bulk_receiver()
        assert self._bulk_in is not None
        self._reading_paused = True
        try:
            await self._bulk_in.send(event)
        finally:
            self._reading_paused = False


class _Running:
    """A handler's task under way."""

    __slots__ = ("credited", "entry", "held", "scope")

    def __init__(self, scope: trio.CancelScope, entry: Entry) -> None:
        self.scope, self.entry = scope, entry
        self.held = 0  # bytes of the user's share, until the answer
        self.credited = trio.Event()


class _Sender:
    """What a stream's handler sends its items with."""

    __slots__ = ("_message", "_number", "_peer", "_running")

    def __init__(self, peer: Peer, number: int, message: type[Message], running: _Running) -> None:
        self._peer, self._number, self._message, self._running = peer, number, message, running

    async def __call__(self, item: object) -> None:
        peer, connection = self._peer, self._peer._connection
        while connection.credit_left(self._number) <= 0:
            self._running.credited = trio.Event()
            await self._running.credited.wait()  # or the scope around the handler is cancelled
        await peer._room()
        connection.item(self._number, encode_answer(self._message, item))
        peer._kick()
        if peer._stint is None:
            await trio.lowlevel.checkpoint()
        else:
            await turns.of_loop().give_way()


class Items(Generic[item_T]):
    """The items of a stream; iterate once. `async for item in items`."""

    def __init__(self, peer: Peer, number: int, request: StreamRequest[item_T], credit: int) -> None:
        self._peer = peer
        self._number = number
        self._request = type(request)
        self._batch = max(1, credit // 2)
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
        if self._taken >= self._batch and not self._ended:
            self._peer._connection.credit(self._number, self._taken)
            self._peer._kick()
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


def _failure(error: BaseException, entry: Entry, peer: Peer) -> tuple[str, str]:
    """What the caller is told of a handler's exception; one that nobody foresaw is logged whole, and told to nobody."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, PoolError):
        log.debug("%s from %s: %s", entry.message.tag, peer, error)
        return type(error).__name__, str(error)
    if peer._refusals.may_say(entry.message.tag):
        log.error("internal error in %s from %s", entry.message.tag, peer, exc_info=error)
    return "internal", "internal error"
