"""SSL: the host certificates that the pool's CA signed, and what each duty lets its host do.

Each host is itself, `host/NAME@TRUST_DOMAIN`. It has what its duties bring, and what an ALLOW_* list gives to that very
identity; DENY_* lists take away, by any of the host's names too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pool.base.errors import PeerError
from protocol.security.authorize import Level
from protocol.security.identity import Certificate

_L = Level
DUTY_LEVELS: Final[Mapping[str, frozenset[Level]]] = {
    "central": frozenset(
        {_L.DAEMON, _L.NEGOTIATOR, _L.ADVERTISE_MASTER, _L.ADVERTISE_SCHEDD, _L.ADVERTISE_STARTD, _L.ADMINISTRATOR},
    ),
    "submit": frozenset({_L.DAEMON, _L.ADVERTISE_MASTER, _L.ADVERTISE_SCHEDD}),
    "execute": frozenset({_L.DAEMON, _L.ADVERTISE_MASTER, _L.ADVERTISE_STARTD}),
}
"""What a host may do by its duty; an execute host cannot pose as the pool's negotiator or as an access point."""


SERVED_BY: Final = {
    "collector": "central",
    "negotiator": "central",
    "defrag": "central",
    "schedd": "submit",
    "agent": "submit",
    "startd": "execute",
    "starter": "execute",
}
"""The duty of a host that may answer as this daemon; a master is on every host."""


def granted(duties: frozenset[str]) -> frozenset[Level]:
    """The levels that the duties of a host bring."""
    return frozenset().union(*(DUTY_LEVELS.get(duty, frozenset()) for duty in duties))


def read_certificate(peer: Mapping[str, Any]) -> Certificate:
    """What `SSLObject.getpeercert()` says of a verified certificate.

    Only a central manager is known by more than one name: earlier versions certified others for short names and
    addresses, which may be somebody else's.
    """
    subject: dict[str, list[str]] = {}
    for relative_name in peer.get("subject", ()):
        for key, value in relative_name:
            subject.setdefault(key, []).append(value)
    host = subject.get("commonName", [""])[0]
    duties = frozenset(subject.get("organizationalUnitName", ()))
    more = peer.get("subjectAltName", ()) if "central" in duties else ()
    names = [value for kind, value in more if kind in ("DNS", "IP Address")]
    return Certificate(
        host=host,
        names=tuple(dict.fromkeys([host, *names])),
        duties=duties,
        trust_domain=subject.get("organizationName", [""])[0],
        # As the register writes it.
        serial=str(peer.get("serialNumber", "")).lstrip("0"),
    )


def is_name(text: str) -> bool:
    """Whether this is a name, and no IPv4 or IPv6 address."""
    last = text.rpartition(".")[2]
    return ":" not in text and not last.isdigit()


def check_duty(server: Certificate, daemon: str) -> None:
    """PeerError when this host cannot be the one that runs such a daemon; agents are called `agent-` and a name."""
    duty = SERVED_BY.get(daemon.partition("-")[0])
    if duty is not None and duty not in server.duties:
        has = ", ".join(sorted(server.duties)) or "none"
        raise PeerError(f"{server.host} answers as {daemon}, with the duties {has}", expected=f"the duty {duty}")


def is_for(certificate: Certificate, name: str) -> bool:
    """Whether a server with this certificate may answer for the name or address that was connected to.

    The central manager's word decides all in a pool, so it may answer under any name: addresses change, and CNAMEs are
    common. Every other host answers under its own whole name alone: an address is whoever's it is today, so an address
    with a port is not enough to reach it by, and needs the name beside it (`<address:port?alias=name>`, as daemons
    publish it). A bare loopback address is this host itself. The central manager of another pool answers under the
    names that it was certified for.
    """
    folded = name.casefold().rstrip(".")
    if "central" in certificate.duties:
        return not certificate.pool or folded in {known.casefold() for known in certificate.names}
    return folded in ("127.0.0.1", "::1", "localhost") or (folded == certificate.host.casefold() and is_name(folded))
