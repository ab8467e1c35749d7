"""One connection, without a socket: bytes in, events out; calls in, bytes out.

    HELLO  client: hello (versions, whom it wants)   server: welcome (version, its name, the methods it takes, a nonce)
    AUTH   client: auth (one method, its proof)      server: authed (who the client is here), or refused
    READY  both: calls, streams, notices, bulk bytes, pings
    CLOSED after `bye`, a refusal, or the first thing that breaks the rules

Each message is one frame: a msgpack array that begins with its kind (or, for bulk bytes, a byte that msgpack never
uses). Ids belong to the side that asks. A stream's sender may send as many items as it was given credit for. An answer
to what was cancelled is dropped knowingly; an answer to what was never asked ends the connection, as does every frame
that the table `_KINDS` does not describe.
"""

from __future__ import annotations

import os

import msgpack

from pool.errors import PeerError
from pool.hints import Any, Callable, Final, Protocol, Sequence, StrEnum
from protocol import codec
from protocol.events import (
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
    Opened,
    Replied,
    Streamed,
)
from protocol.frame import HEADER_BYTES, FrameReader
from protocol.identity import Greeting, Who
from protocol.message import Record

VERSIONS: Final = (1,)
NONCE_BYTES: Final = 32
BULK_MARK: Final = 0xC1  # msgpack leaves it unused, so no message begins with it

REQUEST_BYTES_MAX: Final = 1024 * 1024
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024


class Limits(Record):
    """How much one side takes from the other."""

    handshake_bytes_max: int = 64 * 1024
    frame_bytes_max: int = FRAME_BYTES_MAX
    request_bytes_max: int = REQUEST_BYTES_MAX  # unless `request_bytes_max` of the connection says otherwise
    calls_max: int = 512  # calls and streams being answered at a time
    credit_max: int = 4096


class Kind:
    """The first element of each message."""

    HELLO: Final = 0
    WELCOME: Final = 1
    AUTH: Final = 2
    AUTHED: Final = 3
    REFUSED: Final = 4
    CALL: Final = 5
    REPLY: Final = 6
    FAIL: Final = 7
    NOTICE: Final = 8
    STREAM: Final = 9
    ITEM: Final = 10
    CREDIT: Final = 11
    END: Final = 12
    CANCEL: Final = 13
    PING: Final = 14
    PONG: Final = 15
    BYE: Final = 16
    BULK_END: Final = 17
    BULK_FAIL: Final = 18
    BULK_HANDED: Final = 19


_ANY: Final = object
# What follows the kind in each message; bools are not ints here.
_KINDS: Final[dict[int, tuple[type, ...]]] = {
    Kind.HELLO: (dict,),
    Kind.WELCOME: (dict,),
    Kind.AUTH: (str, dict),
    Kind.AUTHED: (dict,),
    Kind.REFUSED: (str, str),
    Kind.CALL: (int, str, _ANY),
    Kind.REPLY: (int, _ANY),
    Kind.FAIL: (int, str, str),
    Kind.NOTICE: (str, _ANY),
    Kind.STREAM: (int, str, _ANY, int),
    Kind.ITEM: (int, _ANY),
    Kind.CREDIT: (int, int),
    Kind.END: (int,),
    Kind.CANCEL: (int,),
    Kind.PING: (),
    Kind.PONG: (),
    Kind.BYE: (str,),
    Kind.BULK_END: (int, int),
    Kind.BULK_FAIL: (str,),
    Kind.BULK_HANDED: (int,),
}


_REQUESTS: Final = (Kind.CALL, Kind.STREAM, Kind.NOTICE)


class State(StrEnum):
    """How far a connection has come."""

    HELLO = "hello"
    AUTH = "authentication"
    READY = "ready"
    CLOSED = "closed"


class ClientAuth(Protocol):
    """How a client proves itself over one channel."""

    def choose(self, offered: Sequence[str], greeting: Greeting) -> tuple[str, dict[str, Any]]:
        """A method that both sides know, and its proof; PeerError when there is none."""

    def confirm(self, answer: object) -> None:
        """What the server answered to the proof; PeerError when it cannot have checked it."""

    def server(self) -> Who:
        """Who the server is, by what the channel shows."""


