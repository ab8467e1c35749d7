"""A connection that a claim's jobs use one after another: to the schedd, and to the user's file agent.

A handshake costs both sides more than a short job's messages. The connection is made when it is needed, stays when a
job is over, and is made anew when it was lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from protocol.network.channel import Network
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service
from protocol.security import needs
from protocol.security.authorize import Level
from protocol.security.credentials import Security


class SharedConnection:
    """The connection, while there is one; its tasks live in `nursery`, beyond any activation.

    `service` is what the other side may ask: whoever is at the address that came with the claim.
    """

    def __init__(
        self, nursery: trio.Nursery, security: Security, network: Network, service: Service | None = None
    ) -> None:
        self._nursery, self._security, self._network = nursery, security, network
        self._service = service or Service("starter", needs.STARTER_TO_AGENT)
        self._peer: Peer | None = None
        self._for = ("", "")
        self._opening = trio.Lock()

    async def peer(self, address: str, ticket: str) -> Peer:
        """The connection to this address with this ticket, made if there is none; PeerError when it cannot be."""
        if self._peer is not None and self._serves(self._peer, address, ticket):
            return self._peer
        async with self._opening:
            peer, self._peer = self._peer, None
            if peer is None or not self._serves(peer, address, ticket):
                if peer is not None:
                    peer.abort("another is needed")
                peer = await endpoints.open_peer(
                    self._nursery,
                    address,
                    security=self._security.with_ticket(ticket),
                    network=self._network,
                    service=self._service,
                )
                peer.grant(Level.READ)
            self._peer, self._for = peer, (address, ticket)
            return peer

    def drop(self, reason: str) -> None:
        """End the connection, if there is one."""
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.abort(reason)

    def _serves(self, peer: Peer, address: str, ticket: str) -> bool:
        return not peer.closed.is_set() and self._for == (address, ticket)

    @asynccontextmanager
    async def held(self, address: str, ticket: str) -> AsyncGenerator[Peer, None]:
        """The connection for what must be finished: when the block is not, nobody can use it any more."""
        peer = await self.peer(address, ticket)
        try:
            yield peer
        except BaseException:
            peer.abort("left in the middle")
            raise
