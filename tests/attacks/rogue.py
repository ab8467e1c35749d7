"""A host of the pool that an attacker has taken over: it speaks TLS with its own certificate, frame by frame."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgpack

from protocol.network.shared_port import PREFACE_BYTES, preface
from protocol.rpc.envelope import EnvelopeKind
from protocol.rpc.handshake import VERSIONS
from protocol.wire.address import Address
from protocol.wire.frame import HEADER_BYTES, FrameReader
from tests.whole.hosts import Host
from tests.whole.real_pool import DEADLINE_S

_FRAME_BYTES_MAX: Final = 1024 * 1024


class Talk:
    """One connection, on which anything at all can be said."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._frames = sock, FrameReader(_FRAME_BYTES_MAX)

    def say(self, *message: object) -> None:
        """Send one frame."""
        payload = msgpack.packb(message)
        self._socket.sendall(len(payload).to_bytes(HEADER_BYTES, "big") + payload)

    def hear(self) -> list[Any]:
        """The next frame; empty when the other side has hung up."""
        while (payload := self._frames.next()) is None:
            data = self._socket.recv(65536)
            if not data:
                return []
            self._frames.feed(data)
        message: list[Any] = msgpack.unpackb(payload)
        return message

    def hello(self, wanted: str) -> dict[str, Any]:
        """Begin as a client; what the server says of itself."""
        self.say(EnvelopeKind.HELLO, {"versions": list(VERSIONS), "wanted": wanted, "software": "", "watches": False})
        kind, said = self.hear()
        assert kind == EnvelopeKind.WELCOME
        return dict(said)


@contextmanager
def talking_to(address: Address) -> Iterator[Talk]:
    """A connection to a daemon of the pool, by somebody who shows no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((address.host, address.port), timeout=DEADLINE_S) as raw:
        raw.sendall(preface(address.sock))
        with context.wrap_socket(raw) as sock:
            yield Talk(sock)


class Trap:
    """Where a taken host listens, and what it does with the first who comes."""

    def __init__(self, host: Host, trick: Callable[[Talk], None]) -> None:
        self._trick = trick
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        keys = host.directory / "keys"
        self._context.load_cert_chain(keys / "host.pem", keys / "host.key")
        self._socket = socket.create_server((host.address, 0))
        self._socket.settimeout(DEADLINE_S)
        self._alias, self._thread = host.name, threading.Thread(target=self._serve_one)
        self.heard: list[Any] = []
        self.failure: BaseException | None = None

    def address(self, daemon: str) -> Address:
        """Where the victim connects, and whom it believes to meet there."""
        host, port = self._socket.getsockname()
        return Address.tcp(host, port, sock=daemon, alias=self._alias)

    def _serve_one(self) -> None:
        try:
            raw, _ = self._socket.accept()
            with raw:
                raw.settimeout(DEADLINE_S)
                raw.recv(PREFACE_BYTES, socket.MSG_WAITALL)
                with self._context.wrap_socket(raw, server_side=True) as sock:
                    self._trick(Talk(sock))
        except BaseException as error:
            self.failure = error

    def __enter__(self) -> Trap:
        self._thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._thread.join(DEADLINE_S)
        self._socket.close()
