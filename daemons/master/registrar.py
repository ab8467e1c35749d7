"""The central manager's registrar: which hosts there are, what certificates they have, and which were revoked.

The register is a file in KEYS (`pool.hosts.register`). It is opened for each decision, in a thread, since what it says
must be on disk before anybody acts on it; decisions are rare.

Each host's master watches here (`member`): it is sent its next certificate when two thirds of its present one are over,
for the name, duties and key that this one has, and the revocation list whenever that grows.

Source: RFC 5280 for certificates and revocation lists. HTCondor leaves host certificates to the site; what joins a host
by a token here is "Token Authentication" there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

import trio

from daemons.base.sync import Signal, first_of
from daemons.daemon_core.locate import central_names, collector_addresses
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError, UserError
from pool.classad import quote
from pool.hosts.register import Issued, Register, Word, renewal_due, transaction
from protocol.messages.collector import InvalidateAds
from protocol.messages.master import HostEntry, HostList, ListHosts, MemberNews, RevokeHosts, WatchMembership
from protocol.rpc import endpoints
from protocol.rpc.peer import Peer
from protocol.rpc.service import Answer, SendItem, answer
from protocol.security.identity import Certificate
from protocol.wire.kinds import fields_of

T = TypeVar("T")

LOOK_S: Final = 3600.0
"""How long a certificate that is due may wait, when a clock was set meanwhile."""


class Registrar:
    """Signs for hosts, and keeps the register."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._one_at_a_time = trio.Lock()
        self._changed = Signal()
        self._list = self._read_list()
        start.on_reconfigure(lambda _: self._changed.fire())

    # ---- what is asked

    def answers(self) -> list[Answer]:
        """What hosts hear from the register, and what administrators do with it."""
        return [
            answer(WatchMembership, self.watch),
            answer(ListHosts, self.list_hosts),
            answer(RevokeHosts, self.revoke),
        ]

    async def admit(self, word: Word, host: str, csr: str) -> str:
        """A certificate (PEM) for a host that joins with this word."""
        domain, reserved, now = (
            self._start.security.trust_domain,
            self._names_beside(word.duty),
            self._start.world.wall(),
        )

        def sign(register: Register) -> str:
            from protocol.security import certify

            register.admit(word, host, certify.key_of_request(csr), reserved=reserved, now=now)
            signed = certify.sign_host(
                self._keys, csr, host=host, trust_domain=domain, duties=[word.duty], lifetime_s=self._lifetime_s
            )
            register.record(signed.issued)
            return signed.pem.decode("ascii")

        return await self._decide(sign)

    async def watch(self, peer: Peer, request: WatchMembership, send: SendItem[MemberNews]) -> None:
        """Tell a host what it must know, as long as it listens."""
        certificate, told = peer.link.certificate, ""
        issued = await self._seen(certificate) if certificate is not None else None
        while True:
            changed, revoked = self._changed.next(), self._list
            renewed = ""
            if certificate is not None and issued is not None and self._wait_for(issued) <= 0:
                renewed, issued = await self._renew(certificate, peer), None
            if renewed or revoked != told:
                await send(MemberNews(revoked=revoked if revoked != told else "", certificate=renewed))
                told = revoked
            await first_of(changed, timeout_s=min(LOOK_S, self._wait_for(issued)) if issued is not None else LOOK_S)

    async def list_hosts(self, peer: Peer, request: ListHosts) -> HostList:
        """The register, for an administrator."""
        return _shown(await self._decide(Register.hosts))

    async def revoke(self, peer: Peer, request: RevokeHosts) -> HostList:
        """Put out hosts: their certificates are worth nothing from now on, and their names are free."""
        reserved, now = self._names_beside(), self._start.world.wall()

        def put_out(register: Register) -> list[Issued]:
            return [row for what in request.hosts for row in register.revoke_host(what, reserved=reserved, now=now)]

        revoked = await self._decide(put_out)
        self._start.log.always("Hosts are revoked.", hosts=request.hosts, by=peer.identity)
        await self._publish()
        await self._take_back_ads({row.name for row in revoked})
        return _shown(revoked)

    async def keep_own_certificate(self) -> None:
        """Renew the certificate of this host, which is the CA's, while it runs."""
        name = self._start.host
        while True:
            changed = self._changed.next()
            own = await self._decide(lambda register: register.newest(name))
            if own is not None and self._wait_for(own) <= 0:
                await self._start.world.threads.run_sync(self._renew_own)
                self._start.log.always("This host's certificate was renewed.")
                continue
            await first_of(changed, timeout_s=LOOK_S if own is None else min(LOOK_S, self._wait_for(own)))

    # ---- inside

    async def _take_back_ads(self, names: set[str]) -> None:
        """Have the collector forget the ads of hosts that were put out, so that no job is matched to them."""
        constraint = " || ".join(f"Machine == {quote(name)}" for name in sorted(names) if name)
        start = self._start
        try:
            for address in collector_addresses(start.config):
                async with endpoints.connected(
                    address, security=start.security, network=start.world.network
                ) as collector:
                    await collector.call(InvalidateAds(ad_type="Any", constraint=constraint or "false"))
        except PoolError as error:
            start.log.always(f"The ads of revoked hosts stay until they expire: {error}", hosts=sorted(names))

    async def _seen(self, certificate: Certificate) -> Issued | None:
        """What the register has of a certificate that a host shows; None when it is not to be renewed.

        One that is the newest of its host puts out those that it replaces; its host has it, now that it is shown.
        """
        now, earlier = self._start.world.wall(), []

        def look(register: Register) -> Issued | None:
            issued = register.find(certificate.serial)
            if issued is None and certificate.der:  # an earlier version made it
                from protocol.security import certify

                issued = certify.issued_as(certificate.der)
                register.check_renewal(issued.name, issued.key, reserved=self._names_beside(issued.duties))
                register.record(issued)
            if issued is not None:
                # Only now: had the host lost the new one on its way, it would still need the old one.
                earlier.extend(register.revoke_replaced(issued, now=now))
            return issued

        try:
            issued = await self._decide(look)
        except UserError as error:
            self._start.log.always(f"A certificate is not renewed: {error}", serial=certificate.serial)
            return None
        if earlier:
            self._start.log.always("Earlier certificates are revoked.", host=certificate.host, count=len(earlier))
            await self._publish()
        return issued

    async def _renew(self, certificate: Certificate, peer: Peer) -> str:
        """The next certificate (PEM) of a host; "" when it is to have none."""

        def sign(register: Register) -> str:
            from protocol.security import certify

            issued = certify.issued_as(certificate.der)
            register.check_renewal(issued.name, issued.key, reserved=self._names_beside(issued.duties))
            signed = certify.renew_host(self._keys, certificate.der, lifetime_s=self._lifetime_s)
            register.record(signed.issued)
            return signed.pem.decode("ascii")

        try:
            renewed = await self._decide(sign)
        except UserError as error:
            self._start.log.always(f"A certificate is not renewed: {error}", address=peer.address)
            return ""
        self._start.log.always("A host's certificate is renewed.", host=certificate.host, address=peer.address)
        return renewed

    async def _decide(self, decision: Callable[[Register], T]) -> T:
        """Take a decision over the register; it is on disk when this returns."""

        def decide() -> T:
            with transaction(self._keys / "hosts.sqlite") as register:
                return decision(register)

        if not self._start.security.is_ca:
            raise UserError("this host keeps no register of the pool's hosts", expected="the central manager")
        # Two hosts that ask at the same time must not both get the last use of a token.
        async with self._one_at_a_time:
            return await self._start.world.threads.run_sync(decide)

    async def _publish(self) -> None:
        """Make the revocation list anew, for this host and for all that watch."""
        run = self._start.run_dir

        def make(register: Register) -> None:
            from protocol.security import certify, keys

            pem = certify.revocation_list(self._keys, *register.revoked())
            keys.install_revocation_list(self._keys, pem, run / "revoked")

        await self._decide(make)
        self._list = self._read_list()
        self._changed.fire()

    def _renew_own(self) -> None:
        from protocol.security import keys

        keys.renew_own(self._keys, lifetime_s=self._lifetime_s)

    def _wait_for(self, issued: Issued) -> float:
        return renewal_due(issued, self._lifetime_s) - self._start.world.wall()

    def _read_list(self) -> str:
        try:
            return (self._keys / "revoked.crl").read_text()
        except OSError:
            return ""

    @property
    def _lifetime_s(self) -> float:
        return self._start.config.seconds("SEC_HOST_CERTIFICATE_LIFETIME")

    def _names_beside(self, duties: str = "") -> set[str]:
        """The names that no host of these duties may have; another central manager may be a second collector."""
        return {self._start.host} if "central" in duties else central_names(self._start.config)

    @property
    def _keys(self) -> Path:
        return Path(self._start.config.path("KEYS"))


def _shown(rows: Iterable[Issued]) -> HostList:
    names = fields_of(HostEntry)
    return HostList(
        hosts=[HostEntry(**{key: value for key, value in row._asdict().items() if key in names}) for row in rows]
    )
