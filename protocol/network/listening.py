"""Listening sockets of daemons: unix sockets, a TCP port with TLS, and the connections that arrive at them.

A connection arrives as an `Incoming`, which knows where it comes from and costs no more than its descriptor; whoever
admits it opens it then: over a unix socket with the kernel's word on the account (SO_PEERCRED, unix(7)), over TCP with
TLS 1.3 (RFC 8446). A process that has no descriptor left waits, and takes up listening when it has one again.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import deque
from typing import Final

import trio

from protocol.network import tls, unix_socket
from protocol.network.admission import Admission
from protocol.network.channel import Channel, Incoming
from protocol.network.unix_stream import UnixStream
from protocol.security.credentials import Security
from protocol.security.identity import Link
from protocol.wire.address import Address

BACKLOG: Final = 4096
"""How many connections wait to be accepted, as far as the kernel lets them."""
ACCEPTED_AT_ONCE_MAX: Final = 32
"""How many are accepted in one turn of the loop: a crowd at the door is looked through quickly, and others go on."""
NO_ROOM_PAUSE_S: Final = 0.05


async def open_port(address: Address, backlog: int = BACKLOG) -> socket.socket:
    """A TCP socket that listens; an empty host or `*` means every address of this host."""
    host = None if address.host in ("", "*") else address.host
    found = await trio.socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, where = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        # A daemon that starts again takes its port back at once, though connections of its last life are not quite
        # gone.
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


def peer_host(sock: socket.socket | trio.socket.SocketType) -> tuple[str, str]:
    """The other end's address, and that with its port; empty when it has already gone."""
    try:
        name = sock.getpeername()
    except OSError:
        return "", "a peer that is gone"
    # An IPv4 peer at a socket for both: lists of hosts have it without the prefix.
    host = str(name[0]).removeprefix("::ffff:")
    return host, f"<{host}:{name[1]}>"


def keep_alive(sock: trio.socket.SocketType) -> None:
    """Let the kernel notice a host that vanished while nobody speaks, and send small messages at once."""
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        # A host without power says nothing: after two minutes the kernel tells.
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
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
