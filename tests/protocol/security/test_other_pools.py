"""Hosts of another pool: whom they are taken for, what they may do, and where they are spoken to. Over real TLS."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pool.base.errors import ConfigError, PeerError
from protocol.network.net import RealNetwork
from protocol.rpc.endpoints import Peer, connected
from protocol.security import certify, keys
from protocol.security.authorize import AccessEntry, Level, access_lists
from protocol.security.credentials import Security
from protocol.security.identity import Certificate, Link
from protocol.security.other_pools import ANY, OtherPools, read_others
from protocol.security.settings import SecuritySettings
from protocol.security.ticket import Bearer
from protocol.wire.address import Address, of_pool
from protocol.wire.message import replace
from tests.fakes.host_keys import make_host_key
from tests.protocol.echo import Echo, EchoService, serving

HOME, AWAY = "home.test", "away.test"
LENT = frozenset({Level.ADVERTISE_SCHEDD, Level.READ})


class Pools:
    """The keys of two pools, each of which knows the other's CA."""

    def __init__(self, directory: Path) -> None:
        self.home, self.away = directory / "home", directory / "away"
        keys.make_pool_keys(self.home, host="cm.home.test", trust_domain=HOME, names=["127.0.0.1"])
        keys.make_pool_keys(self.away, host="cm.away.test", trust_domain=AWAY, names=["127.0.0.1"])
        know(self.home, AWAY, self.away)
        know(self.away, HOME, self.home)

    def host(self, name: str, duty: str, *, domain: str = AWAY) -> Security:
        """A host that has joined the other pool, which knows ours as well."""
        directory = self.away.parent / name
        request = make_host_key(directory, name)
        pem = certify.sign_host(self.away, request, host=name, trust_domain=domain, duties=[duty]).pem.decode()
        ca = (self.away / "ca.pem").read_text()
        keys.install_host_certificate(directory, pem, ca, key=keys.host_key(directory))
        know(directory, HOME, self.home)
        return a_daemon(directory, AWAY)


def know(directory: Path, domain: str, other: Path) -> None:
    (directory / "pools.d").mkdir(exist_ok=True)
    (directory / "pools.d" / f"{domain}.pem").write_text((other / "ca.pem").read_text())


def a_daemon(directory: Path, domain: str, flock_from: Iterable[str] = ()) -> Security:
    return Security(
        SecuritySettings(
            trust_domain=domain,
            uid_domain=domain,
            keys=str(directory),
            ca_files=(str(directory / "ca.pem"),),
            lists=access_lists({"READ": ["*"], "WRITE": [f"*@{domain}"]}, {}),
            flock_from=tuple(map(AccessEntry.parse, flock_from)),
            lends=LENT,
        )
    )


@pytest.fixture
def pools(tmp_path: Path) -> Pools:
    return Pools(tmp_path)


async def seen(
    server: Security, client: Security, *, name: str = "cm.home.test", pool: str = HOME
) -> tuple[Peer, Peer]:
    """Connect once: the client as the server sees it, and the server as the client does."""
    service = EchoService()
    listener = await RealNetwork().listen(Address.tcp("127.0.0.1", 0, alias=name))
    async with serving(service, [listener], server):
        async with connected(replace(listener.address, pool=pool), security=client) as peer:
            await peer.call(Echo(text=""))
            return service.peers[0], peer


@pytest.mark.parametrize("named", ["ap.away.test", "*.away.test", "host/ap.away.test@away.test", "127.0.0.1"])
async def test_an_access_point_that_is_let_in_may_do_what_its_jobs_take(pools: Pools, named: str) -> None:
    guest, _ = await seen(a_daemon(pools.home, HOME, [named]), pools.host("ap.away.test", "submit"))
    assert (guest.identity, guest.pool) == ("host/ap.away.test@away.test", AWAY)
    assert (guest.levels, guest.duties) == (LENT, {"submit"})


@pytest.mark.parametrize("named", [[], ["ap.elsewhere.test"]])
async def test_one_that_is_not_let_in_may_do_nothing(pools: Pools, named: list[str]) -> None:
    """Not even read, so that its first question is refused."""
    with pytest.raises(PeerError, match="READ"):
        await seen(a_daemon(pools.home, HOME, named), pools.host("ap.away.test", "submit"))


