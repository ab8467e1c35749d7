"""Calls, streams and notices over trio: `connected` and `open_peer` on one side, `serve` on the other.

Whoever connects goes through the same steps, and each has its bound (`protocol.network.admission`): a place, or another
gives up its own; a first byte in time; TLS and the handshake in time; then a user's connection counts as that user's.
Whoever fails one costs a line of log, at a bounded rate, and nothing else. Users take turns on the event loop from the
handshake on (`protocol.network.turns`); the pool's own do not wait.

The protocol is this pool's own; what it has to do is what HTCondor's "Security Negotiation" (manual page
admin-manual/security) does. One task a `serve` watches over silence and revoked certificates, and one judges everybody
again when lists, tickets or keys have changed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import trio

import protocol.security.idtoken
import protocol.wire.kinds
from pool.base.errors import PeerError, PoolError
from protocol.network import turns
from protocol.network.admission import Admission, ConnectionBounds, ConnectionPlace
from protocol.network.channel import Channel, Incoming, Listener, Network
from protocol.network.listening import wait_for_room
from protocol.network.net import RealNetwork
from protocol.rpc import events, keeping, token_checks
from protocol.rpc.connection import Connection, ConnectionLimits
from protocol.rpc.deadlines import LongWait
from protocol.rpc.handshake import ClientConnection, ServerAuth, ServerConnection
from protocol.rpc.items import Items
from protocol.rpc.peer import Peer
from protocol.rpc.remote import ConnectionLost, RemoteError, TimedOut
from protocol.rpc.service import Service
from protocol.rpc.silence import SILENCE_S
from protocol.rpc.stint import Stint
from protocol.security.authorize import Level
from protocol.security.credentials import Security
from protocol.wire.address import Address

__all__ = [
    "ConnectionLost",
    "Items",
    "Peer",
    "RemoteError",
    "TimedOut",
    "connected",
    "open_pair",
    "open_peer",
    "serve",
    "single",
]

HANDSHAKE_S: Final = 20.0
JUDGED_AT_ONCE: Final = 50

log = logging.getLogger("protocol.rpc.endpoints")

# Tools import these when they need them. A process over trio has them from the start, since one that has dropped its
# privileges may no longer reach the files.
PRELOADED: Final = (protocol.security.idtoken, protocol.wire.kinds)


@asynccontextmanager
async def connected(
    address: Address | str,
    *,
    security: Security,
    network: Network | None = None,
    service: Service | None = None,
    name: str = "",
    timeout: float = HANDSHAKE_S,
    silence_s: float | None = SILENCE_S,
    limits: ConnectionLimits | None = None,
) -> AsyncGenerator[Peer, None]:
    """A connection for the time of the block."""
    # The parameters are those of `open_peer`, which callers and mypy have to see here as well.
    try:
        async with trio.open_nursery() as nursery:
            peer = await open_peer(
                nursery,
                address,
                security=security,
                network=network,
                service=service,
                name=name,
                timeout=timeout,
                silence_s=silence_s,
                limits=limits,
            )
            try:
                yield peer
            finally:
                await peer.aclose()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise single(group) from None


async def open_peer(
    nursery: trio.Nursery,
    address: Address | str,
    *,
    security: Security,
    network: Network | None = None,
    service: Service | None = None,
    name: str = "",
    timeout: float = HANDSHAKE_S,
    silence_s: float | None = SILENCE_S,
    limits: ConnectionLimits | None = None,
) -> Peer:
    """Connect and authenticate; the connection's tasks live in `nursery`.

    `name` is the daemon wanted (by default the address's `sock`); another that answers is refused. `service` answers
    what the other side asks on this connection.
    """
    where = Address.parse(address) if isinstance(address, str) else address
    channel: Channel | None = None
    try:
        with LongWait(timeout):
            channel = await (network or RealNetwork()).connect(where, security)
            connection = ClientConnection(security.client(channel.link), wanted=name or where.sock, limits=limits)
            return await _begin(nursery, connection, channel, security, service, silence_s)
        raise TimedOut(f"no connection to {where} within {timeout:g} s")
    except BaseException as error:
        await _close(channel)
        if isinstance(error, trio.BrokenResourceError):
            raise PeerError(f"the connection to {where} broke during the handshake") from error
        raise


async def open_pair(
    nursery: trio.Nursery,
    channel: Channel,
    *,
    parent: bool,
    security: Security,
    service: Service | None = None,
    silence_s: float | None = None,
    limits: ConnectionLimits | None = None,
) -> Peer:
    """Speak over a socket pair (`protocol.network.net.pair_channel`) that a parent shares with its child.

    Each knows the other by birth: its identity and levels are `pair_identity` and `pair_levels` of the settings.
    """
    try:
        with LongWait(HANDSHAKE_S):
            link = channel.link
            connection: Connection = (
                ServerConnection(security.server(link), limits=limits)
                if parent
                else ClientConnection(security.client(link), limits=limits)
            )
            return await _begin(nursery, connection, channel, security, service, silence_s)
        raise TimedOut(f"no word from the other end of the pair within {HANDSHAKE_S:g} s")
    except BaseException as error:
        await _close(channel)
        if isinstance(error, trio.BrokenResourceError):
            raise PeerError("the pair broke during the handshake") from error
        raise


async def _close(channel: Channel | None) -> None:
    """Close what came to nothing, also while this task is being cancelled: else its descriptor would be lost."""
    if channel is not None:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(channel.stream)


async def _begin(
    nursery: trio.Nursery,
    connection: Connection,
    channel: Channel,
    security: Security,
    service: Service | None,
    silence_s: float | None,
) -> Peer:
    peer = Peer(connection, channel, handlers=nursery, service=service or Service("", {}), silence_s=silence_s)
    early = await peer.shake_hands()
    forget = security.on_judgement(peer.judge_again)
    peer.on_close(lambda _peer: forget())
    nursery.start_soon(peer.run, early)
    if peer.silence_s is not None:
        keeping.keep(peer, security)
    return peer


@dataclass
class _Serving:
    """What all connections of one `serve` share."""

    service: Service
    security: Security
    nursery: trio.Nursery
    silence_s: float | None
    admission: Admission
    limits: ConnectionLimits | None
    peers: set[Peer]

    def is_ours(self, uid: int | None) -> bool:
        """Whether this account is root or the pool's owner."""
        return uid is not None and uid in (0, self.security.owner_uid)

    @property
    def bounds(self) -> ConnectionBounds:
        """How long whoever connects may take."""
        return self.admission.bounds


async def serve(
    service: Service,
    listeners: Sequence[Listener],
    *,
    security: Security,
    silence_s: float | None = SILENCE_S,
    admission: Admission | None = None,
    limits: ConnectionLimits | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer everybody who connects, until cancelled; the listeners are closed at the end.

    A peer that is slow, breaks the rules or cannot prove itself costs its connection and one line of log.
    """
    try:
        async with trio.open_nursery() as nursery:
            serving = _Serving(
                service=service,
                security=security,
                nursery=nursery,
                silence_s=silence_s,
                admission=admission or Admission(),
                limits=limits,
                peers=set(),
            )
            for listener in listeners:
                nursery.start_soon(_accept, serving, listener)
            nursery.start_soon(_keep_all, serving)
            nursery.start_soon(_heed_judgements, serving)
            task_status.started()
    finally:
        with trio.CancelScope(shield=True):
            for listener in listeners:
                await listener.aclose()


async def _accept(serving: _Serving, listener: Listener) -> None:
    while True:
        try:
            incoming = await listener.accept()
        except trio.ClosedResourceError:
            return
        except OSError as error:
            await wait_for_room(serving.admission, str(listener.address), error)
            continue
        admission, visit = serving.admission, _Visit(incoming)
        visit.place = admission.enter(incoming.origin, visit.drop, is_ours=serving.is_ours(incoming.uid))
        if visit.place is None:
            admission.refusals.say(incoming.origin, f"connection from {incoming.label} refused: there are too many")
            incoming.close()
            continue
        serving.nursery.start_soon(_welcome, serving, visit, name="connection")


class _Visit:
    """A connection from its arrival to its end."""

    __slots__ = ("_arrived", "peer", "place")

    def __init__(self, incoming: Incoming) -> None:
        self.place: ConnectionPlace | None = None
        self.peer: Peer | None = None
        self._arrived: tuple[Incoming, trio.CancelScope] | None = incoming, trio.CancelScope()
        """What it is until it has authenticated."""

    def drop(self, reason: str) -> None:
        """End it: others need its place."""
        if self.peer is not None:
            self.peer.abort(reason)
        elif self._arrived is not None:
            self._arrived[1].cancel()

    async def meet(self, serving: _Serving) -> list[events.Event]:
        """Shake hands; `peer` is set when that has come to something."""
        early: list[events.Event] = []
        assert self._arrived is not None
        incoming, scope = self._arrived
        with scope:
            self.peer, early = await _meet(serving, incoming)
        self._arrived = None
        return early


async def _welcome(serving: _Serving, visit: _Visit) -> None:
    """Authenticate one connection and serve it to its end."""
    admission, place = serving.admission, visit.place
    assert place is not None
    try:
        early = await visit.meet(serving)
        peer = visit.peer
        if peer is None:
            return
        # Until now it could be dropped at any time; from here on only when nothing is asked on it.
        place.is_idle = peer.is_idle
        if not admission.know(place, peer.identity, is_ours=_is_ours(peer)):
            admission.refusals.say(peer.identity, f"{peer} has too many connections, and is disconnected")
            await peer.refuse(f"{peer.identity} has too many connections")
            return
        serving.peers.add(peer)
        if peer.who.ticket_digest:
            serving.security.tickets.watch(peer.who.ticket_digest, peer.judge_again)
            peer.judge_again()  # the ticket may have been revoked during the handshake
        serving.service.greet(peer)
        await peer.run(early, None if place.is_ours else Stint(admission, place))
    finally:
        admission.leave(place)
        if visit.peer is not None:
            serving.peers.discard(visit.peer)
            serving.security.tickets.unwatch(visit.peer.who.ticket_digest, visit.peer.judge_again)


def _is_ours(peer: Peer) -> bool:
    """Whether this is the pool's own: a process of root, its owner or a host of it, or one with a ticket for a job."""
    return (peer.method == "SSL" and bool(peer.duties)) or peer.allows(Level.DAEMON) or bool(peer.ticket)


async def _meet(serving: _Serving, incoming: Incoming) -> tuple[Peer | None, list[events.Event]]:
    """Shake hands within the time allowed; None (and one line of log) when that comes to nothing."""
    channel: Channel | None = None
    handshake_s = serving.bounds.handshake_s
    try:
        await _await_turn(serving, incoming)
        with LongWait(handshake_s):
            channel = await incoming.open(serving.security)
            side = serving.security.server(channel.link)
            if token_checks.may_be_shown(side.methods()):
                await token_checks.load()
            peer = _peer_over(serving, channel, side)
            return peer, await peer.shake_hands()
        raise TimedOut(f"no handshake within {handshake_s:g} s")
    except (PoolError, OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        label = channel.link.label if channel else incoming.label
        serving.admission.refusals.say(incoming.origin, f"connection from {label} refused: {_reason(error)}")
    except BaseException:
        incoming.close()
        await _close(channel)
        raise
    await _close(channel)
    incoming.close()
    return None, []


async def _await_turn(serving: _Serving, incoming: Incoming) -> None:
    """Until the first byte has come, and it is this one's turn; the pool's own need not wait for theirs."""
    first_byte_s = serving.bounds.first_byte_s
    with LongWait(first_byte_s) as waited:
        await incoming.spoken()
    if waited.cancelled_caught:
        raise PeerError(f"nothing was said within {first_byte_s:g} s")
    if incoming.uid is None:
        await turns.of_loop().enter_stranger(incoming.origin)
    elif not serving.is_ours(incoming.uid):
        await turns.of_loop().enter(incoming.origin)


def _peer_over(serving: _Serving, channel: Channel, side: ServerAuth) -> Peer:
    connection = ServerConnection(
        side, name=serving.service.name, port_name=channel.link.port_name, limits=serving.limits
    )
    return Peer(
        connection,
        channel,
        handlers=serving.nursery,
        service=serving.service,
        silence_s=serving.silence_s,
        refusals=serving.admission.refusals,
    )


def _reason(error: BaseException) -> str:
    return str(error) or str(error.__cause__ or "") or type(error).__name__


async def _keep_all(serving: _Serving) -> None:
    """One task watches over the silence of all connections, and over certificates that are revoked meanwhile."""
    pause = (serving.silence_s or SILENCE_S) / 6
    while True:
        await trio.sleep(pause)
        now = trio.current_time()
        serving.security.heed_revocations()
        for peer in list(serving.peers):
            peer.look(now)
            peer.check_user(now, serving.bounds.idle_s)
        serving.admission.refusals.flush()


async def _heed_judgements(serving: _Serving) -> None:
    forget = serving.security.on_judgement(lambda: serving.nursery.start_soon(_judge_all, serving))
    try:
        await trio.sleep_forever()
    finally:
        forget()


async def _judge_all(serving: _Serving) -> None:
    """Judge all connections again, a few at a time, so that nobody waits for it."""
    # A copy: peers come and go while others have the loop.
    for number, peer in enumerate(list(serving.peers), 1):
        peer.judge_again()
        if number % JUDGED_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()


def single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only exception of a group, so that `except RemoteError` works around a `connected` block."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
