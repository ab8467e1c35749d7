"""Which method is used, and what comes of it: the two faces that the handshake asks.

The methods are those of HTCondor's SEC_*_AUTHENTICATION_METHODS ("Authentication" of its manual page
admin-manual/security), and three that no configuration names: TICKET, PAIR (a child and its parent) and FAMILY (the
daemons of one master). The client takes the first of its own that the server takes as well and that it has the means
for; it shows nothing before the server's certificate has the duty of the daemon that was meant.

What a server has been shown is kept as `Evidence`. Levels follow from it by the access lists as they are now, so that
an open connection can be judged again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pool.base.errors import PeerError
from protocol.security import unix_peer, x509
from protocol.security.authorize import Caller, Level
from protocol.security.identity import Certificate, Greeting, Link, Who
from protocol.wire.message import Record, replace

if TYPE_CHECKING:
    from protocol.security import possession
    from protocol.security.credentials import Security
    from protocol.security.idtoken import IdToken
    from protocol.security.ticket import Ticket

_L = Level
# A token for the pool's own daemons proves what a host certificate of every duty but the central one would.
_DAEMON_TOKEN = frozenset({_L.DAEMON, _L.ADVERTISE_MASTER, _L.ADVERTISE_SCHEDD, _L.ADVERTISE_STARTD})
FAMILY = "family"
_UNSPOKEN = ("PAIR", "FAMILY")  # nobody is missing them
LOCAL_HOSTS = ("127.0.0.1", "localhost")


class ClientSide:
    """How this process proves itself over one channel."""

    def __init__(self, security: Security, link: Link) -> None:
        self._security = security
        self._link = link
        self._expected = b""  # what a server answers that could check our token with the signing key

    def choose(self, offered: Sequence[str], greeting: Greeting) -> tuple[str, dict[str, Any]]:
        """The first method of ours that the server takes and that we have the means for.

        Before anything is shown the server must be one that can be the daemon that was meant.
        """
        if self._link.certificate is not None:
            x509.check_duty(self._link.certificate, greeting.wanted or greeting.name)
        mine = self._security.settings.methods_to_offer()
        for method in mine:
            if method in offered and self._has(method, greeting):
                return method, self._proof(method, greeting)
        if "TOKEN" in offered and "TOKEN" in mine and self._is_bound(greeting):
            own = self._security.own_token(self._domain())  # a last resort: it asks for the pool's signing key
            if own:
                return "TOKEN", self._show_token(own, greeting)
        takes = [method for method in offered if method not in _UNSPOKEN]
        having = [method for method in mine if self._has(method, greeting) and method not in _UNSPOKEN]
        lacking = [method for method in mine if method not in (*having, *_UNSPOKEN)]
        missing = f" (without the means for {', '.join(lacking)})" if lacking else ""
        raise PeerError(
            f"no way to authenticate to {self._link.label or 'the server'}: "
            f"it takes {', '.join(takes) or 'nothing'}, this side offers {', '.join(having) or 'nothing'}"
            f"{missing}{self._advice()}"
        )

    def _has(self, method: str, greeting: Greeting) -> bool:
        """Whether we have the means, and the channel is one for them."""
        security, link = self._security, self._link
        match method:
            case "TICKET":
                is_named = link.credentials is not None or bool(greeting.wanted)  # so that its duty was checked
                return bool(security.settings.ticket) and link.verified and is_named
            case "FS":
                return link.credentials is not None and link.kind != "pair"
            case "PAIR":
                return link.kind == "pair"
            case "SSL":
                return link.shown
            case "TOKEN":
                return self._is_bound(greeting) and bool(security.token_for(self._domain()))
            case "FAMILY":
                return link.kind == "unix" and self._is_bound(greeting) and bool(security.settings.family)
        return True

    def _is_bound(self, greeting: Greeting) -> bool:
        """Whether what is proven here would be of use to nobody else."""
        return self._link.verified and bool(self._link.binding) and bool(greeting.nonce)

    def _proof(self, method: str, greeting: Greeting) -> dict[str, Any]:
        security = self._security
        match method:
            case "TICKET":
                return {"ticket": security.settings.ticket}
            case "TOKEN":
                return self._show_token(security.token_for(self._domain()), greeting)
            case "FAMILY":
                from protocol.security import possession

                handshake = _transcript(self._domain(), greeting, self._link)
                shown = possession.prove_secret(security.settings.family.encode(), FAMILY, handshake)
                self._expected = shown.answer
                return dict(shown.proof)
            case "CLAIMTOBE":
                return {"user": f"{unix_peer.user_name(os.geteuid())}@{security.uid_domain}"}
        return {}

    def _show_token(self, token: str, greeting: Greeting) -> dict[str, Any]:
        from protocol.security import possession  # costs tools 8 ms and more, and the unix socket needs no token

        shown = possession.prove(token, _transcript(self._domain(), greeting, self._link))
        self._expected = shown.answer
        return dict(shown.proof)

    def _domain(self) -> str:
        """The server's trust domain, whose tokens it takes."""
        certificate = self._link.certificate
        return (certificate.trust_domain if certificate else "") or self._security.trust_domain

    def _advice(self) -> str:
        """What helps somebody whose tokens are of no use any more."""
        if "TOKEN" not in self._security.settings.offer or not self._security.holds_old_tokens():
            return ""
        return "; the tokens held here have no key of their holder: make new ones with condor_token_create"

    def confirm(self, answer: object) -> None:
        """Check what the server says to our proof; PeerError when it cannot have checked it."""
        if self._expected and answer != self._expected:
            raise PeerError(f"{self._link.label} took the token without knowing the key that it is signed with")

    def server(self) -> Who:
        """Who the server is: what the channel proved before it spoke; PeerError when that is void."""
        self._security.revoked.check(self._link.certificate)
        other = self._link.certificate
        if other is not None and other.pool:  # `check_server` has seen to it that this pool was meant
            granted = x509.granted(other.duties)
            return _who(self._security, self._link, other.identity, "SSL", granted, duties=other.duties)
        return _by_channel(self._security, self._link)