async def test_another_pools_central_manager_is_no_more_here_than_an_access_point(pools: Pools) -> None:
    guest, _ = await seen(a_daemon(pools.home, HOME, ["*"]), a_daemon(pools.away, AWAY))
    assert (guest.levels, guest.duties) == (LENT, {"submit"})


async def test_another_pools_execute_node_is_not_let_in(pools: Pools) -> None:
    with pytest.raises(PeerError, match="READ"):
        await seen(a_daemon(pools.home, HOME, ["*"]), pools.host("ex.away.test", "execute"))


async def test_a_pool_cannot_certify_hosts_of_this_one(pools: Pools) -> None:
    with pytest.raises(PeerError):
        await seen(a_daemon(pools.home, HOME, ["*"]), pools.host("ap.home.test", "submit", domain=HOME))


async def test_a_server_of_another_pool_is_spoken_to_only_where_that_is_meant(pools: Pools) -> None:
    home, away = a_daemon(pools.home, HOME), a_daemon(pools.away, AWAY, ["*"])
    for meant in (AWAY, ANY):
        _, server = await seen(away, home, name="cm.away.test", pool=meant)
        assert (server.pool, server.duties) == (AWAY, {"central", "submit", "execute"})
    with pytest.raises(PeerError, match=r"is of away\.test \(expected this pool's\)"):
        await seen(away, home, name="cm.away.test", pool="")


async def test_a_server_of_this_pool_is_not_taken_for_one_of_another(pools: Pools) -> None:
    home = a_daemon(pools.home, HOME)
    with pytest.raises(PeerError, match=r"is of this pool \(expected away\.test\)"):
        await seen(home, home, pool=AWAY)


async def test_another_pools_central_manager_answers_under_its_own_names_alone(pools: Pools) -> None:
    with pytest.raises(PeerError, match=r"is for cm\.away\.test"):
        await seen(a_daemon(pools.away, AWAY, ["*"]), a_daemon(pools.home, HOME), name="cm.third.test", pool=ANY)


def test_a_ticket_for_a_host_of_one_pool_is_of_no_use_to_its_namesake_in_another() -> None:
    def at(pool: str) -> Link:
        certificate = Certificate(host="ex1", names=("ex1",), duties=frozenset({"execute"}), pool=pool)
        return Link(kind="tls", certificate=certificate, verified=True)

    ours, theirs = Bearer(duty="execute", host="ex1"), Bearer(duty="execute", host="ex1", pool=AWAY)
    assert [ours.is_at(at("")), ours.is_at(at(AWAY))] == [True, False]
    assert [theirs.is_at(at("")), theirs.is_at(at(AWAY)), theirs.is_at(at("third.test"))] == [False, True, False]


def test_what_others_give_as_an_address_is_of_their_pool() -> None:
    assert (
        of_pool("<10.0.0.1:9618?alias=ex1&sock=startd>", AWAY) == "<10.0.0.1:9618?alias=ex1&sock=startd&pool=away.test>"
    )
    assert of_pool("<10.0.0.1:9618?sock=startd&pool=home.test>", AWAY) == "<10.0.0.1:9618?sock=startd&pool=away.test>"
    assert of_pool("/run/minipool/schedd.sock", AWAY) == ""  # a socket of this host is nobody else's to name
    assert of_pool("not an address", AWAY) == ""
    assert of_pool("/run/minipool/schedd.sock", "") == "/run/minipool/schedd.sock"


def test_a_pool_is_no_other_to_itself(pools: Pools, tmp_path: Path) -> None:
    know(pools.home, HOME, pools.away)  # under the own name, and
    know(pools.home, "twin.test", pools.home)  # by the own CA
    others = read_others([str(pools.home / "pools.d")], own=HOME, own_pem=(pools.home / "ca.pem").read_text())
    assert set(others.pems) == {AWAY}


def test_a_file_without_a_certificate_is_named() -> None:
    with pytest.raises(ConfigError, match=r"pools\.d/away\.test\.pem holds no certificate"):
        OtherPools({AWAY: "nothing"})
