"""TICKET: a secret made for one purpose and handed to one process, such as a starter's way back to its shadow task.

The side that accepts tickets keeps them in a `TicketBook`, each with the identity and the levels that it stands for.
Only digests are kept, so neither a lookup's timing nor a dump of the book gives a ticket away.
"""

from __future__ import annotations

import os

from pool.errors import PeerError
from pool.hints import Iterable
from protocol.authorize import Level, implied
from protocol.message import Record


class Ticket(Record):
    """What a ticket stands for."""

    identity: str
    levels: frozenset[Level]
    label: str


class TicketBook:
    """The tickets that one process accepts."""

    def __init__(self) -> None:
        self._tickets: dict[bytes, Ticket] = {}
        self._uses_left: dict[bytes, int] = {}

    def add(
        self, secret: str, *, identity: str, levels: Iterable[Level], label: str = "", uses: int | None = None
    ) -> None:
        """Accept `secret` from now on; its bearer is `identity`, and `peer.ticket` is `label`.

        `uses` is the number of connections that it opens; None: any number.
        """
        digest = _digest(secret)
        self._tickets[digest] = Ticket(identity=identity, levels=implied(levels), label=label)
        self._uses_left.pop(digest, None)
        if uses is not None:
            self._uses_left[digest] = uses

    def issue(self, *, identity: str, levels: Iterable[Level], label: str = "", uses: int | None = None) -> str:
        """A new ticket's secret."""
        secret = new_secret()
        self.add(secret, identity=identity, levels=levels, label=label, uses=uses)
        return secret

    def revoke(self, secret: str) -> None:
        """Accept it no longer; connections that it opened stay."""
        self._drop(_digest(secret))

    def redeem(self, secret: object) -> Ticket:
        """The ticket that this secret opens; PeerError when there is none."""
        if not isinstance(secret, str) or not secret:
            raise PeerError("a ticket that is not a text")
        digest = _digest(secret)
        ticket = self._tickets.get(digest)
        if ticket is None:
            raise PeerError("the ticket is not valid here")
        left = self._uses_left.get(digest)
        if left is not None:
            self._uses_left[digest] = left - 1
            if left <= 1:
                self._drop(digest)
        return ticket

    def _drop(self, digest: bytes) -> None:
        self._tickets.pop(digest, None)
        self._uses_left.pop(digest, None)

    def __len__(self) -> int:
        return len(self._tickets)


def new_secret() -> str:
    """A secret that nobody can guess."""
    return os.urandom(24).hex()


def _digest(secret: str) -> bytes:
    import hashlib  # costs tools 4 ms, and they accept no tickets

    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
