"""TICKET: a secret made for one purpose and handed to one process, such as a starter's way back to its shadow task.

The side that accepts tickets keeps them in a `TicketBook`, each with the identity and the levels that it stands for.
Only digests are kept, in memory and on disk, so that neither a lookup's timing nor a dump nor a file gives one away.
A ticket is good for its bearers alone: over a unix socket for certain accounts, over TLS for a host with a duty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from pool.base.errors import PeerError
from protocol.security.authorize import Level, implied
from protocol.security.identity import Link
from protocol.wire.message import Record

ANY_PEER = "any"


class Bearer(Record):
    """Who may show a ticket: these accounts over a unix socket, and over TLS hosts whose certificate has the duty.

    `duty` ANY_PEER: whoever comes over TLS, such as a user's tool; "": nobody does. `host`: of these, this one; of
    another pool where `pool` names that.
    """

    uids: list[int] = []
    duty: str = ""
    host: str = ""
    pool: str = ""

    def is_at(self, link: Link) -> bool:
        """Whether the other end of this channel is one."""
        if link.credentials is not None:
            return link.credentials.uid in self.uids
        if self.duty == ANY_PEER:
            return True
        certificate = link.certificate
        if certificate is None or self.duty not in certificate.duties or certificate.pool != self.pool:
            return False
        return not self.host or self.host.casefold() == certificate.host.casefold()


class Ticket(Record):
    """What a ticket stands for, and for whom."""

    digest: str
    identity: str
    levels: frozenset[Level]
    label: str
    bearer: Bearer


class TicketBook:
    """The tickets that one process accepts, by their digests."""

    def __init__(self) -> None:
        self._tickets: dict[str, Ticket] = {}
        self._watchers: dict[str, tuple[Callable[[], None], ...]] = {}
        """Nearly always one each; a set takes four times the memory."""

    def add(self, digest: str, *, identity: str, levels: Iterable[Level], bearer: Bearer, label: str = "") -> None:
        """Accept the ticket with this digest from now on: its bearer is `identity`, and `peer.ticket` is `label`."""
        self._tickets[digest] = Ticket(
            digest=digest, identity=identity, levels=implied(levels), label=label, bearer=bearer
        )
        self._tell(digest)

    def revoke(self, digest: str) -> None:
        """Accept it no longer; connections that it opened stay, but may do nothing unless it is added again."""
        if self._tickets.pop(digest, None) is not None:
            self._tell(digest)

    def held(self, digest: str, link: Link) -> Ticket | None:
        """The ticket with this digest, while it is accepted and the other end of this channel is its bearer."""
        ticket = self._tickets.get(digest)
        return ticket if ticket is not None and ticket.bearer.is_at(link) else None

    def watch(self, digest: str, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the ticket is revoked or added, until `unwatch`."""
        self._watchers[digest] = (*self._watchers.get(digest, ()), callback)

    def unwatch(self, digest: str, callback: Callable[[], None]) -> None:
        """Call it no more; again is fine."""
        left = tuple([other for other in self._watchers.get(digest, ()) if other != callback])
        if left:
            self._watchers[digest] = left
        else:
            self._watchers.pop(digest, None)

    def _tell(self, digest: str) -> None:
        for callback in self._watchers.get(digest, ()):
            callback()

    def redeem(self, secret: object, link: Link) -> Ticket:
        """The ticket that this secret opens for the other end of this channel; PeerError when there is none."""
        if not isinstance(secret, str) or not secret:
            raise PeerError("a ticket that is not a text")
        ticket = self.held(digest_of(secret), link)
        if ticket is None:
            raise PeerError("the ticket is not valid here")
        return ticket

    def __len__(self) -> int:
        return len(self._tickets)


def new_secret() -> str:
    """A secret that nobody can guess."""
    return os.urandom(24).hex()


def digest_of(secret: str) -> str:
    """What is kept of a secret: enough to know it again."""
    import hashlib  # costs tools 4 ms, and they accept no tickets

    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
