"""Tokens for users, and certificates for hosts that join: what only the central manager's master can give.

A host joins with a token that carries a duty (execute, submit, central) and is good for nothing else. Its name is its
own from then on: another key is not signed for a name that a host already has, until an administrator removes the
record KEYS/hosts/<name>.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from daemons.locate import central_master
from daemons.run import DaemonStart
from pool.errors import UserError
from protocol import rpc
from protocol.authorize import Denied, Level
from protocol.messages.master import CreateToken, Joined, JoinPool, Token
from protocol.rpc import Peer

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?\Z")

DAEMONS_OF: Final = {
    "execute": "MASTER, STARTD",
    "submit": "MASTER, SCHEDD",
    "central": "MASTER, COLLECTOR, NEGOTIATOR",
}
"""What a host of each duty runs."""

VOUCHED_S: Final = 3600.0
VOUCHED_SCOPES: Final = ("READ",)
"""What any host can have for a user of its own: whoever has broken into a host becomes nobody by it."""


class Admissions:
    """The handlers of CreateToken and JoinPool."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        start.service.on(CreateToken, self.create_token)  # whose token decides the rest
        start.service.on(JoinPool, self.join)  # the token's duty decides

    async def create_token(self, peer: Peer, request: CreateToken) -> Token:
        """A token for the caller; for another, or with a duty, only for an administrator."""
        security = self._start.security
        if not security.signing_keys():
            return await self._vouched_for(peer, request)
        identity = request.identity or peer.identity
        if "@" not in identity:
            identity = f"{identity}@{security.uid_domain}"
        own = identity == peer.identity and not request.duty and peer.method == "FS"
        if self._is_vouched(peer, request, identity):
            return Token(token=self._for_user(identity, VOUCHED_S, VOUCHED_SCOPES), ca=security.ca_pem())
        if not own and not peer.allows(Level.ADMINISTRATOR):
            raise Denied(f"{peer.identity} may not make a token for {identity}: level ADMINISTRATOR is needed")
        if request.duty and request.duty not in DAEMONS_OF:
            raise UserError(f"{request.duty!r} is no duty of a host", expected=", ".join(DAEMONS_OF))
        if request.duty:  # this host alone judges it
            token = security.create_token(
                identity, lifetime_s=request.lifetime_s, scopes=request.scopes, duty=request.duty
            )
        else:
            token = self._for_user(identity, request.lifetime_s, request.scopes)
        self._start.log.always(
            "Made a token.", identity=identity, by=peer.identity, duty=request.duty or "none", scopes=request.scopes
        )
        return Token(token=token, ca=security.ca_pem())

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

    async def _vouched_for(self, peer: Peer, request: CreateToken) -> Token:
        """On a host that signs nothing: ask the central manager for a token with which this host's user can read."""
        start = self._start
        if peer.method != "FS" or request.duty or request.identity not in ("", peer.identity):
            raise Denied("this host can ask for its own users' tokens only; ask on the central manager")
        central = central_master(start.config)
        asked = CreateToken(identity=peer.identity, lifetime_s=VOUCHED_S, scopes=list(VOUCHED_SCOPES))
        async with rpc.connected(central, security=start.security, network=start.world.network) as master:
            return await master.call(asked)

    async def join(self, peer: Peer, request: JoinPool) -> Joined:
        """Sign the host's key for the duty of the token that it came with."""
        from protocol import keys

        start, security = self._start, self._start.security
        if not peer.duties or peer.method != "TOKEN":
            raise Denied(f"{peer.identity} may not join a host: a token with a duty is needed (pool token --duty ...)")
        if not _HOST.match(request.host):
            raise UserError(f"{request.host[:80]!r} cannot be the name of a host")
        if request.host.lower() == start.host.lower():
            raise UserError(f"{request.host} is the central manager's own name", expected="another NETWORK_HOSTNAME")
        self._keep_name(request.host, request.csr)
        names = [peer.link.host] if peer.link.host else []
        directory = start.config.path("KEYS")
        certificate = await start.world.threads.run_sync(
            lambda: keys.sign_host(
                directory,
                request.csr,
                host=request.host,
                trust_domain=security.trust_domain,
                duties=peer.duties,
                names=names,
            )
        )
        start.log.always("A host joins.", host=request.host, duties=sorted(peer.duties), address=peer.address)
        collector = start.port_address.replace("<", "").replace(">", "").partition("?")[0]
        return Joined(
            certificate=certificate.decode("ascii"),
            ca=security.ca_pem(),
            collector_host=collector,
            config=self._configuration(sorted(peer.duties)),
        )

    def _keep_name(self, host: str, csr: str) -> None:
        """Refuse another key for a name that has one; UserError says what to do."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        try:
            key = x509.load_pem_x509_csr(csr.encode()).public_key()
        except ValueError:
            raise UserError("this is no certificate request", expected="PEM") from None
        spki = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        print_of_key = hashlib.sha256(spki).hexdigest()
        record = Path(self._start.config.path("KEYS")) / "hosts" / host.lower()
        record.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            with open(os.open(record, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(print_of_key + "\n")
        except FileExistsError:
            if record.read_text().strip() != print_of_key:
                raise UserError(
                    f"{host} has joined before, with another key; if it was set up anew, remove {record} first"
                ) from None

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