class Evidence(Record):
    """What a client has proven, from which its levels follow; they may be judged again."""

    method: str
    token: IdToken | None = None
    user: str = ""


class ServerSide:
    """What this process takes as proof over one channel."""

    __slots__ = ("_evidence", "_link", "_security")

    def __init__(self, security: Security, link: Link) -> None:
        self._security = security
        self._link = link
        self._evidence: Evidence | Ticket | None = None
        """What was shown; of a ticket that alone, for there may be thousands."""

    def methods(self) -> list[str]:
        """What can work here, in the order of SEC_DEFAULT_AUTHENTICATION_METHODS."""
        link, security = self._link, self._security
        possible = {
            "TICKET": len(security.tickets) > 0,
            "PAIR": link.kind == "pair",
            "FS": link.credentials is not None and link.kind != "pair",
            "SSL": link.certificate is not None,
            "TOKEN": bool(link.binding) and security.checks_tokens(),
            "FAMILY": link.kind == "unix" and bool(security.settings.family),
            "CLAIMTOBE": True,
            "ANONYMOUS": True,
        }
        return [method for method in security.settings.methods_to_accept() if possible.get(method, False)]

    def verify(self, method: str, proof: dict[str, Any], greeting: Greeting) -> tuple[Who, bytes]:
        """Who the client is by this method's proof, and what to answer it; `connection` has checked the method."""
        security, answer = self._security, b""
        evidence: Evidence | Ticket
        match method:
            case "TICKET":
                evidence = security.tickets.redeem(proof.get("ticket"), self._link)
            case "TOKEN":
                token, answer = self._check_token(proof, greeting)
                evidence = Evidence(method=method, token=token)
            case "FAMILY":
                from protocol.security import possession

                handshake = _transcript(security.trust_domain, greeting, self._link)
                answer = possession.check_secret(security.settings.family.encode(), proof, handshake)
                evidence = Evidence(method=method)
            case "CLAIMTOBE":
                user = proof.get("user")
                if not isinstance(user, str) or "@" not in user or "/" in user or len(user) > 200:
                    raise PeerError("CLAIMTOBE without a user name")
                evidence = Evidence(method=method, user=user)
            case _:
                evidence = Evidence(method=method)
        self._evidence = evidence
        return self.judge(), answer

    def _check_token(self, proof: dict[str, Any], greeting: Greeting) -> tuple[IdToken, bytes]:
        from protocol.security import possession

        security = self._security
        return possession.check(
            proof,
            _transcript(security.trust_domain, greeting, self._link),
            security.signing_keys(),
            now=security.now(),
            ca=security.own_ca(),
        )

    def judge(self) -> Who:
        """Who the client is, and what it may do, as the configuration has it now; PeerError when its proof is void."""
        security, link, evidence = self._security, self._link, self._evidence
        assert evidence is not None
        security.revoked.check(link.certificate)
        method = evidence.method if isinstance(evidence, Evidence) else "TICKET"
        if method not in security.settings.methods_to_accept():
            raise PeerError(f"method {method} is not taken here any more")
        if not isinstance(evidence, Evidence):
            return self._by_ticket(evidence)
        if evidence.token is not None:
            return security.settings.limit(self._by_token(evidence.token))
        if evidence.method in ("FS", "SSL", "PAIR"):
            who = _by_channel(security, link, evidence.method)
        elif evidence.method == "FAMILY":
            who = _by_account(security, link, "FAMILY")
        else:
            who = _who(security, link, evidence.user or "unauthenticated@unmapped", evidence.method)
        return security.settings.limit(who)

    def _by_ticket(self, shown: Ticket) -> Who:
        """The ticket's bearer; one without any right while the ticket is not accepted, as between a claim's jobs."""
        link = self._link
        ticket = self._security.tickets.held(shown.digest, link)
        return Who(
            identity=ticket.identity if ticket is not None else shown.identity,
            method="TICKET",
            levels=ticket.levels if ticket is not None else frozenset(),
            host=link.host,
            host_name=link.host_name,
            ticket=ticket.label if ticket is not None else "",
            ticket_digest=shown.digest,
        )

    def _by_token(self, token: IdToken) -> Who:
        security, link = self._security, self._link
        security.check_token(token)
        if token.duty:  # made to join the pool with, and for nothing else
            return Who(
                identity=token.subject,
                method="TOKEN",
                levels=frozenset({Level.READ}),
                duties=frozenset({token.duty}),
                host=link.host,
                host_name=link.host_name,
                token=token,
            )
        granted = _DAEMON_TOKEN if token.subject == f"condor@{security.trust_domain}" else frozenset()
        who = _who(security, link, token.subject, "TOKEN", granted)
        return replace(who, levels=token.limit(who.levels), token=token)


