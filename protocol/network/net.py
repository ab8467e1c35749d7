"""The real network: unix sockets, with the kernel's word on the peer's account, and TCP, which is always TLS 1.3, with
the shared port's preface before it where the address names a daemon.
"""

from __future__ import annotations

import socket

import trio

from pool.base.errors import PeerError
from protocol.network import tls, unix_socket
from protocol.network.admission import Admission
from protocol.network.channel import Channel, Listener
from protocol.network.listening import BACKLOG, TlsListener, UnixListener, keep_alive, open_port
from protocol.network.port_server import SharedListener, share
from protocol.network.shared_port import preface
from protocol.network.unix_stream import UnixStream
from protocol.security.credentials import Security
from protocol.wire.address import Address
from protocol.wire.message import replace


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
        stream = UnixStream(socket.socket(fileno=raw.detach()))
        return Channel(stream, unix_socket.server_link(address.path, credentials))

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
        return SharedListener(run, address)

    async def share_port(
        self, address: Address, run: str, *, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The master's side of the shared port."""
        sock = await open_port(address, self._backlog)
        with sock:
            task_status.started(replace(address, port=sock.getsockname()[1]))
            await share(sock, run, self._admission or Admission())


def _cause(error: BaseException) -> str:
    """The system's own words, which trio wraps when several addresses were tried."""
    inner = error.__cause__ or error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner) or type(inner).__name__
