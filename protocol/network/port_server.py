"""The host's one TCP port: the master reads whom a connection is for, and passes its descriptor to that daemon.

The daemon's end is a datagram socket with mode 0600 in the directory RUN, so that only the pool's account can hand it
connections. What a stranger can cost is bounded: a preface has a deadline, and of each address only so many are awaited
at a time.
"""

from __future__ import annotations

import array
import errno
import logging
import os
import socket
from typing import Final

import trio

from pool.base.errors import PeerError
from protocol.network import shared_port, turns, unix_socket
from protocol.network.admission import Admission
from protocol.network.channel import Incoming
from protocol.network.listening import Arrivals, closed_or, peer_host, tls_incoming, wait_for_room
from protocol.wire.address import Address

PREFACE_S: Final = 5.0
PASS_S: Final = 5.0
_NO_NAME: Final = b"-"

log = logging.getLogger("protocol.network.shared_port")


async def share(sock: socket.socket, run: str, admission: Admission, *, preface_s: float = PREFACE_S) -> None:
    """Pass each connection to the daemon that it asks for, until cancelled."""
    arrivals = Arrivals(sock)
    async with trio.open_nursery() as nursery:
        while True:
            try:
                client = await arrivals.next()
            except trio.ClosedResourceError:
                return
            except OSError as error:
                await wait_for_room(admission, "the shared port", error)
                continue
            nursery.start_soon(_welcome, client, run, admission, preface_s)


async def _welcome(client: socket.socket, run: str, admission: Admission, preface_s: float) -> None:
    """One connection, until it is passed on or dropped."""
    host, label = peer_host(client)
    scope = trio.CancelScope()
    with client, scope:
        place = admission.enter(host, lambda _: scope.cancel())
        if place is None:
            admission.refusals.say(host, f"connection from {label} dropped: there are too many")
            return
        try:
            client.setblocking(False)
            await _pass_on(trio.socket.from_stdlib_socket(client), run, admission, preface_s, host)
        except trio.TooSlowError:
            why = f"no preface within {preface_s:g} s, or the daemon does not take it"
            admission.refusals.say(host, f"connection from {label} dropped: {why}")
        except (PeerError, OSError) as error:
            admission.refusals.say(host, f"connection from {label} dropped: {error}")
        finally:
            admission.leave(place)


async def _pass_on(client: trio.socket.SocketType, run: str, admission: Admission, preface_s: float, host: str) -> None:
    with trio.move_on_after(min(admission.bounds.first_byte_s, preface_s)) as waited:
        await trio.lowlevel.wait_readable(client)
    if waited.cancelled_caught:
        raise PeerError("nothing was said")
    await turns.of_loop().enter_stranger(host)
    with trio.fail_after(preface_s):
        name, named = await _read_name(client)
    with trio.fail_after(PASS_S):
        await _hand_over(client, run, name, named)


async def _read_name(client: trio.socket.SocketType) -> tuple[str, bool]:
    """The daemon asked for, and whether it was named; nothing beyond the preface is taken from the socket."""
    # Looked at, and left for the daemon: TLS begins with this byte.
    first = await client.recv(1, socket.MSG_PEEK)
    if first and first[0] == shared_port.TLS_FIRST_BYTE:
        return shared_port.DEFAULT_DAEMON, False
    data = b""
    while len(data) < shared_port.PREFACE_BYTES:
        more = await client.recv(shared_port.PREFACE_BYTES - len(data))
        data += more
        if not more or not shared_port.begins_well(data):
            raise PeerError("it does not begin with the shared port's preface")
    return shared_port.read_preface(data), True


async def _hand_over(client: trio.socket.SocketType, run: str, name: str, named: bool) -> None:
    path = shared_port.endpoint(run, name)
    message = name.encode() if named else _NO_NAME
    descriptors = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [client.fileno()]))]
    sender = trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender:
        try:
            with unix_socket.reachable(path) as short:
                await sender.sendmsg([message], descriptors, 0, short)
        except (FileNotFoundError, ConnectionRefusedError):
            raise PeerError(f"no daemon {name!r} on this host") from None


class SharedListener:
    """A daemon's end of the shared port: yields the connections that were passed to it."""

    def __init__(self, run: str, address: Address) -> None:
        self.address = address
        self._path = shared_port.endpoint(run, address.sock)
        raw = unix_socket.bind_datagram(self._path)
        raw.setblocking(False)
        self._socket = trio.socket.from_stdlib_socket(raw)

    async def accept(self) -> Incoming:
        """The next connection."""
        while True:
            try:
                message, ancillary, flags, _ = await self._socket.recvmsg(128, socket.CMSG_SPACE(4 * 4))
            except OSError as error:
                raise closed_or(error, self._socket) from None
            descriptors = array.array("i")
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
            # One connection is one descriptor; whatever else came along would stay open for ever.
            for extra in descriptors[1:]:
                os.close(extra)
            if descriptors:
                sock = socket.socket(fileno=descriptors[0])
                return tls_incoming(sock, "" if message == _NO_NAME else message.decode("ascii", "replace"))
            if flags & socket.MSG_CTRUNC:  # the kernel had no descriptor for it, and has closed the connection
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            log.warning("a message without a connection at %s", self._path)

    async def aclose(self) -> None:
        """Take no more connections."""
        self._socket.close()
        try:
            os.unlink(self._path)
        except OSError:
            pass
        await trio.lowlevel.checkpoint()
