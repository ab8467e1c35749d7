"""Certificates of hosts, their renewal, and the list of those that were revoked."""

from __future__ import annotations

import os
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from pool.base.errors import PeerError, UserError
from pool.hosts.register import Issued
from protocol.security import certify, keys
from protocol.security.credentials import Security
from protocol.security.identity import Certificate
from protocol.security.revoked import Revoked
from protocol.security.settings import SecuritySettings
from protocol.security.x509 import is_for, read_certificate
from tests.fakes.host_keys import make_host_key

DAY_S = 86400.0


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """The keys of a central manager."""
    keys.make_pool_keys(tmp_path / "pool", host="cm.lab", trust_domain="lab", names=("localhost", "127.0.0.1"))
    return tmp_path / "pool"


def sign(pool: Path, directory: Path, lifetime_s: float = 90 * DAY_S, names: tuple[str, ...] = ()) -> certify.Signed:
    request = make_host_key(directory, "ex1.lab")
    return certify.sign_host(
        pool, request, host="ex1.lab", trust_domain="lab", duties=["execute"], names=names, lifetime_s=lifetime_s
    )


def der(signed: certify.Signed) -> bytes:
    return ssl.PEM_cert_to_DER_cert(signed.pem.decode())


def seen(pem: bytes, tmp_path: Path) -> Certificate:
    """A certificate as a peer sees it."""
    path = tmp_path / "seen.pem"
    path.write_bytes(pem)
    peer: dict[str, Any] = ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined]
    return read_certificate(peer)


def test_a_renewed_certificate_is_for_the_same_host_duties_and_key(pool: Path, tmp_path: Path) -> None:
    old = sign(pool, tmp_path / "host", 3650 * DAY_S, names=("ex1", "10.0.0.7"))
    new = certify.renew_host(pool, der(old), lifetime_s=90 * DAY_S)
    assert (new.issued.name, new.issued.duties, new.issued.key) == ("ex1.lab", "execute", old.issued.key)
    assert new.issued.serial != old.issued.serial
    assert new.issued.ends_at == pytest.approx(time.time() + 90 * DAY_S, abs=60)
    assert seen(new.pem, tmp_path).names == ("ex1.lab",)
    keys.install_host_certificate(
        tmp_path / "host", new.pem.decode(), (pool / "ca.pem").read_text(), key=keys.host_key(tmp_path / "host")
    )


def test_names_beside_its_own_that_a_host_was_certified_for_are_not_believed(pool: Path, tmp_path: Path) -> None:
    certificate = seen(sign(pool, tmp_path / "host", names=("cm", "10.0.0.7")).pem, tmp_path)
    assert is_for(certificate, "EX1.lab.")
    assert not any(is_for(certificate, name) for name in ("cm", "10.0.0.7", "ex1", "cm.lab"))


def test_a_host_that_is_called_by_an_address_is_for_nothing() -> None:
    for address in ("10.0.0.7", "::2"):
        assert not is_for(Certificate(host=address, names=(address,), duties=frozenset({"execute"})), address)


def test_a_central_manager_renews_its_own_when_it_is_time(pool: Path, tmp_path: Path) -> None:
    first = (pool / "host.pem").read_bytes()
    keys.renew_own(pool)
    assert (pool / "host.pem").read_bytes() == first
    keys.renew_own(pool, lifetime_s=30 * DAY_S)
    assert (pool / "host.pem").read_bytes() != first
    assert {"cm.lab", "localhost", "127.0.0.1"} <= set(seen((pool / "host.pem").read_bytes(), tmp_path).names)


def test_a_renewed_certificate_is_shown_without_a_restart(pool: Path) -> None:
    security = Security(SecuritySettings(keys=str(pool), ca_files=(str(pool / "ca.pem"),)))
    server, client = security.tls_server(), security.tls_client()
    assert security.tls_server() is server
    assert security.tls_client() is client
    keys.renew_own(pool, lifetime_s=30 * DAY_S)
    assert security.tls_server() is not server
    assert security.tls_client() is not client


def test_a_list_is_taken_when_it_is_the_cas_and_not_older(pool: Path, tmp_path: Path) -> None:
    row = Issued("ABC123", "ex1.lab", "execute", "key", 0.0, 0.0, time.time())
    first, second = certify.revocation_list(pool, 1, []), certify.revocation_list(pool, 2, [row])
    published = tmp_path / "revoked"
    revoked = Revoked(str(published))
    host = Certificate(host="ex1.lab", serial="ABC123")
    revoked.check(host)
    keys.install_revocation_list(pool, first, published)
    revoked.check(host)
    keys.install_revocation_list(pool, second, published)
    with pytest.raises(PeerError, match=r"the certificate of ex1\.lab was revoked"):
        revoked.check(host)
    with pytest.raises(UserError, match="revocation list 1 is older than 2"):
        keys.install_revocation_list(pool, first, published)
    keys.make_ca(tmp_path / "other", "lab")
    with pytest.raises(UserError, match="not signed by the pool's CA"):
        keys.install_revocation_list(pool, certify.revocation_list(tmp_path / "other", 3, []), published)
    with pytest.raises(UserError, match="no revocation list"):
        keys.install_revocation_list(pool, b"rubbish", published)
    os.unlink(published)
    assert revoked.serials() == {"ABC123"}  # a list that cannot be read is no reason to trust again


def test_a_side_that_wants_to_be_known_by_its_token_shows_no_certificate(pool: Path) -> None:
    assert Security(SecuritySettings(keys=str(pool))).shows_certificate
    assert not Security(SecuritySettings(keys=str(pool), offer=("TOKEN",))).shows_certificate
