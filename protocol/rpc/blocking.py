"""Calls and streams without an event loop: what command-line tools use. Imports neither trio nor cryptography.

    with blocking.connect(address, security) as peer:
        answer = peer.call(QueryDaemon())
        for batch in peer.stream(QueryAds(ad_type="Machine")):
            ...

The same `Connection` as under `protocol.rpc.peer` does the talking, so both faces follow one set of rules. This one
reads only while it waits for an answer, and tells the server so: an idle tool is not taken for a dead one.
"""

from __future__ import annotations

import _socket
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pool.base.errors import PeerError
from protocol.network import unix_socket
from protocol.rpc import events
from protocol.rpc.handshake import ClientConnection
from protocol.rpc.remote import ConnectionLost, RemoteError, TimedOut
from protocol.security.identity import Known, Link, Who
from protocol.wire.address import Address
from protocol.wire.kinds import decode_answer, encode
from protocol.wire.message import Message, Request, StreamRequest

if TYPE_CHECKING:
    import socket
    from types import TracebackType

    from protocol.security.credentials import Security

R = TypeVar("R")
item_T = TypeVar("item_T")

CALL_TIMEOUT_S: Final = 20.0
CONNECT_TIMEOUT_S: Final = 20.0
SILENCE_S: Final = 60.0  # a server that has nothing to say pings thrice a minute
STREAM_CREDIT: Final = 16
LOOK_S: Final = 0.001
_RECEIVE_BYTES: Final = 256 * 1024


def connect(
    address: Address | str,
    security: Security,
    *,
    name: str = "",
    timeout: float = CONNECT_TIMEOUT_S,
    meanwhile: Callable[[], object] | None = None,
) -> BlockingPeer:
    """Connect and authenticate. PeerError when nobody is there or it is not who it should be, TimedOut.

    `meanwhile` is called while the other side makes up its greeting.
    """
    where = Address.parse(address) if isinstance(address, str) else address
    deadline = time.monotonic() + timeout
    sock: _socket.socket | None = None
    try:
        sock, link = _open(where, security, timeout)
        connection = ClientConnection(security.client(link), wanted=name or where.sock, watches=False)
        peer = BlockingPeer(connection, sock, link)
        peer.greet()
        if meanwhile is not None:
            meanwhile()
        peer.shake_hands(deadline)
    except BaseException as error:
        if sock is not None:
            sock.close()
        if isinstance(error, TimeoutError):
            raise TimedOut(f"no connection to {where} within {timeout:g} s") from None
        if isinstance(error, OSError):
            raise PeerError(f"cannot connect to {where}: {error.strerror or error}") from error
        raise
    return peer


