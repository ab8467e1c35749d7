"""What a reconfiguration means for those who are connected already."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from protocol.rpc.endpoints import ConnectionLost, Peer, RemoteError, connected
from protocol.security.authorize import Level, access_lists
from protocol.security.credentials import Security
from protocol.security.ticket import ANY_PEER, Bearer, digest_of
from protocol.wire.address import Address
from protocol.wire.message import replace
from tests.fakes.network import FakeNetwork
from tests.protocol.echo import DOMAIN, LISTS, NOBODY, Count, Echo, EchoService, a_security, a_tool, serving, until

ADDRESS = Address.tcp("cm", 9618, sock="echo")


def change(security: Security, **values: Any) -> None:
    """As a reconfiguration does it."""
    security.now = values.pop("now", security.now)
    security.renew(Security(replace(security.settings, **values)))


async def test_lists_count_from_now_on() -> None:
    server, service, host = a_security(owner_uid=0), EchoService(), FakeNetwork().host("cm")
    address = Address.unix("/run/echo.sock")
    async with serving(service, [await host.listen(address)], server):
        async with connected(address, security=a_security(), network=host.as_user(NOBODY)) as peer:
            await peer.call(Echo(text=""))
            change(server, lists=access_lists({"READ": ["*"]}, {"READ": [f"uid{NOBODY}@*", "nobody@*"]}))
            with trio.fail_after(60):
                while Level.READ in service.peers[0].levels:
                    await trio.sleep(0)
            with pytest.raises(RemoteError, match="needs READ"):
                await peer.call(Echo(text=""))
            change(server, lists=LISTS)
            await until(lambda: Level.WRITE in service.peers[0].levels)
            await peer.call(Echo(text=""))


async def test_a_stream_ends_when_its_reader_may_read_no_more(tmp_path: Any) -> None:
    server, service, network = a_security(), EchoService(), FakeNetwork()
    tool = a_tool(str(tmp_path), a_security().create_token("alice"))

    async def read(peer: Peer) -> None:
        async with peer.stream(Count(), credit=4) as items:
            async for item in items:
                if item == 0:
                    change(server, lists=access_lists({}, {"READ": ["alice@*"]}))

    async with serving(service, [await network.host("cm", duties={"central"}).listen(ADDRESS)], server):
        async with connected(ADDRESS, security=tool, network=network.host("laptop")) as peer:
            with pytest.raises(RemoteError, match="needs READ by now"):
                await read(peer)
            await until(lambda: service.stopped == 1)
            assert not peer.closed.is_set()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"token_revoked": lambda claims: claims["sub"] == f"alice@{DOMAIN}"}, "the token was revoked"),
        ({"token_age_max_s": 60.0, "now": lambda: 4e9}, "older than 60 s"),
        ({"accept": ("FS", "SSL")}, "method TOKEN is not taken here any more"),
    ],
)
async def test_a_proof_that_is_void_loses_its_connection(tmp_path: Any, changed: dict[str, Any], said: str) -> None:
    server, service, network = a_security(), EchoService(), FakeNetwork()
    tokens = {name: a_security().create_token(name) for name in ("alice", "bob")}
    async with serving(service, [await network.host("cm", duties={"central"}).listen(ADDRESS)], server):
        async with connected(
            ADDRESS, security=a_tool(str(tmp_path), tokens["alice"]), network=network.host("laptop")
        ) as peer:
            change(server, **changed)
            with trio.fail_after(60):
                await peer.closed.wait()
            with pytest.raises(ConnectionLost, match=said):
                await peer.call(Echo(text=""))


async def test_others_keep_their_connections(tmp_path: Any) -> None:
    server, service, network = a_security(), EchoService(), FakeNetwork()
    network.host("member", duties={"execute"})
    async with serving(service, [await network.host("cm", duties={"central"}).listen(ADDRESS)], server):
        async with connected(ADDRESS, security=a_security(), network=network.host("member")) as peer:
            before = service.peers[0].who
            change(server, token_revoked=lambda claims: True)
            assert (await peer.call(Echo(text="still here"))).text == "still here"
            assert service.peers[0].who == before


async def test_a_revoked_ticket_takes_its_label_and_levels_from_open_connections() -> None:
    server, service, network = a_security(), EchoService(), FakeNetwork()
    bearer = Bearer(duty=ANY_PEER)

    def accept(secret: str, label: str) -> None:
        server.tickets.add(digest_of(secret), identity="starter@x", levels=[Level.READ], bearer=bearer, label=label)

    accept("one", "claim")
    accept("other", "another claim")
    async with serving(service, [await network.host("cm", duties={"central"}).listen(ADDRESS)], server):
        async with (
            connected(ADDRESS, security=a_tool("").with_ticket("one"), network=network.host("laptop")) as peer,
            connected(ADDRESS, security=a_tool("").with_ticket("other"), network=network.host("laptop")) as neighbour,
        ):
            await neighbour.call(Echo(text=""))
            await peer.call(Echo(text=""))
            mine = next(one for one in service.peers if one.ticket == "claim")
            server.tickets.revoke(digest_of("one"))
            accept("a third", "claim")  # the claim goes on, with another ticket
            assert (mine.ticket, mine.levels) == ("", frozenset())
            with pytest.raises(RemoteError, match="needs READ"):
                await peer.call(Echo(text=""))
            assert (await neighbour.call(Echo(text="still here"))).text == "still here"
            accept("one", "next")
            assert mine.ticket == "next"
            assert (await peer.call(Echo(text="again"))).text == "again"
        await until(lambda: not server.tickets._watchers)


async def test_what_was_granted_to_a_server_stays() -> None:
    network, client = FakeNetwork(), a_security()
    async with serving(EchoService(), [await network.host("cm", duties={"central"}).listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=client, network=network.host("member", duties={"execute"})) as peer:
            assert isinstance(peer, Peer)
            peer.grant(Level.CONFIG)
            client.judge_again()
            assert peer.allows(Level.CONFIG)
        assert not client._watchers
