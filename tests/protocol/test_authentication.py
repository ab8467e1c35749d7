"""Who is who over each kind of channel, and what is refused."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio

from pool.base.errors import PeerError, UserError
from protocol.network.channel import pair_channel
from protocol.network.net import RealNetwork
from protocol.rpc.endpoints import Peer, connected, open_pair
from protocol.security import certify, idtoken, keys, signed_token
from protocol.security.authorize import ALL_LEVELS, Level
from protocol.security.credentials import Security
from protocol.security.identity import Certificate, Credentials, Greeting, Link
from protocol.security.idtoken import BadToken
from protocol.security.ticket import ANY_PEER, Bearer, digest_of, new_secret
from protocol.wire.address import Address
from protocol.wire.message import replace
from tests.fakes.host_keys import make_host_key
from tests.fakes.network import FakeNetwork
from tests.protocol.echo import DOMAIN, NOBODY, SIGNING_KEY, Echo, EchoService, a_security, a_tool, serving, until

ADDRESS = Address.tcp("cm", 9618, sock="echo")


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def meet(network: FakeNetwork, client: Security, server: Security, *, as_host: str = "laptop") -> Peer:
    """Connect once; the peer as the server saw it."""
    service = EchoService()
    async with serving(service, [await network.host("cm", duties={"central"}).listen(ADDRESS)], server):
        async with connected(ADDRESS, security=client, network=network.host(as_host)) as peer:
            await peer.call(Echo(text=""))
            return service.peers[0]


async def test_root_and_the_pools_owner_have_every_level(tmp_path: Path) -> None:
    network = FakeNetwork()
    host = network.host("cm", duties={"central"})
    address = Address.unix("/run/echo.sock")
    service = EchoService()
    server = a_security(owner_uid=4711)
    async with serving(service, [await host.listen(address)], server):
        for uid in (0, 4711, NOBODY):
            async with connected(address, security=a_security(), network=host.as_user(uid)):
                pass
    root, owner, nobody = service.peers
    assert root.levels == owner.levels == ALL_LEVELS
    assert nobody.levels == {Level.READ, Level.WRITE}
    assert (root.identity, owner.identity, nobody.uid) == ("root@pool.test", "uid4711@pool.test", NOBODY)


async def test_a_token_proves_its_subject(tmp_path: Path) -> None:
    token = a_security().create_token("alice", lifetime_s=60)
    peer = await meet(FakeNetwork(), a_tool(str(tmp_path), token), a_security())
    assert (peer.identity, peer.method, peer.levels) == ("alice@pool.test", "TOKEN", {Level.READ, Level.WRITE})


async def test_a_tokens_scopes_take_levels_away(tmp_path: Path) -> None:
    token = a_security().create_token("alice", scopes=["READ"])
    peer = await meet(FakeNetwork(), a_tool(str(tmp_path), token), a_security())
    assert peer.levels == {Level.READ}


async def test_a_daemons_token_makes_a_daemon_but_no_negotiator(tmp_path: Path) -> None:
    token = a_security().create_token(f"condor@{DOMAIN}")
    peer = await meet(FakeNetwork(), a_tool(str(tmp_path), token), a_security())
    assert peer.allows(Level.DAEMON)
    assert not peer.allows(Level.NEGOTIATOR)
    assert not peer.allows(Level.ADMINISTRATOR)


async def test_a_daemons_token_is_held_by_its_scopes(tmp_path: Path) -> None:
    scoped = a_security().create_token(f"condor@{DOMAIN}", scopes=["DAEMON"])
    peer = await meet(FakeNetwork(), a_tool(str(tmp_path), scoped), a_security())
    assert peer.allows(Level.DAEMON)
    assert not peer.allows(Level.WRITE)


async def test_nobody_is_a_host_but_by_its_certificate(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no identity that a token can state"):
        a_security().create_token(f"host/cm@{DOMAIN}")
    forged = signed_token.create_token(SIGNING_KEY, subject=f"host/cm@{DOMAIN}", issuer=DOMAIN, now=1.0, id="1")
    with pytest.raises(BadToken, match="malformed"):
        idtoken.read(idtoken.take_apart(forged), issuer=DOMAIN, now=2.0)
    link = Link(kind="tls", host="10.0.0.1", verified=True)
    with pytest.raises(PeerError, match="without a user name"):
        a_security().server(link).verify("CLAIMTOBE", {"user": f"host/cm@{DOMAIN}"}, Greeting())


async def test_a_token_to_join_with_is_for_nothing_else(tmp_path: Path) -> None:
    token = a_security().create_token("new-host", duty="execute")
    peer = await meet(FakeNetwork(), a_tool(str(tmp_path), token), a_security())
    assert peer.levels == {Level.READ}
    assert peer.duties == {"execute"}


async def test_a_token_of_another_pool_is_refused_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = a_security(signing={"POOL": b"o" * 32}).create_token("alice")
    with pytest.raises(PeerError, match="signature does not hold"):
        await meet(FakeNetwork(), a_tool(str(tmp_path), token), a_security())
    assert len(refusals(caplog)) == 1
    assert "connection from <laptop> refused: the token's signature does not hold" in refusals(caplog)[0]


async def test_an_expired_token_is_refused(tmp_path: Path) -> None:
    token = a_security().create_token("alice", lifetime_s=60)
    late = a_security(now=lambda: 4e9)
    with pytest.raises(PeerError, match="the token expired"):
        await meet(FakeNetwork(), a_tool(str(tmp_path), token), late)


async def test_a_client_passes_over_tokens_that_are_of_no_use(tmp_path: Path) -> None:
    good = a_security().create_token("alice", lifetime_s=60)
    expired = a_security(now=lambda: 1000.0).create_token("alice", lifetime_s=60)
    foreign = a_security(trust_domain="elsewhere").create_token("alice")
    tool = a_tool(str(tmp_path), "\n".join(["rubbish", expired, foreign, good]))
    assert (await meet(FakeNetwork(), tool, a_security())).identity == "alice@pool.test"


async def test_without_anything_to_show_the_client_says_so(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="it takes TOKEN, this side offers nothing"):
        await meet(FakeNetwork(), a_tool(str(tmp_path)), a_security())


async def test_a_ticket_opens_a_connection_as_its_identity_until_it_is_revoked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = a_security()
    secret, bearer = new_secret(), Bearer(duty=ANY_PEER)
    server.tickets.add(digest_of(secret), identity="starter@pool.test", levels=[Level.WRITE], bearer=bearer, label="a1")
    peer = await meet(FakeNetwork(), a_tool("").with_ticket(secret), server)
    assert (peer.identity, peer.method, peer.ticket) == ("starter@pool.test", "TICKET", "a1")
    assert peer.levels == {Level.READ, Level.WRITE}
    server.tickets.revoke(digest_of(secret))
    server.tickets.add(digest_of("another"), identity="somebody@pool.test", levels=[], bearer=bearer)
    with pytest.raises(PeerError, match="the ticket is not valid here"):
        await meet(FakeNetwork(), a_tool("").with_ticket(secret), server)
    assert secret not in caplog.text


@pytest.mark.parametrize(
    ("duty", "has", "lacks"),
    [
        ("central", {Level.NEGOTIATOR, Level.DAEMON, Level.ADVERTISE_STARTD, Level.ADMINISTRATOR}, {Level.CONFIG}),
        ("submit", {Level.DAEMON, Level.ADVERTISE_SCHEDD}, {Level.NEGOTIATOR, Level.ADVERTISE_STARTD, Level.WRITE}),
        ("execute", {Level.DAEMON, Level.ADVERTISE_STARTD}, {Level.NEGOTIATOR, Level.ADVERTISE_SCHEDD, Level.WRITE}),
    ],
)
async def test_a_hosts_duty_says_what_it_may_do(duty: str, has: set[Level], lacks: set[Level]) -> None:
    network = FakeNetwork()
    network.host("member", duties={duty})
    peer = await meet(network, a_security(), a_security(), as_host="member")
    assert (peer.identity, peer.method, peer.duties) == ("host/member@pool.test", "SSL", {duty})
    assert peer.host_name == "member"
    assert has <= peer.levels
    assert not lacks & peer.levels


async def test_claimtobe_and_anonymous_only_where_they_are_named() -> None:
    with pytest.raises(PeerError, match="no way to authenticate"):
        await meet(FakeNetwork(), a_tool("", offer=("CLAIMTOBE", "ANONYMOUS")), a_security())
    peer = await meet(FakeNetwork(), a_tool("", offer=("CLAIMTOBE",)), a_security(accept=("CLAIMTOBE",)))
    assert peer.method == "CLAIMTOBE"
    peer = await meet(FakeNetwork(), a_tool("", offer=("ANONYMOUS",)), a_security(accept=("ANONYMOUS",)))
    assert (peer.identity, peer.levels) == ("unauthenticated@unmapped", {Level.READ})


async def test_parent_and_child_know_each_other_by_birth() -> None:
    import socket

    ours, theirs = socket.socketpair()
    parent_security = a_security(pair_identity="starter", pair_levels=frozenset({Level.READ}))
    async with trio.open_nursery() as nursery:
        peers: dict[str, Peer] = {}

        async def side(name: str, sock: socket.socket, security: Security, parent: bool) -> None:
            peers[name] = await open_pair(
                nursery, pair_channel(sock), parent=parent, security=security, service=EchoService(name)
            )

        async with trio.open_nursery() as opening:
            opening.start_soon(side, "parent", ours, parent_security, True)
            opening.start_soon(side, "child", theirs, a_security(pair_identity="startd"), False)
        assert (peers["parent"].identity, peers["child"].identity) == ("starter", "startd")
        assert peers["parent"].levels == {Level.READ}
        assert (await peers["parent"].call(Echo(text="down"))).text == "down"
        assert (await peers["child"].call(Echo(text="up"))).text == "up"
        await peers["child"].aclose()
        await peers["parent"].closed.wait()


# TLS with real certificates.


@pytest.fixture
async def tls_port(pool_keys: Path, tmp_path: Path) -> AsyncIterator[tuple[Address, EchoService]]:
    """An echo service at a port of its own, with the certificate of cm.pool.test."""
    security = a_security(keys=str(pool_keys), ca_files=(str(pool_keys / "ca.pem"),))
    service = EchoService()
    listener = await RealNetwork().listen(Address.tcp("127.0.0.1", 0, alias="cm.pool.test"))
    async with serving(service, [listener], security):
        yield listener.address, service


def a_member(directory: Path, pool: Path, host: str, duty: str) -> Security:
    """A host that has joined the pool."""
    request = make_host_key(directory, host)
    certificate = certify.sign_host(pool, request, host=host, trust_domain=DOMAIN, duties=[duty]).pem.decode()
    keys.install_host_certificate(directory, certificate, (pool / "ca.pem").read_text(), key=keys.host_key(directory))
    return a_security(keys=str(directory), ca_files=(str(directory / "ca.pem"),), signing={})


async def test_a_joined_host_is_known_by_its_certificate(
    tls_port: tuple[Address, EchoService], pool_keys: Path, tmp_path: Path
) -> None:
    address, service = tls_port
    member = a_member(tmp_path / "member", pool_keys, "exec1.pool.test", "execute")
    async with connected(address, security=member) as peer:
        await peer.call(Echo(text=""))
        assert peer.duties == {"central", "submit", "execute"}
    assert (service.peers[0].duties, service.peers[0].method) == ({"execute"}, "SSL")


async def test_a_user_shows_a_token_to_a_verified_server_only(
    tls_port: tuple[Address, EchoService], pool_keys: Path, tmp_path: Path
) -> None:
    address, service = tls_port
    token = a_security().create_token("alice", lifetime_s=3600)
    tool = a_tool(str(tmp_path / "tokens"), token, ca_files=(str(pool_keys / "ca.pem"),))
    async with connected(address, security=tool) as peer:
        assert peer.me == "alice@pool.test"
    keys.make_ca(tmp_path / "other", "other.test")
    with pytest.raises(PeerError, match="the certificate does not hold"):
        async with connected(
            address, security=Security(replace(tool.settings, ca_files=(str(tmp_path / "other" / "ca.pem"),)))
        ):
            pass
    with pytest.raises(PeerError, match="no certificate of the pool's CA"):
        async with connected(address, security=Security(replace(tool.settings, ca_files=()))):
            pass
    assert len(service.peers) == 1


async def test_a_certificate_for_another_name_is_refused(pool_keys: Path, tmp_path: Path) -> None:
    """An execute host cannot answer in the central manager's place."""
    member = a_member(tmp_path / "member", pool_keys, "exec1.pool.test", "execute")
    listener = await RealNetwork().listen(Address.tcp("127.0.0.1", 0, alias="cm.pool.test"))
    service = EchoService()
    async with serving(service, [listener], member):
        with pytest.raises(PeerError, match=r"is for exec1\.pool\.test \(expected 'cm\.pool\.test'\)"):
            async with connected(listener.address, security=member):
                pass
        async with connected(replace(listener.address, alias="exec1.pool.test"), security=member) as peer:
            assert peer.duties == {"execute"}
    assert len(service.peers) == 1


