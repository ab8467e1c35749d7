"""TICKET: a secret made for one purpose and handed to one process, such as a starter's way back to its shadow task.

The side that accepts tickets keeps them in a `TicketBook`, each with the identity and the levels that it stands for.
Only digests are kept, so neither a lookup's timing nor a dump of the book gives a ticket away.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from pool.errors import PeerError
from protocol.authorize import Level, implied


@dataclass(slots=True)
class Ticket:
    """What a ticket stands for; `uses` counts the connections that it still opens (None: any number)."""

    identity: str
    levels: frozenset[Level]
    label: str
    uses: int | None


class TicketBook:
    """The tickets that one process accepts."""

    def __init__(self) -> None:
        self._tickets: dict[bytes, Ticket] = {}

    def add(
        self, secret: str, *, identity: str, levels: Iterable[Level], label: str = "", uses: int | None = None
    ) -> None:
        """Accept `secret` from now on; its bearer is `identity`, and `peer.ticket` is `label`."""
        self._tickets[_digest(secret)] = Ticket(identity, implied(levels), label, uses)

    def issue(self, *, identity: str, levels: Iterable[Level], label: str = "", uses: int | None = None) -> str:
        """A new ticket's secret."""
        secret = new_secret()
        self.add(secret, identity=identity, levels=levels, label=label, uses=uses)
        return secret

    def revoke(self, secret: str) -> None:
        """Accept it no longer; connections that it opened stay."""
        self._tickets.pop(_digest(secret), None)

    def redeem(self, secret: object) -> Ticket:
        """The ticket that this secret opens; PeerError when there is none."""
        if not isinstance(secret, str) or not secret:
            raise PeerError("a ticket that is not a text")
        digest = _digest(secret)
        ticket = self._tickets.get(digest)
        if ticket is None:
            raise PeerError("the ticket is not valid here")
        if ticket.uses is not None:
            ticket.uses -= 1
            if ticket.uses <= 0:
                del self._tickets[digest]
        return ticket

    def __len__(self) -> int:
        return len(self._tickets)


def new_secret() -> str:
    """A secret that nobody can guess."""
    return os.urandom(24).hex()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
