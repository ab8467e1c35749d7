"""Time on a connection: pings, silence, handshakes that never end. On a virtual clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from protocol.network.admission import Admission, ConnectionBounds
from protocol.rpc.endpoints import ConnectionLost, Peer, TimedOut, connected, open_peer
from protocol.wire.address import Address
from tests.fakes.network import FakeNetwork
from tests.protocol.echo import Count, Echo, EchoService, Wait, a_security, serving

ADDRESS = Address.tcp("cm", 9618, sock="echo")
REST_S = 300.0


async def test_an_idle_connection_lives_by_its_pings(autojump_clock: trio.testing.MockClock) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    async with serving(EchoService(), [await cm.listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=a_security(), network=other) as peer:
            await trio.sleep(3600)
            assert (await peer.call(Echo(text="awake"))).text == "awake"


async def test_a_silent_peer_is_given_up_by_both_sides(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    service = EchoService()
    async with serving(service, [await cm.listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=a_security(), network=other) as peer:
            await peer.call(Echo(text=""))
            cut_at = trio.current_time()
            network.cut("cm", "other")
            with pytest.raises(ConnectionLost, match="silent for 3"):
                await peer.call(Wait(), timeout=None)
            assert 30 <= trio.current_time() - cut_at <= 50
            await service.peers[0].closed.wait()
            assert "silent for 3" in service.peers[0].close_reason
        assert len([r for r in caplog.records if "is silent for" in r.getMessage()]) == 2


async def test_a_call_is_cancelled_together_with_its_connection_after_a_silence(
    autojump_clock: trio.testing.MockClock,
) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    async with serving(EchoService(), [await cm.listen(ADDRESS)], a_security()):
        for _ in range(8):  # trio cancels the tasks of a scope in any order
            with trio.move_on_after(60) as scope:
                async with connected(ADDRESS, security=a_security(), network=other) as peer:
                    await peer.call(Wait(), timeout=None)
            assert scope.cancelled_caught


async def test_a_connection_that_may_rest_is_pinged_seldom(autojump_clock: trio.testing.MockClock) -> None:
    async with _resting_connection() as (_, peer, far):
        had = far._connection.frames_taken
        await trio.sleep(12 * REST_S)
        assert 10 <= far._connection.frames_taken - had <= 26
        assert not peer.is_closed
        assert not far.is_closed


async def test_who_waits_for_an_answer_on_a_connection_that_has_rested_hears_in_time_that_it_is_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _resting_connection() as (network, peer, _):
        await trio.sleep(0.9 * REST_S)
        network.cut("cm", "other")
        cut_at = trio.current_time()
        with pytest.raises(ConnectionLost, match="silent for"):
            await peer.call(Wait(), timeout=None)
        assert trio.current_time() - cut_at <= 65


async def test_a_connection_that_has_rested_and_is_doubted_is_given_up_at_once_if_nobody_is_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _resting_connection() as (network, peer, far):
        far.doubt()
        await trio.sleep(60)
        assert not far.is_closed
        network.cut("cm", "other")
        cut_at = trio.current_time()
        far.doubt()
        await far.closed.wait()
        assert trio.current_time() - cut_at <= 30
        assert not peer.is_closed


@asynccontextmanager
async def _resting_connection() -> AsyncGenerator[tuple[FakeNetwork, Peer, Peer], None]:
    """A connection on which nothing need be said: the network, and both of its ends."""
    network, service = FakeNetwork(), EchoService()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    async with serving(service, [await cm.listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=a_security(), network=other) as peer:
            await peer.call(Echo(text=""))
            for end in (peer, service.peers[0]):
                end.may_rest(REST_S)
            yield network, peer, service.peers[0]


async def test_a_short_cut_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    async with serving(EchoService(), [await cm.listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=a_security(), network=other) as peer:
            network.cut("cm")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.call, Echo(text="through"))
                await trio.sleep(15)
                network.heal()
            assert not peer.closed.is_set()


async def test_connecting_through_a_cut_times_out(autojump_clock: trio.testing.MockClock) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    async with serving(EchoService(), [await cm.listen(ADDRESS)], a_security()):
        network.cut("cm")
        with pytest.raises(TimedOut, match=r"no connection to .* within 20 s"):
            async with connected(ADDRESS, security=a_security(), network=other):
                pass


async def test_a_stranger_who_says_nothing_is_dropped_with_one_line(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other")
    async with serving(
        EchoService(), [await cm.listen(ADDRESS)], a_security(), admission=Admission(ConnectionBounds(handshake_s=10.0))
    ):
        channel = await other.connect(ADDRESS, a_security())
        await channel.stream.send_all(b"\x00")  # the first byte of a length, and no more
        with trio.fail_after(60):
            assert await channel.stream.receive_some() == b""
        lines = [record.getMessage() for record in caplog.records]
        assert lines == ["connection from <other> refused: no handshake within 10 s"]


async def test_garbage_costs_one_connection_and_one_line(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    async with serving(EchoService(), [await cm.listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=a_security(), network=other) as bystander:
            channel = await other.connect(ADDRESS, a_security())
            await channel.stream.send_all(b"GET / HTTP/1.1\r\nHost: cm\r\n\r\n")
            assert await channel.stream.receive_some() == b""
            lines = [record.getMessage() for record in caplog.records]
            assert len(lines) == 1
            assert "connection from <other> refused: a frame of 1195725856 bytes" in lines[0]
            assert (await bystander.call(Echo(text="unharmed"))).text == "unharmed"


async def test_a_peer_that_turns_to_garbage_is_dropped_with_one_line(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    async with serving(EchoService(), [await cm.listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=a_security(), network=other) as peer:
            await peer._stream.send_all(b"\x00\x00\x00\x01\xc0")
            await peer.closed.wait()
            assert [r.getMessage() for r in caplog.records if "broke the protocol" in r.getMessage()]


async def test_streams_end_when_the_host_crashes(autojump_clock: trio.testing.MockClock) -> None:
    network = FakeNetwork()
    cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
    service = EchoService()
    async with serving(service, [await cm.listen(ADDRESS)], a_security()):
        async with connected(ADDRESS, security=a_security(), network=other) as peer:
            async with peer.stream(Count()) as items:
                await anext(items)
                network.crash("cm")
                with pytest.raises(ConnectionLost):
                    async for _ in items:
                        pass
            await service.peers[0].closed.wait()


async def test_delays_are_drawn_from_the_seed(autojump_clock: trio.testing.MockClock) -> None:
    times = []
    for _ in range(2):
        network = FakeNetwork(seed=7)
        network.delay_s = (0.0, 1.0)
        cm, other = network.host("cm", duties={"central"}), network.host("other", duties={"submit"})
        began = trio.current_time()
        async with serving(EchoService(), [await cm.listen(ADDRESS)], a_security()):
            async with trio.open_nursery() as nursery:
                peer = await open_peer(nursery, ADDRESS, security=a_security(), network=other)
                for _ in range(5):
                    await peer.call(Echo(text=""))
                times.append(trio.current_time() - began)
                await peer.aclose()
    assert times[0] == pytest.approx(times[1])
    assert times[0] > 1