class BlockingPeer(Known):
    """One connection, for one thread of one process: in a child that was forked it is lost, and its parent keeps it."""

    def __init__(self, connection: ClientConnection, sock: _socket.socket, link: Link) -> None:
        self.link = link
        self._process = os.getpid()
        self.who = Who(identity="unauthenticated@unmapped", method="NONE")
        self.me = ""
        self.server_software = ""
        self._connection = connection
        self._socket = sock
        self._answers: dict[int, events.Event] = {}
        self._items: dict[int, list[events.Event]] = {}
        self._error: PeerError | None = None
        self._bulk: deque[events.Bulk | events.BulkEnded | events.BulkFailed] = deque()

    def __enter__(self) -> BlockingPeer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, request: Request[R], *, timeout: float | None = CALL_TIMEOUT_S) -> R:
        """The answer. RemoteError when the other side says no, TimedOut, ConnectionLost."""
        number = self._say(lambda: self._connection.call(request.tag, encode(request)))
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            # Answers to other calls that come meanwhile are kept for whoever reads on.
            while number not in self._answers:
                self._receive(deadline)
        except TimeoutError:
            self._say(lambda: self._connection.cancel(number))
            raise TimedOut(f"no answer to {request.tag} from {self.link.label} within {timeout:g} s") from None
        event = self._answers.pop(number)
        if isinstance(event, events.Failed):
            raise RemoteError(event.message, code=event.code)
        assert isinstance(event, events.Replied)
        answer: R = decode_answer(type(request), event.body)
        return answer

    def stream(
        self,
        request: StreamRequest[item_T],
        *,
        credit: int = STREAM_CREDIT,
        silence: float = SILENCE_S,
        deadline: float | None = None,
    ) -> Iterator[item_T]:
        """The items as they come; TimedOut at `deadline`, a time of the monotonic clock.

        A server that says nothing at all for `silence` seconds is given up.
        """
        number = self._say(lambda: self._connection.stream(request.tag, encode(request), credit))
        return self._iterate(number, type(request), max(1, credit // 2), silence, deadline)

    def _iterate(
        self, number: int, request: type[Message], batch: int, silence: float, deadline: float | None
    ) -> Iterator[Any]:
        waiting = self._items[number] = []
        taken = 0
        try:
            while True:
                while not waiting:
                    self._receive_item(request.tag, silence, deadline)
                came, waiting[:] = list(waiting), []
                for event in came:
                    if isinstance(event, events.Failed):
                        raise RemoteError(event.message, code=event.code)
                    if isinstance(event, events.Ended):
                        return
                    assert isinstance(event, events.Item)
                    taken += 1
                    if taken >= batch:
                        more, taken = taken, 0
                        self._say(lambda more=more: self._connection.credit(number, more))  # type: ignore[misc]  # mypy cannot infer it
                    yield decode_answer(request, event.body)
        finally:
            self._items.pop(number, None)
            if self._error is None and not self._connection.is_closed:
                try:
                    self._say(lambda: self._connection.cancel(number))
                except ConnectionLost:
                    pass  # nobody is left who could be told

    def _receive_item(self, tag: str, silence: float, deadline: float | None) -> None:
        given_up = time.monotonic() + silence
        try:
            self._receive(given_up if deadline is None else min(deadline, given_up))
        except TimeoutError:
            if deadline is not None and deadline < given_up:
                raise TimedOut(f"{tag} of {self.link.label} has not ended in time") from None
            raise self._lose(f"silent for {silence:g} s") from None

    def notify(self, message: Message) -> None:
        """Say something that needs no answer."""
        self._say(lambda: self._connection.notify(message.tag, encode(message)))

    # ---- bulk bytes (see protocol.files.blocking_files)

    def send_bulk(self, data: bytes) -> None:
        """Raw bytes, as one frame."""
        self._say(lambda: self._connection.bulk(data))

    def end_bulk(self, size: int, crc: int) -> None:
        """The file is complete."""
        self._say(lambda: self._connection.bulk_end(size, crc))

    def fail_bulk(self, message: str) -> None:
        """The file cannot be sent to its end."""
        self._say(lambda: self._connection.bulk_fail(message))

    def next_bulk(self, silence: float = SILENCE_S) -> events.Bulk | events.BulkEnded | events.BulkFailed:
        """The next piece of a file. A server that says nothing at all for `silence` seconds is given up."""
        while not self._bulk:
            try:
                self._receive(time.monotonic() + silence)
            except TimeoutError:
                raise self._lose(f"silent for {silence:g} s") from None
        return self._bulk.popleft()

    # ---- its end

    def is_open(self) -> bool:
        """Whether the server has not left, as far as is known here; takes in what it has said meanwhile."""
        try:
            while self._has_something():
                self._receive(time.monotonic() + LOOK_S)
        except TimeoutError:
            pass
        except PeerError:
            return False
        return True

    def _has_something(self) -> bool:
        from select import POLLIN, poll

        self._check()
        look = poll()
        look.register(self._socket.fileno(), POLLIN)
        return bool(look.poll(0))

    def _check(self) -> None:
        if self._error is None and os.getpid() != self._process:
            self._lose("it belongs to the process that forked this one")
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Say goodbye and close."""
        if self._error is None and os.getpid() == self._process and not self._connection.is_closed:
            try:
                self._connection.bye()
                # A farewell is worth a second at most.
                self._socket.settimeout(1.0)
                self._send_all()
            except OSError:
                pass
        self._error = self._error or ConnectionLost(f"the connection to {self.link.label} is closed")
        self._socket.close()

    def greet(self) -> None:
        """Say the first word of a connection, which is ours."""
        self._flush()

    def shake_hands(self, deadline: float) -> None:
        """Authenticate."""
        while not self.me:
            try:
                self._receive(deadline)
            except ConnectionLost as error:
                raise PeerError(str(error)) from None
        self.server_software = self._connection.peer_software

    def _say(self, put: Callable[[], Any]) -> Any:
        self._check()
        result = put()
        self._flush()
        return result

    def _flush(self) -> None:
        if not self._connection.pending_bytes:
            return
        try:
            self._socket.settimeout(SILENCE_S)
            self._send_all()
        except OSError as error:
            raise self._lose(error.strerror or str(error)) from error

    def _send_all(self) -> None:
        while self._connection.pending_bytes:
            self._socket.sendall(self._connection.take())

    def _receive(self, deadline: float | None) -> None:
        """Take in what comes next; TimeoutError at the deadline."""
        self._check()
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._lose(error.strerror or str(error)) from error
        if not data:
            raise self._lose("the other side hung up")
        try:
            came = self._connection.receive(data)
        except PeerError as error:
            self._error = error
            self._socket.close()
            raise
        for event in came:
            self._take(event)
        self._flush()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.Opened(who, me):
                self.who, self.me = who, me or "?"
            case events.Replied(number) | events.Failed(number) | events.Item(number) | events.Ended(number):
                if number in self._items:
                    self._items[number].append(event)
                else:
                    self._answers[number] = event
            case events.Bulk() | events.BulkEnded() | events.BulkFailed():
                self._bulk.append(event)
            case events.Called(number, tag):
                self._connection.fail(number, "unknown_request", f"a tool does not answer {tag[:80]}")
            case events.Streamed(number, tag):
                self._connection.fail(number, "unknown_request", f"a tool does not answer {tag[:80]}")
            case events.Closing(reason):
                raise self._lose(reason or "closed by the other side")

    def _lose(self, why: str) -> PeerError:
        self._error = ConnectionLost(f"the connection to {self.link.label} is lost: {why}")
        self._socket.close()
        return self._error


def _open(address: Address, security: Security, timeout: float) -> tuple[_socket.socket, Link]:
    if address.is_unix:
        return _open_unix(address, timeout)
    import socket

    raw = socket.create_connection((address.host, address.port), timeout=timeout)
    try:
        return _secure(raw, address, security)
    except BaseException:
        raw.close()
        raise


def _open_unix(address: Address, timeout: float) -> tuple[_socket.socket, Link]:
    # The socket module adds nothing that is used here, and takes 3 ms to import.
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        with unix_socket.reachable(address.path) as path:
            sock.connect(path)
        credentials = unix_socket.peer_credentials(sock)
    except BaseException:
        sock.close()
        raise
    return sock, unix_socket.server_link(address.path, credentials)


def _secure(raw: socket.socket, address: Address, security: Security) -> tuple[_socket.socket, Link]:
    import ssl

    from protocol.security.tls_context import check_server, reason, server_link
    from protocol.security.x509 import read_certificate

    raw.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    if address.sock:
        from protocol.network.shared_port import preface

        raw.sendall(preface(address.sock))
    context = security.tls_client()
    try:
        secured = context.wrap_socket(raw, server_hostname=address.server_name)
    except ssl.SSLError as error:
        raise PeerError(f"no TLS with {address}: {reason(error)}") from None
    try:
        der = secured.getpeercert(binary_form=True)
        shown = context.others.placed(read_certificate(secured.getpeercert() or {}), der)
        certificate = check_server(shown, address, security)
    except BaseException:
        secured.close()  # the descriptor is its own now
        raise
    return secured, server_link(address, security, certificate, der)
