"""The jobs' end of chirp: a socket on this machine's loopback, to which a job comes with the cookie of its sandbox.

For a job in a container it is on the engine's bridge. Whoever else finds the socket has no cookie, and gets no further.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import trio

from daemons.base.log import Log
from daemons.base.writing import write_all
from daemons.host.account import Account, acting_as
from daemons.starter.chirp.conversation import ChirpConversation
from daemons.starter.chirp.job import ChirpJob
from pool.execute.plan import CHIRP_CONFIG_NAME

CONNECTIONS_MAX: Final = 32
COOKIE_BYTES: Final = 20
LOOPBACK: Final = "127.0.0.1"
BRIDGES: Final = ("docker0", "podman0", "cni-podman0")
_SIOCGIFADDR: Final = 0x8915


class ChirpServer:
    """The socket; one job at a time has a cookie for it. It is opened for the first job that wants it."""

    def __init__(self, nursery: trio.Nursery, log: Log) -> None:
        self._nursery, self._log = nursery, log
        self._listeners: dict[str, trio.SocketListener] = {}
        self._cookie = ""
        self._taken = ""
        """The cookie of a job that another process has let in."""
        self._job: ChirpJob | None = None
        self._scopes: set[trio.CancelScope] = set()

    @property
    def is_busy(self) -> bool:
        """Whether the job has a connection."""
        return bool(self._scopes)

    def kept(self) -> tuple[str, dict[str, int]]:
        """The job's cookie, and the descriptors that listen, for a starter that takes the job over."""
        return self._cookie, {address: one.socket.fileno() for address, one in self._listeners.items()}

    def take_over(self, cookie: str, listeners: Mapping[str, int]) -> None:
        """The next job that is let in has this cookie already, and calls where these listen."""
        self._taken = cookie
        for address, fd in listeners.items():
            self._listen(address, socket.socket(fileno=fd))

    @contextmanager
    def serving(self, job: ChirpJob, sandbox: str, account: Account, address: str = LOOPBACK) -> Iterator[None]:
        """Let the job in while the block lasts, if it has any right here; a file in its sandbox tells it the way.

        `address` is where the job finds this machine.
        """
        if not job.rights:
            yield
            return
        taken, self._taken = self._taken, ""
        self._cookie = taken or secrets.token_hex(COOKIE_BYTES)
        self._job = job
        path = os.path.join(sandbox, CHIRP_CONFIG_NAME)
        try:
            host, port = self._listening(address)
            if not taken:
                _write(path, f"{host} {port} {self._cookie}\n", account)
            yield
        finally:
            self._cookie, self._job = "", None
            # A process of the job that is still about must not speak in the name of the next job.
            for scope in self._scopes:
                scope.cancel()

    def _listening(self, address: str) -> tuple[str, int]:
        listener = self._listeners.get(address)
        if listener is None:
            listening = socket.socket()
            listening.bind((address, 0))
            listening.listen(16)
            listener = self._listen(address, listening)
        host, port = listener.socket.getsockname()
        return host, port

    def _listen(self, address: str, listening: socket.socket) -> trio.SocketListener:
        listener = self._listeners[address] = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        self._nursery.start_soon(partial(trio.serve_listeners, self._serve, [listener]))
        return listener

    async def _serve(self, stream: trio.SocketStream) -> None:
        """One connection, while the job runs that was there when it came; it is closed in any case."""
        if self._job is None or len(self._scopes) >= CONNECTIONS_MAX:
            return
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await ChirpConversation(stream, self._job, self._cookie).run()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            except Exception as error:  # costs this connection, and neither the job nor its starter
                self._log.error("A chirp connection has failed", error)
            finally:
                self._scopes.discard(scope)


def _write(path: str, text: str, account: Account) -> None:
    with acting_as(account):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, text.encode())
        finally:
            os.close(fd)


def address_of(interface: str) -> str | None:
    """The IPv4 address of a network interface; None when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # struct ifreq: the name in 16 bytes, the last of them zero.
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def host_of(network: str, bridges: Sequence[str]) -> str:
    """Where a container with this DockerNetworkType finds what listens here: on the machine's own network at the
    loopback, else at the engine's bridge, which is the first of these that there is."""
    if network == "host":
        return LOOPBACK
    return next((address for bridge in bridges if (address := address_of(bridge)) is not None), LOOPBACK)
