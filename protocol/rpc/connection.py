"""One connection, without a socket: bytes in, events out; calls in, bytes out.

    HELLO  AUTH   the handshake (`protocol.rpc.handshake`, whose two classes are what is made of this one)
    READY         both: calls, streams, notices, bulk bytes, pings
    CLOSED        after `bye`, a refusal, or the first thing that breaks the rules

Each message is one frame (`protocol.wire.frame`) of a kind that `protocol.rpc.envelope` describes. The protocol is this
pool's own; its form follows the sans-I/O libraries (https://sans-io.readthedocs.io/how-to-sans-io.html).

Ids belong to the side that asks. A stream's sender may send as many items as it was given credit for. An answer to what
was cancelled is dropped knowingly; an answer to what was never asked ends the connection, as does every frame that the
table `SHAPES` does not describe.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from pool.base.errors import PeerError
from protocol.rpc.envelope import BULK_MARK, REQUESTS, EnvelopeKind, envelope_of, head_of, kind_name
from protocol.rpc.events import (
    Bulk,
    BulkEnded,
    BulkFailed,
    BulkHanded,
    Called,
    Cancelled,
    Closing,
    Credited,
    Ended,
    Event,
    Failed,
    Item,
    Noticed,
    Replied,
    Streamed,
)
from protocol.rpc.remote import TooLong
from protocol.security.identity import Who
from protocol.wire import codec
from protocol.wire.frame import HEADER_BYTES, FrameReader
from protocol.wire.message import Record

REQUEST_BYTES_MAX: Final = 1024 * 1024
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024


class ConnectionLimits(Record):
    """How much one side takes from the other."""

    handshake_bytes_max: int = 64 * 1024
    frame_bytes_max: int = FRAME_BYTES_MAX
    request_bytes_max: int = REQUEST_BYTES_MAX  # unless `request_bytes_max` of the connection says otherwise
    calls_max: int = 512  # calls and streams being answered at a time
    credit_max: int = 4096


_USUAL_LIMITS: Final = ConnectionLimits()


class ConnectionState(StrEnum):
    """How far a connection has come."""

    HELLO = "hello"
    AUTH = "authentication"
    READY = "ready"
    CLOSED = "closed"


class Connection:
    """One side of a connection. `receive` takes bytes and returns events; `take` hands out the bytes to send."""

    __slots__ = (
        "_asked",
        "_before",
        "_frames",
        "_next_id",
        "_out",
        "_serving",
        "limits",
        "peer_watches",
        "request_bytes_max",
        "state",
    )

    def __init__(self, *, limits: ConnectionLimits | None = None) -> None:
        self.limits = limits or _USUAL_LIMITS
        self.state = ConnectionState.HELLO
        self.peer_watches = True  # the other side expects to hear from us, and can be expected to speak
        self.request_bytes_max: Callable[[str], int] = lambda _: self.limits.request_bytes_max
        """How long a request or notice may be, by its tag."""
        self._frames = FrameReader(self.limits.handshake_bytes_max, self._judge)
        self._out = bytearray()
        self._before: list[bytearray | bytes | memoryview] | None = None
        """What is to be sent before `_out`, where there is something large that is not copied."""
        self._next_id = 1
        self._asked: dict[int, int] = {}  # our calls (credit -1) and streams (credit left)
        self._serving: dict[int, int] = {}  # the peer's, likewise

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be said or heard."""
        return self.state is ConnectionState.CLOSED

    @property
    def is_resting(self) -> bool:
        """Whether nothing is under way: no question, no answer, no message."""
        return not (self._asked or self._serving or self._out or self._before or self._frames.partial)

    # ---- bytes out

    @property
    def pending_bytes(self) -> int:
        """How much waits to be sent."""
        return len(self._out) if self._before is None else sum(map(len, self._before), len(self._out))

    def send_with(self, send: Callable[[bytearray | bytes | memoryview], int]) -> None:
        """Have `send` take what it can of the bytes to be sent; it returns how many it has taken."""
        while self._before is not None:
            part = self.take()
            sent = send(part)
            if sent < len(part):
                self._before = [memoryview(part)[sent:], *(self._before or ())]
                return
        sent = send(self._out)
        if sent == len(self._out):
            self._out = bytearray()
        else:
            del self._out[:sent]

    def take(self) -> bytearray | bytes | memoryview:
        """The next bytes to be sent, all of them but behind something large; they are the caller's from here on."""
        if self._before is not None:
            part = self._before.pop(0)
            self._before = self._before or None
            return part
        out, self._out = self._out, bytearray()
        return out

    def _send(self, *message: object) -> None:
        payload, tail = codec.pack_in_two(message)
        size = len(payload) + len(tail)
        if size > FRAME_BYTES_MAX:  # `limits` are what we take of the other side
            raise TooLong(f"a message of {size} bytes is too long", expected=f"at most {FRAME_BYTES_MAX}")
        self._out += size.to_bytes(HEADER_BYTES, "big")
        self._out += payload
        if tail:
            self._before = [*(self._before or ()), self._out, tail]
            self._out = bytearray()

    # ---- asking

    def call(self, tag: str, body: object) -> int:
        """Ask; `Replied` or `Failed` with the returned id will follow."""
        return self._ask(EnvelopeKind.CALL, tag, body, -1)

    def stream(self, tag: str, body: object, credit: int) -> int:
        """Ask for items, at most `credit` of them until `credit()` gives more."""
        return self._ask(EnvelopeKind.STREAM, tag, body, credit)

    def _ask(self, kind: int, tag: str, body: object, credit: int) -> int:
        self._must_be_ready()
        number = self._next_id
        if kind == EnvelopeKind.CALL:
            self._send(kind, number, tag, body)
        else:
            self._send(kind, number, tag, body, credit)
        # Counted up only when it was sent: a message that is too long to send has no id.
        self._next_id += 1
        self._asked[number] = credit
        return number

    def credit(self, number: int, count: int) -> None:
        """Take `count` more items of a stream of ours."""
        if number in self._asked and self.state is ConnectionState.READY:
            self._asked[number] += count
            self._send(EnvelopeKind.CREDIT, number, count)

    def cancel(self, number: int) -> None:
        """The answer is no longer wanted; what still comes of it is dropped."""
        if self._asked.pop(number, None) is not None and self.state is ConnectionState.READY:
            self._send(EnvelopeKind.CANCEL, number)

    def notify(self, tag: str, body: object) -> None:
        """Say something that needs no answer."""
        self._must_be_ready()
        self._send(EnvelopeKind.NOTICE, tag, body)

    # ---- answering

    def reply(self, number: int, body: object) -> None:
        """Answer a call."""
        if number in self._serving and self.state is ConnectionState.READY:
            self._send(
                EnvelopeKind.REPLY, number, body
            )  # may refuse a body that is too long; then the call can still fail
            del self._serving[number]
            if not self._serving:
                self._serving.clear()  # gives the table's memory back

    def fail(self, number: int, code: str, message: str) -> None:
        """A call or stream came to nothing."""
        if self._serving.pop(number, None) is not None and self.state is ConnectionState.READY:
            self._send(EnvelopeKind.FAIL, number, code, message)

    def item(self, number: int, body: object) -> None:
        """One item of a stream; only while `credit_left`."""
        if number in self._serving and self.state is ConnectionState.READY:
            self._send(EnvelopeKind.ITEM, number, body)
            self._serving[number] -= 1

    def credit_left(self, number: int) -> int:
        """How many items the peer takes now; 0 also when it no longer wants any."""
        return self._serving.get(number, 0)

    def end(self, number: int) -> None:
        """The stream is complete."""
        if self._serving.pop(number, None) is not None and self.state is ConnectionState.READY:
            self._send(EnvelopeKind.END, number)

    def forget(self, number: int) -> None:
        """No answer will be given to a call that the peer cancelled."""
        self._serving.pop(number, None)

    # ---- the rest

    def bulk(self, data: bytes | memoryview) -> None:
        """Raw bytes of a file; the caller has agreed with the peer on what they are."""
        self._must_be_ready()
        self._out += (len(data) + 1).to_bytes(HEADER_BYTES, "big")
        self._out.append(BULK_MARK)
        self._out += data

    def bulk_end(self, size: int, crc: int) -> None:
        """The file is complete."""
        self._must_be_ready()
        self._send(EnvelopeKind.BULK_END, size, crc)

    def bulk_fail(self, message: str) -> None:
        """The file cannot be sent to its end."""
        self._must_be_ready()
        self._send(EnvelopeKind.BULK_FAIL, message)

    def bulk_handed(self, size: int) -> None:
        """A descriptor that goes with these bytes is the file; the caller has agreed on that with the peer."""
        self._must_be_ready()
        self._send(EnvelopeKind.BULK_HANDED, size)

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self.state is ConnectionState.READY:
            self._send(EnvelopeKind.PING)

    def bye(self, reason: str = "") -> None:
        """Leave on purpose."""
        if self.state is ConnectionState.READY:
            self._send(EnvelopeKind.BYE, reason)
        self.state = ConnectionState.CLOSED

    def _must_be_ready(self) -> None:
        if self.state is not ConnectionState.READY:
            raise PeerError(f"the connection is not ready but in state {self.state.value}")

    # ---- bytes in

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """What the bytes mean. PeerError when they break the rules; the connection is then closed.

        None of them are given where they have come into the `room`.
        """
        events: list[Event] = []
        frames = self._frames
        payload: bytes | memoryview | None = frames.whole(data)
        if payload is None and data:
            frames.feed(data)
        try:
            while self.state is not ConnectionState.CLOSED:
                if payload is None and (payload := frames.next()) is None:
                    break
                event = self._frame(payload)
                if event is not None:
                    events.append(event)
                payload = None
        except PeerError:
            self.state = ConnectionState.CLOSED
            raise
        return events

    def room(self) -> memoryview | None:
        """Where the rest of a long message under way goes, without a copy; None where there is no such place."""
        return self._frames.room()

    def filled(self, count: int) -> None:
        """So many bytes have come into that."""
        self._frames.filled(count)

    @property
    def mid_frame(self) -> bool:
        """Whether an end of file here would cut a message in two."""
        return self._frames.partial

    @property
    def long_bytes(self) -> int:
        """The length of the message under way, when it is a long one; else 0."""
        return self._frames.long_bytes

    @property
    def missing_bytes(self) -> int:
        """How much of that message has not come."""
        return self._frames.missing if self._frames.long_bytes else 0

    @property
    def frames_taken(self) -> int:
        """How many whole messages have come."""
        return self._frames.taken

    def _judge(self, length: int, head: bytes) -> None:
        """Refuse a long frame before it is kept, by what it says that it is."""
        if self.state is not ConnectionState.READY or head[0] == BULK_MARK:
            return
        kind, tag = head_of(head)
        if kind in REQUESTS:
            most = min(self.request_bytes_max(tag), self.limits.frame_bytes_max)
        else:
            # A long answer can only come to who has asked for something.
            most = self.limits.frame_bytes_max if self._asked else self.limits.request_bytes_max
        if length > most:
            raise PeerError(f"{kind_name(kind)} {tag[:80]} of {length} bytes", expected=f"at most {most}")

    def _frame(self, payload: bytes | memoryview) -> Event | None:
        if self.state is not ConnectionState.READY:
            kind, parts = envelope_of(codec.unpack_plain(payload))
            return self._handshake(kind, parts)
        if payload[0] == BULK_MARK:
            return Bulk(memoryview(payload)[1:])
        new_text_max = codec.NO_BOUND if self._asked else codec.NEW_TEXT_MAX
        kind, parts = envelope_of(codec.unpack(payload, new_text_max=new_text_max))
        handle = _HANDLERS.get(kind)
        if handle is None:
            raise PeerError(f"{kind_name(kind)} on a connection that is ready")
        event: Event | None = handle(self, *parts)
        return event

    def _handshake(self, kind: int, parts: list[Any]) -> Event | None:
        raise NotImplementedError

    def judge(self) -> Who:
        """Who the other side is by what it has proven, as things are now; PeerError when that holds no longer."""
        raise NotImplementedError

    def _opened(self) -> None:
        self.state = ConnectionState.READY
        self._frames.bytes_max = self.limits.frame_bytes_max

    def _on_call(self, number: int, tag: str, body: object) -> Event | None:
        return Called(number, tag, body) if self._admit(number, -1) else None

    def _on_stream(self, number: int, tag: str, body: object, credit: int) -> Event | None:
        if not 0 < credit <= self.limits.credit_max:
            raise PeerError(f"a credit of {credit} items", expected=f"1 to {self.limits.credit_max}")
        return Streamed(number, tag, body, credit) if self._admit(number, credit) else None

    def _admit(self, number: int, credit: int) -> bool:
        if number in self._serving:
            raise PeerError(f"call {number} was begun twice")
        self._serving[number] = credit
        # Refused by an answer and not by a hang-up: other calls of the connection go on.
        if len(self._serving) > self.limits.calls_max:
            self.fail(number, "busy", f"more than {self.limits.calls_max} calls at a time on one connection")
            return False
        return True

    def _on_reply(self, number: int, body: object) -> Event | None:
        credit = self._asked.get(number)
        if credit is None:
            return self._late(number)
        if credit != -1:
            raise PeerError(f"a reply to {number}, which is a stream")
        del self._asked[number]
        return Replied(number, body)

    def _on_fail(self, number: int, code: str, message: str) -> Event | None:
        if self._asked.pop(number, None) is None:
            return self._late(number)
        return Failed(number, code, message)

    def _on_item(self, number: int, body: object) -> Event | None:
        left = self._asked.get(number)
        if left is None:
            return self._late(number)
        if left < 0:
            raise PeerError(f"an item for {number}, which is a call")
        if left == 0:
            raise PeerError(f"more items of stream {number} than were asked for")
        self._asked[number] = left - 1
        return Item(number, body)

    def _on_end(self, number: int) -> Event | None:
        left = self._asked.get(number)
        if left is None:
            return self._late(number)
        if left < 0:
            raise PeerError(f"the end of {number}, which is a call")
        del self._asked[number]
        return Ended(number)

    def _late(self, number: int) -> Event | None:
        """What we cancelled may still be answered; what we never asked may not."""
        if not 0 < number < self._next_id:
            raise PeerError(f"an answer to {number}, which was never asked")
        return None

    def _on_credit(self, number: int, count: int) -> Event | None:
        left = self._serving.get(number)
        if left is None:
            return None  # the stream has just ended
        if left < 0 or not 0 < count <= self.limits.credit_max or left + count > 2 * self.limits.credit_max:
            raise PeerError(f"a credit of {count} items for {number}")
        self._serving[number] = left + count
        return Credited(number, count)

    def _on_cancel(self, number: int) -> Event | None:
        return Cancelled(number) if self._serving.pop(number, None) is not None else None

    def _on_notice(self, tag: str, body: object) -> Event:
        return Noticed(tag, body)

    def _on_ping(self) -> None:
        self._send(EnvelopeKind.PONG)

    def _on_pong(self) -> None:
        """That it came is all it says."""

    def _on_bye(self, reason: str) -> Event:
        self.state = ConnectionState.CLOSED
        return Closing(reason)

    def _on_bulk_end(self, size: int, crc: int) -> Event:
        return BulkEnded(size, crc)

    def _on_bulk_fail(self, message: str) -> Event:
        return BulkFailed(message)

    def _on_bulk_handed(self, size: int) -> Event:
        return BulkHanded(size)


_HANDLERS: Final[dict[int, Any]] = {
    EnvelopeKind.CALL: Connection._on_call,
    EnvelopeKind.REPLY: Connection._on_reply,
    EnvelopeKind.FAIL: Connection._on_fail,
    EnvelopeKind.NOTICE: Connection._on_notice,
    EnvelopeKind.STREAM: Connection._on_stream,
    EnvelopeKind.ITEM: Connection._on_item,
    EnvelopeKind.CREDIT: Connection._on_credit,
    EnvelopeKind.END: Connection._on_end,
    EnvelopeKind.CANCEL: Connection._on_cancel,
    EnvelopeKind.PING: Connection._on_ping,
    EnvelopeKind.PONG: Connection._on_pong,
    EnvelopeKind.BYE: Connection._on_bye,
    EnvelopeKind.BULK_END: Connection._on_bulk_end,
    EnvelopeKind.BULK_FAIL: Connection._on_bulk_fail,
    EnvelopeKind.BULK_HANDED: Connection._on_bulk_handed,
}
