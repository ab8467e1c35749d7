"""The network as daemons see it: `connect` and `listen`, handed in so that a simulated one can take its place.

A `Network` gives channels: a byte stream, and what the transport knows about the other end. `RealNetwork` speaks unix
sockets (with the kernel's word on the peer's account) and TCP, which is always TLS 1.3, with the shared port's preface
before it where the address names a daemon.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from pool.errors import PeerError
from protocol import tls, unix_socket
from protocol.address import Address
from protocol.admission import Admission
from protocol.identity import Link
from protocol.message import replace
from protocol.security import Security
from protocol.shared_port import preface
from protocol.unix_stream import UnixStream

BACKLOG: Final = 4096
"""How many connections wait to be accepted, as far as the kernel lets them."""
ACCEPTED_AT_ONCE_MAX: Final = 32
"""How many are accepted in one turn of the loop: a crowd at the door is looked through quickly, and others go on."""


NO_ROOM_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Channel:
    """A stream, and what is known about its other end."""

    stream: trio.abc.Stream
    link: Link


@dataclass(frozen=True, slots=True)
class Incoming:
    """A connection that was just accepted. `open` shakes hands as far as the transport needs, and may take long.

    `origin` is whose it is as far as is known without a word: an address, or the account `uid`. `spoken` waits for the
    first byte.
    """

    label: str
    open: Callable[[Security], Awaitable[Channel]]
    close: Callable[[], None]
    spoken: Callable[[], Awaitable[None]]
    origin: str
    uid: int | None = None


class Listener(Protocol):
    """Somewhere connections arrive."""

    @property
    def address(self) -> Address:
        """Where it can be reached, with the port that it really got."""

    async def accept(self) -> Incoming:
        """The next connection. OSError when the system has no room for one more; ClosedResourceError at the end."""

    async def aclose(self) -> None:
        """Stop listening."""


class Network(Protocol):
    """How processes reach each other."""

    async def connect(self, address: Address, security: Security) -> Channel:
        """A channel to whoever listens there; PeerError when nobody can be reached."""

    async def listen(self, address: Address) -> Listener:
        """Listen at a path or at a host and port (0: any free one); OSError when that cannot be."""

    async def listen_shared(self, run: str, address: Address) -> Listener:
        """Take the connections to `address.sock` that this host's shared port passes on through the directory `run`."""

    async def share_port(
        self, address: Address, run: str, *, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Be the host's shared port until cancelled; reports the address with the port that it really got."""


class RealNetwork:
    """Unix sockets and TLS over TCP. `admission` is this process's, for its shared port."""

    def __init__(self, backlog: int = BACKLOG, admission: Admission | None = None) -> None:
        self._backlog = backlog
        self._admission = admission

    async def connect(self, address: Address, security: Security) -> Channel:
        """A channel to a daemon's socket, or through TLS to its host's port."""
        try:
            if address.is_unix:
                return await self._connect_unix(address)
            return await self._connect_tcp(address, security)
        except (OSError, trio.BrokenResourceError) as error:
            raise PeerError(f"cannot connect to {address}: {_cause(error)}") from error

    async def _connect_unix(self, address: Address) -> Channel:
        raw = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with unix_socket.reachable(address.path) as path:
                await raw.connect(path)
            credentials = unix_socket.peer_credentials(raw)
        except BaseException:
            raw.close()
            raise
        verified = unix_socket.is_trusted(credentials.uid, address.path)
        stream = UnixStream(socket.socket(fileno=raw.detach()))
        link = Link(
            kind="unix",
            label=address.path,
            credentials=credentials,
            verified=verified,
            binding=unix_socket.binding(os.geteuid()),
        )
        return Channel(stream, link)

    async def _connect_tcp(self, address: Address, security: Security) -> Channel:
        stream = await trio.open_tcp_stream(address.host, address.port)
        try:
            keep_alive(stream.socket)
            if address.sock:
                await stream.send_all(preface(address.sock))
            return await tls.connect(stream, security, address)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise

    async def listen(self, address: Address) -> Listener:
        """Listen at a unix path (replacing a stale socket) or a TCP port."""
        if address.is_unix:
            raw = unix_socket.bind(address.path, backlog=self._backlog)
            raw.setblocking(False)
            return UnixListener(address, raw)
        sock = await open_port(address, self._backlog)
        return TlsListener(replace(address, port=sock.getsockname()[1]), sock)

    async def listen_shared(self, run: str, address: Address) -> Listener:
        """The daemon's side of the shared port."""
        from protocol.port_server import SharedListener

        return SharedListener(run, address)

    async def share_port(
        self, address: Address, run: str, *, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The master's side of the shared port."""
        from protocol.port_server import share

        sock = await open_port(address, self._backlog)
        with sock:
            task_status.started(replace(address, port=sock.getsockname()[1]))
            await share(sock, run, self._admission or Admission())


async def open_port(address: Address, backlog: int = BACKLOG) -> socket.socket:
    """A TCP socket that listens; an empty host or `*` means every address of this host."""
    host = None if address.host in ("", "*") else address.host
    found = await trio.socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, where = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


class Arrivals:
    """The connections of a listening socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._came: deque[socket.socket] = deque()

    async def next(self) -> socket.socket:
        """The next one. OSError when the system has no room for one more; ClosedResourceError at the end."""
        while not self._came:
            if self._socket.fileno() < 0:
                raise trio.ClosedResourceError
            await trio.lowlevel.wait_readable(self._socket)
            self._take()
        return self._came.popleft()

    def _take(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            try:
                sock, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:
                if self._came:
                    return  # whatever it is, it is still there when these have been looked at
                raise
            self._came.append(sock)

    async def aclose(self) -> None:
        """Take no more."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        while self._came:
            self._came.popleft().close()
        await trio.lowlevel.checkpoint()


class UnixListener:
    """A unix socket."""

    def __init__(self, address: Address, sock: socket.socket) -> None:
        self.address = address
        self._arrivals = Arrivals(sock)

    async def accept(self) -> Incoming:
        """The next connection, with the account at its other end."""
        return unix_incoming(await self._arrivals.next(), self.address.path)

    async def aclose(self) -> None:
        """Stop listening and remove the socket's name."""
        try:
            os.unlink(self.address.path)
        except OSError:
            pass
        await self._arrivals.aclose()


class TlsListener:
    """A TCP port of one daemon's own."""

    def __init__(self, address: Address, sock: socket.socket) -> None:
        self.address = address
        self._arrivals = Arrivals(sock)

    async def accept(self) -> Incoming:
        """The next connection; its TLS handshake is part of `open`."""
        return tls_incoming(await self._arrivals.next())

    async def aclose(self) -> None:
        """Stop listening."""
        await self._arrivals.aclose()


def unix_incoming(sock: socket.socket, path: str) -> Incoming:
    """An accepted unix connection."""
    credentials = unix_socket.peer_credentials(sock)
    label = f"pid {credentials.pid} (uid {credentials.uid}) at {path}"

    async def spoken() -> None:
        try:
            sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)  # nearly always there already
        except BlockingIOError:
            await trio.lowlevel.wait_readable(sock)

    async def open_it(_security: Security) -> Channel:
        await trio.lowlevel.checkpoint()
        stream = UnixStream(socket.socket(fileno=sock.detach()))
        binding = unix_socket.binding(credentials.uid)
        link = Link(kind="unix", label=label, credentials=credentials, verified=True, binding=binding)
        return Channel(stream, link)

    return Incoming(label, open_it, sock.close, spoken, f"uid {credentials.uid}", credentials.uid)


def tls_incoming(sock: socket.socket, port_name: str = "") -> Incoming:
    """An accepted TCP connection; `port_name` is what a shared port's preface asked for."""
    sock.setblocking(False)
    host, label = peer_host(sock)

    async def spoken() -> None:
        await trio.lowlevel.wait_readable(sock)

    async def open_it(security: Security) -> Channel:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        keep_alive(stream.socket)
        return await tls.accept(stream, security, Link(kind="tls", label=label, host=host, port_name=port_name))

    return Incoming(label, open_it, sock.close, spoken, host)


def pair_channel(sock: socket.socket, label: str = "pair") -> Channel:
    """One end of a socket pair between a process and its child: both know each other by birth."""
    sock.setblocking(False)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    return Channel(stream, Link(kind="pair", label=label, verified=True))


def peer_host(sock: socket.socket | trio.socket.SocketType) -> tuple[str, str]:
    """The other end's address, and that with its port; empty when it has already gone."""
    try:
        name = sock.getpeername()
    except OSError:
        return "", "a peer that is gone"
    host = str(name[0]).removeprefix("::ffff:")
    return host, f"<{host}:{name[1]}>"


def keep_alive(sock: trio.socket.SocketType) -> None:
    """Let the kernel notice a host that vanished while nobody speaks, and send small messages at once."""
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    ):
        try:
            sock.setsockopt(level, option, value)
        except OSError:
            return  # not a TCP socket


async def wait_for_room(admission: Admission, where: str, error: OSError) -> None:
    """After an accept's OSError: another connection makes room, after a pause, so that the loop does not spin."""
    if error.errno == errno.ECONNABORTED:  # whoever it was has gone again
        await trio.lowlevel.checkpoint()
        return
    admission.refusals.say(where, f"cannot accept a connection at {where}: {error}", logging.ERROR)
    admission.make_room()
    await trio.sleep(NO_ROOM_PAUSE_S)


def closed_or(error: OSError, sock: trio.socket.SocketType) -> Exception:
    """What an accept's OSError means: that the listener was closed, or a lack that will pass."""
    return trio.ClosedResourceError() if sock.fileno() < 0 else error


def _cause(error: BaseException) -> str:
    """The system's own words, which trio wraps when several addresses were tried."""
    inner = error.__cause__ or error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner) or type(inner).__name__
