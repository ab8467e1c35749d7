"""Other pools that this one lends slots to or borrows them from: their CAs' certificates, KEYS/pools.d/DOMAIN.pem.

The file's name is the trust domain of that pool. A host whose certificate is of such a CA is a host of that pool alone
(`Certificate.pool`): it has none of the rights that its duties bring at home. As a client it has those of an access
point that may use slots here, where FLOCK_FROM names it; as a server it is spoken to only where its pool is meant
(`Address.pool`). To trust a pool no more is to remove its file.

OpenSSL says that a certificate holds, and not by which CA; that is asked of the signature, for a name in a certificate
is whatever its CA has put there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pool.base.errors import ConfigError, PeerError
from protocol.wire.message import replace

if TYPE_CHECKING:
    from cryptography.x509 import Certificate as X509Certificate

    from protocol.security.identity import Certificate

POOLS_DIRECTORY: Final = "pools.d"
ANY: Final = "*"
"""As an address's pool: whichever of those that are trusted, or this one."""


class OtherPools:
    """The CAs of other pools, by trust domain, and what their certificates are worth."""

    def __init__(self, pems: Mapping[str, str]) -> None:
        self.pems = pems
        self._authorities: dict[str, X509Certificate] = {}
        if pems:
            from cryptography.x509 import load_pem_x509_certificate  # most pools know no others

            for domain, pem in pems.items():
                try:
                    self._authorities[domain] = load_pem_x509_certificate(pem.encode())
                except ValueError:
                    raise ConfigError(f"{POOLS_DIRECTORY}/{domain}.pem holds no certificate") from None

    def placed(self, certificate: Certificate, der: bytes | None) -> Certificate:
        """The certificate (`der` is the whole of it), with the pool that it is of; PeerError when it claims another."""
        pool = self._pool_of(der) if self._authorities and der else ""
        if pool and certificate.trust_domain != pool:
            raise PeerError(f"the CA of {pool} made a certificate for a host of {certificate.trust_domain}")
        return replace(certificate, pool=pool)

    def _pool_of(self, der: bytes | None) -> str:
        from cryptography.exceptions import InvalidSignature
        from cryptography.x509 import load_der_x509_certificate

        shown = load_der_x509_certificate(der or b"")
        for domain, authority in self._authorities.items():
            try:
                shown.verify_directly_issued_by(authority)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return domain
        return ""


def read_others(directories: Iterable[str], *, own: str, own_pem: str) -> OtherPools:
    """What directories have of other pools; a file named for the own domain, or of the own CA, is none."""
    pems: dict[str, str] = {}
    for directory in directories:
        for name in _names(directory):
            domain, _, ending = name.rpartition(".")
            if ending != "pem" or domain in ("", own, *pems):
                continue
            with open(os.path.join(directory, name), encoding="ascii") as file:
                text = file.read()
            if text.strip() != own_pem.strip():
                pems[domain] = text
    return OtherPools(pems)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
