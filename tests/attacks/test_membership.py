"""What a host's certificate is worth: it is renewed as it is, and worth nothing once its host was revoked."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.base.errors import PeerError
from protocol.messages.common import Ping
from protocol.messages.master import JoinPool, WatchMembership
from protocol.rpc.blocking import BlockingPeer, connect
from protocol.security import certify
from protocol.security.credentials import Security
from protocol.security.identity import Certificate
from protocol.security.revoked import Revoked
from protocol.security.settings import SecuritySettings
from protocol.security.x509 import read_certificate
from tests.attacks.test_joining import decoded
from tests.fakes.host_keys import make_host_key
from tests.whole.hosts import DOMAIN, Host, new_host

TEN_YEARS_S = 315360000
NINETY_DAYS_S = 90 * 86400


class Pool:
    """A central manager and two execute hosts, certified for as long as earlier versions did."""

    def __init__(self, central: Host, renewed: Host, revoked: Host) -> None:
        self.central, self.renewed, self.revoked = central, renewed, revoked

    def hosts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.central.tool("pool", "hosts", "list", "-json"))
        return found

    def state_of(self, serial: str) -> str:
        return next(str(host["State"]) for host in self.hosts() if host["SerialNumber"] == serial)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with (
        new_host("central", "127.0.0.2") as central,
        new_host("execute1", "127.0.0.4") as renewed,
        new_host("execute2", "127.0.0.5") as revoked,
    ):
        central.be_central({"SEC_HOST_CERTIFICATE_LIFETIME": str(TEN_YEARS_S)})
        for node in (renewed, revoked):
            node.join(central, "execute", {})
        yield Pool(central, renewed, revoked)


def certificate_of(directory: Path) -> Certificate:
    return read_certificate(decoded(directory / "host.pem"))


def as_host(directory: Path) -> Security:
    """Whoever has these keys."""
    return Security(SecuritySettings(keys=str(directory), ca_files=(str(directory / "ca.pem"),)))


def master_of(host: Host) -> str:
    return (host.run_dir / "master.address").read_text().splitlines()[0]


def is_refused(host: Host, security: Security) -> bool:
    """Whether this host's master has nothing to do with whoever connects."""
    try:
        with connect(master_of(host), security) as peer:
            peer.call(Ping())
    except PeerError:
        return True
    return False


def life_s(directory: Path) -> float:
    """How long the host's certificate is good for, from its making to its end."""
    issued = certify.issued_as(ssl.PEM_cert_to_DER_cert((directory / "host.pem").read_text()))
    return issued.ends_at - issued.made_at


def shown_by(host: Host, security: Security) -> Certificate:
    """The certificate that a host's master shows to a new connection."""
    with connect(master_of(host), security) as peer:
        assert peer.link.certificate is not None
        return peer.link.certificate


def is_cut(peer: BlockingPeer) -> bool:
    try:
        peer.call(Ping())
    except PeerError:
        return True
    return False