def _transcript(trust_domain: str, greeting: Greeting, link: Link) -> possession.Transcript:
    from protocol.security import possession

    return possession.Transcript(trust_domain=trust_domain, greeting=greeting, binding=link.binding)


def _by_channel(security: Security, link: Link, method: str = "") -> Who:
    """Who is at the other end by the channel alone: account, certificate, or the process we share a parent with."""
    if link.kind == "pair" and method in ("", "PAIR"):
        levels = unix_peer.granted(link.credentials, security.owner_uid) if link.credentials else frozenset()
        return Who(
            identity=security.settings.pair_identity, method="PAIR", levels=levels | security.settings.pair_levels
        )
    if link.credentials is not None and method in ("", "FS"):
        return _by_account(security, link, "FS")
    if link.certificate is not None and method in ("", "SSL"):
        host = link.certificate
        if host.pool:
            return _guest(security, link, host)
        return _who(security, link, host.identity, "SSL", x509.granted(host.duties), duties=host.duties)
    return Who(identity="unauthenticated@unmapped", method=method or "NONE", host=link.host)


def _guest(security: Security, link: Link, host: Certificate) -> Who:
    """A host of another pool: an access point that FLOCK_FROM names may do what its jobs take, any other nothing."""
    from protocol.security.needs import SUBMIT  # a table of who may send what; tools ask and do not answer

    caller = Caller(user=host.identity, hosts=(link.host, *host.names))
    named = SUBMIT in host.duties and any(entry.matches(caller) for entry in security.settings.flock_from)
    duties = frozenset({SUBMIT}) if named else frozenset()
    return _who(security, link, host.identity, "SSL", security.settings.lends if named else frozenset(), duties=duties)


def _by_account(security: Security, link: Link, method: str) -> Who:
    """Somebody whose account the kernel has told, where that counts: for all (FS), or for the daemons of one master."""
    assert link.credentials is not None
    uid, granted = link.credentials.uid, unix_peer.granted(link.credentials, security.owner_uid)
    return _who(security, link, f"{unix_peer.user_name(uid)}@{security.uid_domain}", method, granted, uid=uid)


def _who(
    security: Security,
    link: Link,
    identity: str,
    method: str,
    granted: frozenset[Level] = frozenset(),
    *,
    uid: int | None = None,
    duties: frozenset[str] = frozenset(),
) -> Who:
    """The peer with the levels that the access lists leave it."""
    hosts = [link.host] if link.host else list(LOCAL_HOSTS)
    if link.certificate is not None:
        hosts += link.certificate.names
    levels = security.settings.lists.levels(Caller(user=identity, hosts=tuple(hosts)), granted)
    return Who(
        identity=identity,
        method=method,
        levels=levels,
        uid=uid,
        duties=duties,
        host=link.host,
        host_name=link.host_name,
    )
