"""Which method is used, and what comes of it: the two faces that `connection` asks during the handshake."""

from __future__ import annotations

from pool.errors import PeerError
from pool.hints import TYPE_CHECKING, Any, Sequence
from protocol.auth import unix_peer, x509
from protocol.authorize import Caller, Level
from protocol.identity import Link, Who
from protocol.message import replace

if TYPE_CHECKING:
    from protocol.security import Security

_L = Level
# A token for the pool's own daemons proves what a host certificate of every duty but the central one would.
_DAEMON_TOKEN = frozenset({_L.DAEMON, _L.ADVERTISE_MASTER, _L.ADVERTISE_SCHEDD, _L.ADVERTISE_STARTD})
LOCAL_HOSTS = ("127.0.0.1", "localhost")


class ClientSide:
    """How this process proves itself over one channel."""

    def __init__(self, security: Security, link: Link) -> None:
        self._security = security
        self._link = link

    def choose(self, offered: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """The first method of ours that the server takes and that we have the means for."""
        lacking = []
        for method in self._security.methods_to_offer():
            proof = self._proof(method)
            if proof is None:
                lacking += [method] if method != "PAIR" else []
            elif method in offered:
                return method, proof
        missing = f" (without the means for {', '.join(lacking)})" if lacking else ""
        mine = ", ".join(m for m in self._security.methods_to_offer() if m not in (*lacking, "PAIR")) or "nothing"
        raise PeerError(
            f"no way to authenticate to {self._link.label or 'the server'}: "
            f"it takes {', '.join(offered) or 'nothing'}, this side offers {mine}{missing}"
        )

    def _proof(self, method: str) -> dict[str, Any] | None:
        security, link = self._security, self._link
        match method:
            case "TICKET":
                return {"ticket": security.ticket} if security.ticket and (link.verified or link.credentials) else None
            case "FS":
                return {} if link.credentials is not None else None
            case "PAIR":
                return {} if link.kind == "pair" else None
            case "SSL":
                return {} if link.shown else None
            case "TOKEN":
                token = self._token() if link.verified else None
                return {"token": token} if token else None
            case "CLAIMTOBE":
                import os

                return {"user": f"{unix_peer.user_name(os.geteuid())}@{security.uid_domain}"}
            case "ANONYMOUS":
                return {}
        return None

    def _token(self) -> str | None:
        """A token that the server's trust domain issued and that is still good."""
        from protocol.auth import idtoken  # json and hashlib cost tools 8 ms, and the unix socket needs no token

        certificate = self._link.certificate
        domain = (certificate.trust_domain if certificate else "") or self._security.trust_domain
        for text in self._security.held_tokens():
            try:
                token = idtoken.read_token(text)
            except PeerError:
                continue
            if token.issuer == domain and (token.expires_at is None or token.expires_at > self._security.now()):
                return text
        return None

    def server(self) -> Who:
        """Who the server is: what the channel proved before it spoke."""
        return _by_channel(self._security, self._link)


class ServerSide:
    """What this process takes as proof over one channel."""

    def __init__(self, security: Security, link: Link) -> None:
        self._security = security
        self._link = link

    def methods(self) -> list[str]:
        """What can work here, in the order of SEC_DEFAULT_AUTHENTICATION_METHODS."""
        link, security = self._link, self._security
        possible = {
            "TICKET": len(security.tickets) > 0,
            "PAIR": link.kind == "pair",
            "FS": link.credentials is not None and link.kind != "pair",
            "SSL": link.certificate is not None,
            "TOKEN": security.checks_tokens(),
            "CLAIMTOBE": True,
            "ANONYMOUS": True,
        }
        return [method for method in security.methods_to_accept() if possible.get(method, False)]

    def verify(self, method: str, proof: dict[str, Any]) -> Who:
        """Who the client is by this method's proof; `connection` has checked that the method is one of ours."""
        security, link = self._security, self._link
        match method:
            case "FS" | "SSL" | "PAIR":
                return _by_channel(security, link, method)
            case "TICKET":
                ticket = security.tickets.redeem(proof.get("ticket"))
                return Who(
                    identity=ticket.identity,
                    method="TICKET",
                    levels=ticket.levels,
                    host=link.host,
                    host_name=link.host_name,
                    ticket=ticket.label,
                )
            case "TOKEN":
                return self._by_token(proof.get("token"))
            case "CLAIMTOBE":
                user = proof.get("user")
                if not isinstance(user, str) or "@" not in user or "/" in user or len(user) > 200:
                    raise PeerError("CLAIMTOBE without a user name")
                return _who(security, link, user, method)
        return _who(security, link, "unauthenticated@unmapped", method)

    def _by_token(self, text: object) -> Who:
        from protocol.auth import idtoken

        security = self._security
        if not isinstance(text, str):
            raise PeerError("a token that is not a text")
        token = idtoken.verify_token(
            text,
            security.signing_keys(),
            issuer=security.trust_domain,
            now=security.now(),
            ca=security.own_ca(),
        )
        security.check_token(token)
        if token.duty:  # made to join the pool with, and for nothing else
            return Who(
                identity=token.subject,
                method="TOKEN",
                levels=frozenset({Level.READ}),
                duties=frozenset({token.duty}),
                host=self._link.host,
                host_name=self._link.host_name,
                token=token,
            )
        granted = _DAEMON_TOKEN if token.subject == f"condor@{security.trust_domain}" else frozenset()
        who = _who(security, self._link, token.subject, "TOKEN", granted)
        return replace(who, levels=token.limit(who.levels), token=token)


def _by_channel(security: Security, link: Link, method: str = "") -> Who:
    """Who is at the other end by the channel alone: account, certificate, or the process we share a parent with."""
    if link.kind == "pair" and method in ("", "PAIR"):
        levels = unix_peer.granted(link.credentials, security.owner_uid) if link.credentials else frozenset()
        return Who(identity=security.pair_identity, method="PAIR", levels=levels | security.pair_levels)
    if link.credentials is not None and method in ("", "FS"):
        uid = link.credentials.uid
        identity = f"{unix_peer.user_name(uid)}@{security.uid_domain}"
        return _who(security, link, identity, "FS", unix_peer.granted(link.credentials, security.owner_uid), uid=uid)
    if link.certificate is not None and method in ("", "SSL"):
        host = link.certificate
        return _who(security, link, host.identity, "SSL", x509.granted(host.duties), duties=host.duties)
    return Who(identity="unauthenticated@unmapped", method=method or "NONE", host=link.host)


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
    levels = security.lists.levels(Caller(user=identity, hosts=tuple(hosts)), granted)
    return Who(
        identity=identity,
        method=method,
        levels=levels,
        uid=uid,
        duties=duties,
        host=link.host,
        host_name=link.host_name,
    )