def test_certificates_of_ten_years_are_replaced_and_worth_nothing_then(pool: Pool, tmp_path: Path) -> None:
    central, node = pool.central, pool.renewed
    old = tmp_path / "old"
    shutil.copytree(node.directory / "keys", old)
    before, own_before = certificate_of(old), certificate_of(central.directory / "keys")
    daemons = [node.pid_of("startd"), central.pid_of("collector")]
    assert not is_refused(central, as_host(old))
    shorter_s = min(NINETY_DAYS_S, int(life_s(old)) // 2)  # again shorter when this is asked of the pool again
    with open(central.directory / "config", "a") as config:
        config.write(f"SEC_HOST_CERTIFICATE_LIFETIME = {shorter_s}\n")
    central.tool("condor_reconfig")

    node.until(lambda: certificate_of(node.directory / "keys").serial != before.serial, "the next certificate")
    after = certificate_of(node.directory / "keys")
    assert (after.host, after.duties, after.names) == (before.host, before.duties, before.names)
    assert life_s(node.directory / "keys") < 1.01 * shorter_s < life_s(old)
    central.until(lambda: pool.state_of(before.serial) == "revoked", "the end of the earlier certificate")
    central.until(lambda: is_refused(central, as_host(old)), "a refusal")
    assert not is_refused(central, as_host(node.directory / "keys"))
    assert shown_by(node, as_host(central.directory / "keys")).serial == after.serial

    central.until(
        lambda: certificate_of(central.directory / "keys").serial != own_before.serial, "the next certificate"
    )
    assert not is_refused(central, as_host(node.directory / "keys"))
    assert [node.pid_of("startd"), central.pid_of("collector")] == daemons
    names = {node.name, pool.revoked.name}
    assert {ad["Machine"] for ad in central.slots()} == names


def test_a_host_gets_no_other_certificate_than_its_own(pool: Pool, tmp_path: Path) -> None:
    """Its certificate is no word to join with, and a renewal has nothing that could be asked for."""
    assert WatchMembership().__dict__ == {}
    request = make_host_key(tmp_path / "keys", f"other.{DOMAIN}")
    with connect(master_of(pool.central), as_host(pool.renewed.directory / "keys")) as master:
        for name in (f"other.{DOMAIN}", pool.renewed.name):
            with pytest.raises(PeerError, match="a token with a duty is needed"):
                master.call(JoinPool(host=name, csr=request))


def test_a_revoked_host_is_cut_off_everywhere_at_once(pool: Pool, tmp_path: Path) -> None:
    central, node, other = pool.central, pool.revoked, pool.renewed
    stolen = tmp_path / "stolen"
    shutil.copytree(node.directory / "keys", stolen)
    thief = as_host(stolen)
    with connect(master_of(central), thief) as to_central, connect(master_of(other), thief) as to_other:
        assert not is_cut(to_central)
        assert not is_cut(to_other)
        said = central.tool("pool", "hosts", "revoke", node.name)
        assert f"of {node.name}" in said
        central.until(lambda: is_cut(to_central), "the cut at the central manager")
        central.until(lambda: is_cut(to_other), "the cut at another host")
    for host in (central, other):
        assert is_refused(host, thief)
    assert node.name not in {ad["Machine"] for ad in central.slots()}
    mine = as_host(central.directory / "keys")
    with pytest.raises(PeerError, match=f"the certificate of {node.name} was revoked"):
        connect(
            master_of(node),
            Security(
                SecuritySettings(keys=mine.settings.keys, ca_files=mine.settings.ca_files),
                revoked=Revoked(str(central.run_dir / "revoked")),
            ),
        )
    come_back(pool)


def come_back(pool: Pool) -> None:
    """The revoked host joins with a new key."""
    central, node = pool.central, pool.revoked
    if node.master is not None:
        node.stop()
    (node.directory / "keys" / "host.key").unlink()
    node.join_with(central, central.tool("pool", "token", "create", "--for", "execute", "--host", node.name))
    node.start()
    central.until(lambda: node.name in {ad["Machine"] for ad in central.slots()}, "its slots")


def test_a_revoked_host_comes_back_with_a_new_key_alone(pool: Pool) -> None:
    central, node = pool.central, pool.revoked
    central.tool("pool", "hosts", "revoke", node.name)
    word = central.tool("pool", "token", "create", "--for", "execute", "--host", node.name)
    node.stop()
    with pytest.raises(AssertionError, match="the key of this host was revoked"):
        node.join_with(central, word)
    come_back(pool)
    assert not is_refused(central, as_host(node.directory / "keys"))


def test_a_host_whose_certificate_has_expired_joins_again(pool: Pool) -> None:
    """It was off for long; its key is still its own, and its name."""
    central, node = pool.central, pool.revoked
    node.stop()
    own = node.directory / "keys"
    expired = certify.sign_host(
        central.directory / "keys",
        make_host_key(own, node.name),
        host=node.name,
        trust_domain=DOMAIN,
        duties=["execute"],
        lifetime_s=-60.0,
    )
    (own / "host.pem").write_bytes(expired.pem)
    assert is_refused(central, as_host(own))
    node.join_with(central, central.tool("pool", "token", "create", "--for", "execute", "--host", node.name))
    assert not is_refused(central, as_host(own))
    node.start()
    central.until(lambda: node.name in {ad["Machine"] for ad in central.slots()}, "its slots")
