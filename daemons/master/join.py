"""Tokens for users, and certificates for hosts that join: what only the central manager's master can give.

A host joins with a token that carries a duty (execute, submit, central) and is good for nothing else: for one host and
an hour, unless its maker said otherwise. The host's name is its own from then on (`registrar`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from daemons.daemon_core.locate import central_master
from daemons.daemon_core.run import DaemonStart
from daemons.master.registrar import Registrar
from pool.base.errors import UserError
from pool.hosts.names import check_name
from pool.hosts.register import Word
from protocol.messages.master import CreateToken, Joined, JoinPool, MadeToken
from protocol.rpc import endpoints, token_checks
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.security.authorize import Denied, Level
from protocol.security.idtoken import BadToken, IdToken

DAEMONS_OF: Final = {
    "execute": "MASTER, STARTD",
    "submit": "MASTER, SCHEDD",
    "central": "MASTER, COLLECTOR, NEGOTIATOR",
}
"""What a host of each duty runs."""

VOUCHED_S: Final = 3600.0
VOUCHED_SCOPES: Final = ("READ",)
"""What any host can have for a user of its own: whoever has broken into a host becomes nobody by it."""

JOIN_LIFETIME_S: Final = 3600.0
"""How long a token to join with is good, where its maker does not say."""


class Admissions:
    """Whether a token is made, and whether a host may join."""

    def __init__(self, start: DaemonStart, registrar: Registrar) -> None:
        self._start = start
        self._registrar = registrar

    def answers(self) -> list[Answer]:
        """What users and joining hosts ask for."""
        return [
            answer(CreateToken, self.create_token),  # whose token decides the rest
            answer(JoinPool, self.join),  # the token's duty decides
        ]

    async def create_token(self, peer: Peer, request: CreateToken) -> MadeToken:
        """A token for the caller; for another, or with a duty, only for an administrator."""
        security = self._start.security
        # Only the central manager has them; any other host can but ask there.
        if not security.signing_keys():
            return await self._vouched_for(peer, request)
        await token_checks.load()
        identity = request.identity or peer.identity
        if "@" not in identity:
            identity = f"{identity}@{security.uid_domain}"
        own = identity == peer.identity and not request.duty and peer.method == "FS"
        if self._is_vouched(peer, request, identity):
            return MadeToken(token=self._for_user(identity, VOUCHED_S, VOUCHED_SCOPES), ca=security.ca_pem())
        if not own and not peer.allows(Level.ADMINISTRATOR):
            raise Denied(f"{peer.identity} may not make a token for {identity}: level ADMINISTRATOR is needed")
        if request.duty:
            token = self._to_join(identity, request)
        else:
            token = self._for_user(identity, request.lifetime_s, request.scopes)
        self._start.log.always(
            "Made a token.", identity=identity, by=peer.identity, duty=request.duty or "none", scopes=request.scopes
        )
        return MadeToken(token=token, ca=security.ca_pem())

    def _to_join(self, identity: str, request: CreateToken) -> str:
        """A token for hosts to join with; this host alone judges it, and remembers who has used it until it ends."""
        if request.duty not in DAEMONS_OF:
            raise UserError(f"{request.duty!r} is no duty of a host", expected=", ".join(DAEMONS_OF))
        if request.uses < 1 or (request.host and request.uses > 1):
            raise UserError(f"{request.uses} hosts cannot join with it", expected="1 or more, and 1 for a named host")
        if request.host:
            check_name(request.host)
        return self._start.security.create_token(
            identity,
            lifetime_s=JOIN_LIFETIME_S if request.lifetime_s is None else max(0.0, request.lifetime_s),
            scopes=request.scopes,
            duty=request.duty,
            host=request.host,
            uses=request.uses,
        )

    def _for_user(self, identity: str, lifetime_s: float | None, scopes: Sequence[str]) -> str:
        """A token that all hosts of the pool can check, where this one is the CA."""
        security = self._start.security
        key_id = "CA" if security.is_ca else "POOL"
        return security.create_token(identity, lifetime_s=lifetime_s, scopes=scopes, key_id=key_id)

    def _is_vouched(self, peer: Peer, request: CreateToken, identity: str) -> bool:
        """Whether a host of the pool asks for a user of its own: what it gets can read, for a while."""
        domain = self._start.security.uid_domain
        return (
            peer.method == "SSL"
            and bool(peer.duties)
            and not request.duty
            and set(request.scopes) == set(VOUCHED_SCOPES)
            and identity.endswith(f"@{domain}")
        )

    async def _vouched_for(self, peer: Peer, request: CreateToken) -> MadeToken:
        """On a host that signs nothing: ask the central manager for a token with which this host's user can read."""
        start = self._start
        if peer.method != "FS" or request.duty or request.identity not in ("", peer.identity):
            raise Denied("this host can ask for its own users' tokens only; ask on the central manager")
        central = central_master(start.config)
        asked = CreateToken(identity=peer.identity, lifetime_s=VOUCHED_S, scopes=list(VOUCHED_SCOPES))
        async with endpoints.connected(central, security=start.security, network=start.world.network) as master:
            return await master.call(asked)

    async def join(self, peer: Peer, request: JoinPool) -> Joined:
        """Sign the host's key for the duty of the token that it came with."""
        start, security = self._start, self._start.security
        token = peer.who.token
        if token is None or not token.duty:
            raise Denied(f"{peer.identity} may not join a host: a token with a duty is needed (pool token --duty ...)")
        certificate = await self._registrar.admit(_word(token), request.host, request.csr)
        start.log.always("A host joins.", host=request.host, duties=token.duty, address=peer.address)
        collector = start.port_address.replace("<", "").replace(">", "").partition("?")[0]
        return Joined(
            certificate=certificate,
            ca=security.ca_pem(),
            collector_host=collector,
            config=self._configuration([token.duty]),
        )

    def _configuration(self, duties: list[str]) -> str:
        """The lines that make the host one of this pool."""
        security = self._start.security
        daemons = dict.fromkeys(name.strip() for duty in duties for name in DAEMONS_OF[duty].split(","))
        lines = {
            "CONDOR_HOST": self._start.host,
            "UID_DOMAIN": security.uid_domain,
            "TRUST_DOMAIN": security.trust_domain,
            "DAEMON_LIST": ", ".join(daemons),
        }
        return "".join(f"{name} = {value}\n" for name, value in lines.items())


def _word(token: IdToken) -> Word:
    """What a token says of the hosts that may join with it."""
    uses, host = token.claims.get("uses", 1), token.claims.get("host", "")
    if token.expires_at is None or not token.id or type(uses) is not int or type(host) is not str:
        raise BadToken("a token to join with says when it ends", expected="one of: pool token create --for DUTY")
    return Word(id=token.id, duty=token.duty, ends_at=token.expires_at, uses=uses, host=host)
