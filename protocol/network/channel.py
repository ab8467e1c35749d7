"""The network as daemons see it: `connect` and `listen`, handed in so that a simulated one can take its place.

A `Network` gives channels: a byte stream, and what the transport knows about the other end.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import trio

from protocol.network.unix_stream import UnixStream
from protocol.security.credentials import Security
from protocol.security.identity import Link
from protocol.wire.address import Address


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


def pair_channel(sock: socket.socket, label: str = "pair") -> Channel:
    """One end of a socket pair between a process and its child: both know each other by birth."""
    return Channel(UnixStream(sock), Link(kind="pair", label=label, verified=True))
