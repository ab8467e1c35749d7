"""A host of the pool whose administrator is the attacker: its key and certificate, and any message that it likes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pool.classad import ClassAd
from protocol.messages.collector import AdUpdate
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address
from tests.whole.hosts import DOMAIN, Host


def keys_of(host: Host) -> Security:
    """What whoever has broken into this host can prove himself with."""
    return Security(
        SecuritySettings(
            trust_domain=DOMAIN,
            uid_domain=DOMAIN,
            keys=(keys := str(host.directory / "keys")),
            ca_files=(f"{keys}/ca.pem",),
        )
    )


def place_of(host: Host, daemon: str) -> Address:
    """Where a daemon of a host is reached from other hosts."""
    where = Address.parse(host.where())
    return Address.tcp(where.host, where.port, sock=daemon, alias=host.name)


@asynccontextmanager
async def posing_as(host: Host, at: Host, daemon: str, service: Service | None = None) -> AsyncGenerator[Peer, None]:
    """A connection from the broken `host` to a daemon of another."""
    async with endpoints.connected(place_of(at, daemon), security=keys_of(host), service=service) as peer:
        yield peer


def an_ad(ad_type: str, name: str, host: Host, **attributes: object) -> AdUpdate:
    """An ad that says to be this host's."""
    return AdUpdate(
        ad=ClassAd({"MyType": ad_type, "Name": name, "Machine": host.name, **attributes}),
        private=ClassAd({"ClaimId": f"<{host.address}:1>#1#1#{name}"}),
    )