class ServerAuth(Protocol):
    """What a server takes as proof over one channel."""

    def methods(self) -> list[str]:
        """The methods that are taken here, the preferred one first."""

    def verify(self, method: str, proof: dict[str, Any], greeting: Greeting) -> tuple[Who, bytes]:
        """Who the client is, and what to answer its proof; PeerError when that does not hold."""

    def judge(self) -> Who:
        """Who the client is by what it has proven, as things are now; PeerError when that holds no longer."""


class Refused(PeerError):
    """The other side ended the handshake, and said why."""

    def __init__(self, message: str, *, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """One side of a connection. `receive` takes bytes and returns events; `take` hands out the bytes to send."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.state = State.HELLO
        self.peer_watches = True  # the other side expects to hear from us, and can be expected to speak
        self.request_bytes_max: Callable[[str], int] = lambda _: self.limits.request_bytes_max
        """How long a request or notice may be, by its tag."""
        self._frames = FrameReader(self.limits.handshake_bytes_max, self._judge)
        self._out = bytearray()
        self._next_id = 1
        self._asked: dict[int, int] = {}  # our calls (credit -1) and streams (credit left)
        self._serving: dict[int, int] = {}  # the peer's, likewise
        self._pack = msgpack.Packer(default=codec.extend, unicode_errors="surrogateescape").pack

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be said or heard."""
        return self.state is State.CLOSED

    # ---- bytes out

    @property
    def pending_bytes(self) -> int:
        """How much waits to be sent."""
        return len(self._out)

    def send_with(self, send: Callable[[bytearray], int]) -> None:
        """Have `send` take what it can of the bytes to be sent; it returns how many it has taken."""
        sent = send(self._out)
        if sent == len(self._out):
            self._out = bytearray()
        else:
            del self._out[:sent]

    def take(self) -> bytearray:
        """All bytes to be sent now; they are the caller's from here on."""
        out, self._out = self._out, bytearray()
        return out

    def _send(self, *message: object) -> None:
        payload = self._pack(message)
        if len(payload) > self.limits.frame_bytes_max:
            raise PeerError(
                f"a message of {len(payload)} bytes is too long", expected=f"at most {self.limits.frame_bytes_max}"
            )
        self._out += len(payload).to_bytes(HEADER_BYTES, "big")
        self._out += payload

    # ---- asking

    def call(self, tag: str, body: object) -> int:
        """Ask; `Replied` or `Failed` with the returned id will follow."""
        return self._ask(Kind.CALL, tag, body, -1)

    def stream(self, tag: str, body: object, credit: int) -> int:
        """Ask for items, at most `credit` of them until `credit()` gives more."""
        return self._ask(Kind.STREAM, tag, body, credit)

    def _ask(self, kind: int, tag: str, body: object, credit: int) -> int:
        self._must_be_ready()
        number = self._next_id
        if kind == Kind.CALL:
            self._send(kind, number, tag, body)
        else:
            self._send(kind, number, tag, body, credit)
        self._next_id += 1
        self._asked[number] = credit
        return number

    def credit(self, number: int, count: int) -> None:
        """Take `count` more items of a stream of ours."""
        if number in self._asked and self.state is State.READY:
            self._asked[number] += count
            self._send(Kind.CREDIT, number, count)

    def cancel(self, number: int) -> None:
        """The answer is no longer wanted; what still comes of it is dropped."""
        if self._asked.pop(number, None) is not None and self.state is State.READY:
            self._send(Kind.CANCEL, number)

    def notify(self, tag: str, body: object) -> None:
        """Say something that needs no answer."""
        self._must_be_ready()
        self._send(Kind.NOTICE, tag, body)

    # ---- answering

    def reply(self, number: int, body: object) -> None:
        """Answer a call."""
        if number in self._serving and self.state is State.READY:
            self._send((Kind.REPLY), number, body)  # may refuse a body that is too long; then the call can still fail
            del self._serving[number]

    def fail(self, number: int, code: str, message: str) -> None:
        """A call or stream came to nothing."""
        if self._serving.pop(number, None) is not None and self.state is State.READY:
            self._send(Kind.FAIL, number, code, message)

    def item(self, number: int, body: object) -> None:
        """One item of a stream; only while `credit_left`."""
        if number in self._serving and self.state is State.READY:
            self._send(Kind.ITEM, number, body)
            self._serving[number] -= 1

    def credit_left(self, number: int) -> int:
        """How many items the peer takes now; 0 also when it no longer wants any."""
        return self._serving.get(number, 0)

    def end(self, number: int) -> None:
        """The stream is complete."""
        if self._serving.pop(number, None) is not None and self.state is State.READY:
            self._send(Kind.END, number)

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
        self._send(Kind.BULK_END, size, crc)

    def bulk_fail(self, message: str) -> None:
        """The file cannot be sent to its end."""
        self._must_be_ready()
        self._send(Kind.BULK_FAIL, message)

    def bulk_handed(self, size: int) -> None:
        """A descriptor that goes with these bytes is the file; the caller has agreed on that with the peer."""
        self._must_be_ready()
        self._send(Kind.BULK_HANDED, size)

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self.state is State.READY:
            self._send(Kind.PING)

    def bye(self, reason: str = "") -> None:
        """Leave on purpose."""
        if self.state is State.READY:
            self._send(Kind.BYE, reason)
        self.state = State.CLOSED

    def _must_be_ready(self) -> None:
        if self.state is not State.READY:
            raise PeerError(f"the connection is not ready but in state {self.state.value}")

    # ---- bytes in

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """What the bytes mean. PeerError when they break the rules; the connection is then closed."""
        events: list[Event] = []
        self._frames.feed(data)
        try:
            while self.state is not State.CLOSED and (payload := self._frames.next()) is not None:
                event = self._frame(payload)
                if event is not None:
                    events.append(event)
        except PeerError:
            self.state = State.CLOSED
            raise
        return events

    @property
    def mid_frame(self) -> bool:
        """Whether an end of file here would cut a message in two."""
        return self._frames.partial

    @property
    def long_bytes(self) -> int:
        """The length of the message under way, when it is a long one; else 0."""
        return self._frames.long_bytes

    @property
    def frames_taken(self) -> int:
        """How many whole messages have come."""
        return self._frames.taken

    def _judge(self, length: int, head: bytes) -> None:
        """Refuse a long frame before it is kept, by what it says that it is."""
        if self.state is not State.READY or head[0] == BULK_MARK:
            return
        kind, tag = _head(head)
        if kind in _REQUESTS:
            most = min(self.request_bytes_max(tag), self.limits.frame_bytes_max)
        else:
            most = self.limits.frame_bytes_max if self._asked else self.limits.request_bytes_max
        if length > most:
            raise PeerError(f"{_kind_name(kind)} {tag[:80]} of {length} bytes", expected=f"at most {most}")

    def _frame(self, payload: bytes) -> Event | None:
        if self.state is not State.READY:
            kind, parts = _message(codec.unpack_plain(payload))
            return self._handshake(kind, parts)
        if payload[0] == BULK_MARK:
            return Bulk(memoryview(payload)[1:])
        new_text_max = codec.NO_BOUND if self._asked else codec.NEW_TEXT_MAX
        kind, parts = _message(codec.unpack(payload, new_text_max=new_text_max))
        handle = _HANDLERS.get(kind)
        if handle is None:
            raise PeerError(f"{_kind_name(kind)} on a connection that is ready")
        event: Event | None = handle(self, *parts)
        return event

    def _handshake(self, kind: int, parts: list[Any]) -> Event | None:
        raise NotImplementedError

    def judge(self) -> Who:
        """Who the other side is by what it has proven, as things are now; PeerError when that holds no longer."""
        raise NotImplementedError

    def _opened(self) -> None:
        self.state = State.READY
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
        self._send(Kind.PONG)

    def _on_pong(self) -> None:
        """That it came is all it says."""

    def _on_bye(self, reason: str) -> Event:
        self.state = State.CLOSED
        return Closing(reason)

    def _on_bulk_end(self, size: int, crc: int) -> Event:
        return BulkEnded(size, crc)

    def _on_bulk_fail(self, message: str) -> Event:
        return BulkFailed(message)

    def _on_bulk_handed(self, size: int) -> Event:
        return BulkHanded(size)


class ClientConnection(Connection):
    """The side that connected: says hello and proves itself.

    `watches`: this side answers pings whenever they come, so its silence means that it is gone. A blocking client,
    which reads only while it waits for an answer, does not.
    """

    def __init__(
        self,
        auth: ClientAuth,
        *,
        wanted: str = "",
        software: str = "",
        watches: bool = True,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(limits=limits)
        self._auth = auth
        self._wanted = wanted
        self.peer_name = ""
        self.peer_software = ""
        hello = {"versions": list(VERSIONS), "wanted": wanted, "software": software, "watches": watches}
        self._send(Kind.HELLO, hello)

    def judge(self) -> Who:
        """Who the server is, as things are now."""
        return self._auth.server()

    def _handshake(self, kind: int, parts: list[Any]) -> Event | None:
        if kind == Kind.REFUSED:
            self.state = State.CLOSED
            raise Refused(parts[1], code=parts[0])
        if kind == Kind.WELCOME and self.state is State.HELLO:
            self._welcomed(parts[0])
            return None
        if kind == Kind.AUTHED and self.state is State.AUTH:
            self._auth.confirm(parts[0].get("proof"))
            self._opened()
            return Opened(self._auth.server(), _text(parts[0], "identity"))
        raise PeerError(f"{_kind_name(kind)} in state {self.state.value}")

    def _welcomed(self, said: dict[str, Any]) -> None:
        if said.get("version") not in VERSIONS:
            raise PeerError(f"the server speaks version {said.get('version')!r}", expected=f"one of {VERSIONS}")
        self.peer_name = _text(said, "name")
        self.peer_software = _text(said, "software")
        if self._wanted and self.peer_name and self.peer_name != self._wanted:
            raise PeerError(f"connected to {self.peer_name!r}", expected=f"{self._wanted!r}")
        methods = said.get("methods")
        if type(methods) is not list or any(type(method) is not str for method in methods):
            raise PeerError("a welcome without a list of methods")
        nonce = said.get("nonce", b"")
        if type(nonce) is not bytes or len(nonce) not in (0, NONCE_BYTES):
            raise PeerError("a welcome with a nonce that is none", expected=f"{NONCE_BYTES} bytes")
        greeting = Greeting(wanted=self._wanted, name=self.peer_name, nonce=nonce)
        method, proof = self._auth.choose(methods, greeting)
        self._send(Kind.AUTH, method, proof)
        self.state = State.AUTH


class ServerConnection(Connection):
    """The side that was connected to: says which methods it takes, and who the client is."""

    def __init__(
        self, auth: ServerAuth, *, name: str = "", port_name: str = "", software: str = "", limits: Limits | None = None
    ) -> None:
        super().__init__(limits=limits)
        self._auth = auth
        self._name = name
        self._port_name = port_name
        self._software = software
        self._greeting = Greeting()
        self.peer_software = ""

    def judge(self) -> Who:
        """Who the client is, as things are now."""
        return self._auth.judge()

    def _handshake(self, kind: int, parts: list[Any]) -> Event | None:
        try:
            if kind == Kind.HELLO and self.state is State.HELLO:
                self._hello(parts[0])
                return None
            if kind == Kind.AUTH and self.state is State.AUTH:
                return self._authenticate(parts[0], parts[1])
            raise PeerError(f"{_kind_name(kind)} in state {self.state.value}")
        except PeerError as error:
            self._send(Kind.REFUSED, getattr(error, "code", "refused"), str(error)[:500])
            raise

    def _hello(self, said: dict[str, Any]) -> None:
        theirs = said.get("versions")
        common = [v for v in VERSIONS if type(theirs) is list and v in theirs]
        if not common:
            raise PeerError(f"the client speaks versions {str(theirs)[:40]}", expected=f"one of {list(VERSIONS)}")
        wanted = _text(said, "wanted")
        # A preface in clear chose this daemon; what the client says inside the protected channel must agree with it.
        for asked in (self._port_name, self._name):
            if wanted and asked and wanted != asked:
                raise PeerError(f"a connection for {wanted[:60]!r} reached {asked!r}")
        if self._port_name and not wanted:
            raise PeerError("a connection through the shared port that names no daemon")
        self.peer_watches = said.get("watches", True) is True
        self.peer_software = _text(said, "software")
        self._greeting = Greeting(wanted=wanted, name=self._name, nonce=os.urandom(NONCE_BYTES))
        welcome = {
            "version": max(common),
            "name": self._name,
            "software": self._software,
            "methods": self._auth.methods(),
            "nonce": self._greeting.nonce,
        }
        self._send(Kind.WELCOME, welcome)
        self.state = State.AUTH

    def _authenticate(self, method: str, proof: dict[str, Any]) -> Event:
        if method not in self._auth.methods():
            raise PeerError(f"method {method[:40]!r} is not taken here", expected=", ".join(self._auth.methods()))
        who, answer = self._auth.verify(method, proof, self._greeting)
        self._send(Kind.AUTHED, {"identity": who.identity, **({"proof": answer} if answer else {})})
        self._opened()
        return Opened(who, "")


def _kind_name(kind: int) -> str:
    return next((name for name, value in vars(Kind).items() if value == kind), str(kind))


def _head(head: bytes) -> tuple[int, str]:
    """The kind of a message by its first bytes, and the tag of a request or notice."""
    try:
        unpacker = msgpack.Unpacker(max_buffer_size=len(head))
        unpacker.feed(head)
        unpacker.read_array_header()
        kind = unpacker.unpack()
        if kind in (Kind.CALL, Kind.STREAM):
            unpacker.skip()
        tag = unpacker.unpack() if kind in _REQUESTS else ""
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        raise PeerError("a long frame that does not say what it is") from None
    if type(kind) is not int or type(tag) is not str:
        raise PeerError("a long frame that does not say what it is")
    return kind, tag


def _text(said: dict[str, Any], key: str) -> str:
    value = said.get(key, "")
    if type(value) is not str or len(value) > 500:
        raise PeerError(f"{key} is not a short text")
    return value


def _message(value: object) -> tuple[int, list[Any]]:
    """The kind and the parts of a message whose shape is right."""
    if type(value) is not list or not value or type(value[0]) is not int:
        raise PeerError("a frame that is not a message")
    kind = value[0]
    shape = _KINDS.get(kind)
    if shape is None:
        raise PeerError(f"a message of unknown kind {kind}")
    parts = value[1:]
    if len(parts) != len(shape):
        raise PeerError(f"{_kind_name(kind)} with {len(parts)} parts", expected=f"{len(shape)}")
    for part, wanted in zip(parts, shape, strict=True):
        if type(part) is not wanted and wanted is not _ANY:
            raise PeerError(f"{_kind_name(kind)} with a {type(part).__name__}", expected=f"{wanted.__name__}")
    return kind, parts


_HANDLERS: Final[dict[int, Any]] = {
    Kind.CALL: Connection._on_call,
    Kind.REPLY: Connection._on_reply,
    Kind.FAIL: Connection._on_fail,
    Kind.NOTICE: Connection._on_notice,
    Kind.STREAM: Connection._on_stream,
    Kind.ITEM: Connection._on_item,
    Kind.CREDIT: Connection._on_credit,
    Kind.END: Connection._on_end,
    Kind.CANCEL: Connection._on_cancel,
    Kind.PING: Connection._on_ping,
    Kind.PONG: Connection._on_pong,
    Kind.BYE: Connection._on_bye,
    Kind.BULK_END: Connection._on_bulk_end,
    Kind.BULK_FAIL: Connection._on_bulk_fail,
    Kind.BULK_HANDED: Connection._on_bulk_handed,
}