async def test_a_client_certificate_of_another_ca_is_refused(
    tls_port: tuple[Address, EchoService], pool_keys: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address, service = tls_port
    keys.make_pool_keys(tmp_path / "foreign", host="evil.test", trust_domain=DOMAIN)
    foreign = a_security(keys=str(tmp_path / "foreign"), ca_files=(str(pool_keys / "ca.pem"),))
    with pytest.raises(PeerError):
        async with connected(address, security=foreign):
            pass
    await until(lambda: refusals(caplog))
    assert service.peers == []


async def test_clear_text_on_a_tls_port_costs_one_line(
    tls_port: tuple[Address, EchoService], caplog: pytest.LogCaptureFixture
) -> None:
    address, service = tls_port
    async with await trio.open_tcp_stream("127.0.0.1", address.port) as stream:
        await stream.send_all(b"hello?\n")
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
    await until(lambda: refusals(caplog))
    assert len(refusals(caplog)) == 1
    assert "no TLS with the client" in refusals(caplog)[0]
    assert service.peers == []


async def test_a_token_is_not_shown_to_a_strangers_socket(tmp_path: Path) -> None:
    """Over a unix socket too: only to root, to ourselves, or to whoever owns the directory."""
    tool = a_tool(str(tmp_path), a_security().create_token("alice"), offer=("TOKEN",))
    greeting, its = Greeting(nonce=b"n" * 32), Credentials(pid=1, uid=NOBODY, gid=NOBODY)
    stranger = Link(kind="unix", label="x", credentials=its, binding=b"here")
    with pytest.raises(PeerError, match="this side offers nothing"):
        tool.client(stranger).choose(["TOKEN", "FS"], greeting)
    assert tool.client(replace(stranger, verified=True)).choose(["TOKEN"], greeting)[0] == "TOKEN"


def test_a_ticket_is_not_shown_to_a_strangers_socket() -> None:
    its = Credentials(pid=1, uid=NOBODY, gid=NOBODY)
    stranger = Link(kind="unix", label="x", credentials=its)
    bearer = a_security(offer=()).with_ticket("secret")
    with pytest.raises(PeerError, match="without the means for TICKET"):
        bearer.client(stranger).choose(["TICKET"], Greeting())
    assert bearer.client(replace(stranger, verified=True)).choose(["TICKET"], Greeting()) == (
        "TICKET",
        {"ticket": "secret"},
    )


def test_a_ticket_is_shown_to_no_host_whose_daemon_was_not_named() -> None:
    host = Certificate(host="h", names=("h",), duties=frozenset({"execute"}), trust_domain=DOMAIN)
    link = Link(kind="tls", label="x", certificate=host, verified=True)
    bearer = a_security(offer=()).with_ticket("secret")
    with pytest.raises(PeerError, match="without the means for TICKET"):
        bearer.client(link).choose(["TICKET"], Greeting(name="master"))
    with pytest.raises(PeerError, match="expected the duty submit"):
        bearer.client(link).choose(["TICKET"], Greeting(wanted="schedd", name="master"))


@pytest.mark.parametrize(
    ("daemon", "duties"),
    [
        ("collector", {"central"}),
        ("negotiator", {"central"}),
        ("schedd", {"submit"}),
        ("agent-1000_sock", {"submit"}),
        ("startd", {"execute"}),
        ("master", {"central", "submit", "execute"}),
    ],
)
async def test_a_daemon_is_only_met_on_a_host_of_its_duty(daemon: str, duties: set[str]) -> None:
    address = Address.tcp("cm", 9618, sock=daemon)
    for duty in certify.DUTIES:
        network, service = FakeNetwork(), EchoService(daemon)
        server = a_security()
        server.tickets.add(digest_of("secret"), identity=f"x@{DOMAIN}", levels=[], bearer=Bearer(duty=ANY_PEER))
        bearer = a_tool("").with_ticket("secret")
        async with serving(service, [await network.host("cm", duties={duty}).listen(address)], server):
            if duty in duties:
                async with connected(address, security=bearer, network=network.host("other")) as peer:
                    assert peer.me == f"x@{DOMAIN}"
                continue
            with pytest.raises(PeerError, match=f"cm answers as {daemon}, with the duties {duty}"):
                async with connected(address, security=bearer, network=network.host("other")):
                    pass
            assert service.peers == []


def test_keys_are_secret_and_made_once(tmp_path: Path) -> None:
    made = partial(keys.make_pool_keys, tmp_path / "keys", host="h", trust_domain="d", publish_ca=tmp_path / "ca.pem")
    made()
    before = {path: path.read_bytes() for path in (tmp_path / "keys").rglob("*") if path.is_file()}
    made()
    after = {path: path.read_bytes() for path in (tmp_path / "keys").rglob("*") if path.is_file()}
    assert before == after
    for name in ("ca.key", "host.key", "passwords.d/POOL"):
        assert os.stat(tmp_path / "keys" / name).st_mode & 0o777 == 0o600
    assert os.stat(tmp_path / "keys").st_mode & 0o777 == 0o700
    assert (tmp_path / "ca.pem").read_bytes() == (tmp_path / "keys" / "ca.pem").read_bytes()


def test_only_the_key_of_a_certificate_request_counts(pool_keys: Path, tmp_path: Path) -> None:
    from pool.base.errors import UserError

    request = make_host_key(tmp_path, "whatever.i.say")
    with pytest.raises(UserError, match="no duty"):
        certify.sign_host(pool_keys, request, host="h", trust_domain=DOMAIN, duties=["emperor"])
    with pytest.raises(UserError, match="no certificate request"):
        certify.sign_host(pool_keys, "rubbish", host="h", trust_domain=DOMAIN, duties=["execute"])
    with pytest.raises(UserError, match="cannot sign"):
        certify.sign_host(tmp_path, request, host="h", trust_domain=DOMAIN, duties=["execute"])
    other = tmp_path / "other"
    make_host_key(other, "other")
    certificate = certify.sign_host(pool_keys, request, host="h", trust_domain=DOMAIN, duties=["execute"]).pem.decode()
    ca = (pool_keys / "ca.pem").read_text()
    with pytest.raises(UserError, match="another host's key"):
        keys.install_host_certificate(other, certificate, ca, key=keys.host_key(other))
    keys.make_ca(other, "other.test")
    with pytest.raises(UserError, match="no certificate that its CA signed"):
        keys.install_host_certificate(
            tmp_path, certificate, (other / "ca.pem").read_text(), key=keys.host_key(tmp_path)
        )
