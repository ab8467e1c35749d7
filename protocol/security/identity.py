"""Who is at the other end: what a channel shows of its own, and who its user turned out to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.security.authorize import HOST_PREFIX, Level
from protocol.wire.message import Record

if TYPE_CHECKING:
    from protocol.security.idtoken import IdToken


class Certificate(Record):
    """What a verified certificate says: the host that it was made for, the names it may have, and its duties."""

    host: str
    names: tuple[str, ...] = ()
    duties: frozenset[str] = frozenset()
    trust_domain: str = ""
    serial: str = ""  # hexadecimal, without leading zeros
    der: bytes = b""  # the whole; only a server keeps it
    pool: str = ""  # another pool's trust domain, when that pool's CA made it (`protocol.security.other_pools`)

    @property
    def identity(self) -> str:
        """Who the host is: itself, and no account that all hosts share."""
        return f"{HOST_PREFIX}{self.host}@{self.trust_domain}"


class Credentials(Record):
    """The kernel's word on the process at the other end of a unix socket."""

    pid: int
    uid: int
    gid: int


class Greeting(Record):
    """What both sides have said before the client proves itself; a proof made over it is good for this handshake."""

    wanted: str = ""  # the daemon that the client asked for
    name: str = ""  # the daemon that answered
    nonce: bytes = b""  # the server's, made for this connection


class Link(Record):
    """What is known of a channel before anybody has spoken on it.

    `verified`: this side knows whom it is talking to, so that it may show a ticket. `binding` is what both ends know of
    this channel and nobody can have in common with two others: the server's certificate, or the client's account by the
    kernel's word. A proof made for one channel does not hold on another.
    """

    kind: str  # unix, tls, memory, pair
    label: str = ""  # for logs: the peer's address
    credentials: Credentials | None = None
    certificate: Certificate | None = None
    host: str = ""  # the peer's address
    verified: bool = False
    shown: bool = False  # this side has shown its host certificate
    port_name: str = ""  # the daemon that the shared port's preface asked for
    binding: bytes = b""

    @property
    def host_name(self) -> str:
        """The host by its certificate, "" without one."""
        return self.certificate.host if self.certificate is not None else ""


class Who(Record):
    """An authenticated peer: its mapped name, how it proved it, and the levels it has here.

    `host_name` is the host of the certificate that the channel has shown, whatever proved the identity; "" for none.
    """

    identity: str
    method: str
    levels: frozenset[Level] = frozenset()
    uid: int | None = None
    duties: frozenset[str] = frozenset()
    host: str = ""  # its address
    host_name: str = ""
    ticket: str = ""  # the label of the ticket that it came with, while that is accepted
    ticket_digest: str = ""
    token: IdToken | None = None  # the token that proved it

    def allows(self, level: Level) -> bool:
        """Whether the peer has this level."""
        return level in self.levels


class Known:
    """The other side of a connection: its channel, and who its user turned out to be."""

    __slots__ = ()

    link: Link
    who: Who

    @property
    def identity(self) -> str:
        """The mapped name, `user@domain`."""
        return self.who.identity

    @property
    def method(self) -> str:
        """How it proved who it is."""
        return self.who.method

    @property
    def pool(self) -> str:
        """The other pool that its host is of, by its certificate; "" for this one."""
        certificate = self.link.certificate
        return certificate.pool if certificate is not None else ""

    @property
    def address(self) -> str:
        """Where it is, for people and logs."""
        return self.link.label

    @property
    def uid(self) -> int | None:
        """Its account, when it came over a unix socket of this host."""
        return self.who.uid

    @property
    def ticket(self) -> str:
        """The label of the ticket that it came with; "" once that is revoked."""
        return self.who.ticket

    @property
    def duties(self) -> frozenset[str]:
        """The duties of its host by its certificate (or the duty of a joining token)."""
        return self.who.duties

    @property
    def host_name(self) -> str:
        """The host by the certificate that it has shown; "" for one that showed none."""
        return self.who.host_name

    @property
    def levels(self) -> frozenset[Level]:
        """What it may do here."""
        return self.who.levels

    def allows(self, level: Level) -> bool:
        """Whether it may do what needs this level."""
        return level in self.who.levels
