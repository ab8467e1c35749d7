"""Calls, streams and notices; the same over unix sockets, TLS and the network in memory."""

from __future__ import annotations

import logging

import pytest
import trio

from pool.base.errors import PeerError
from pool.base.ids import JobId
from protocol.rpc.connection import ConnectionLimits
from protocol.rpc.endpoints import ConnectionLost, Peer, RemoteError, TimedOut, connected, open_peer
from protocol.rpc.outbox import REST_S
from protocol.rpc.service import Service, answer
from protocol.security.authorize import Level, access_lists
from protocol.security.credentials import Security
from protocol.wire.message import replace
from tests.protocol.conftest import Wiring
from tests.protocol.echo import (
    Administrate,
    AskBack,
    Count,
    Echo,
    EchoService,
    Note,
    Refuse,
    Wait,
    serving,
    until,
)


async def test_a_call_brings_its_answer(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            answer = await peer.call(Echo(text="hello", job=JobId(7, 1)))
            assert (answer.text, answer.job) == ("hello", JobId(7, 1))


async def test_both_sides_know_each_other(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            await peer.call(Echo(text=""))
            (client,) = service.peers
            assert peer.me == client.identity
            assert client.method == {"unix": "FS", "tls": "SSL", "memory": "SSL"}[wiring.kind]
            assert peer.identity.endswith("@pool.test")
            assert client.allows(Level.DAEMON)
            assert (client.uid is not None) is (wiring.kind == "unix")


async def test_calls_overtake_each_other(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.call, Wait())
                await until(lambda: service.waiting)
                assert (await peer.call(Echo(text="first"))).text == "first"
                service.gate.set()


async def test_large_messages_pass_whole(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            answer = await peer.call(Echo(text="0123456789", times=500_000), timeout=60)
            assert answer.text == "0123456789" * 500_000


async def test_the_server_can_ask_the_client_on_the_same_connection(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(
            wiring.address, security=wiring.client_security, network=wiring.client, service=EchoService("client")
        ) as peer:
            assert (await peer.call(AskBack())).text == "asked back"


async def test_a_handlers_error_reaches_the_caller_with_its_words(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(RemoteError, match=r"no such thing \(expected another\)") as caught:
                await peer.call(Refuse())
            assert caught.value.code == "UserError"


async def test_a_bug_in_a_handler_costs_one_answer_and_tells_nothing(
    wiring: Wiring, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(RemoteError, match=r"^internal error$") as caught:
                await peer.call(Refuse(how="bug"))
            assert caught.value.code == "internal"
            assert "ZeroDivisionError" in caplog.text
            assert (await peer.call(Echo(text="still here"))).text == "still here"


async def test_what_needs_a_level_is_denied_without_it(wiring: Wiring, caplog: pytest.LogCaptureFixture) -> None:
    security = Security(replace(wiring.server_security.settings, lists=access_lists({}, {"ADMINISTRATOR": ["*"]})))
    async with serving(EchoService(), [wiring.listener], security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(RemoteError, match=r"needs ADMINISTRATOR for test\.administrate") as caught:
                await peer.call(Administrate())
            assert caught.value.code == "denied"
            assert [r for r in caplog.records if "PERMISSION DENIED" in r.message]


async def test_an_unknown_request_is_refused_by_its_name(wiring: Wiring) -> None:
    service = EchoService()
    service._entries.pop("test.echo")
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(RemoteError, match=r"echo does not answer test\.echo") as caught:
                await peer.call(Echo(text=""))
            assert caught.value.code == "unknown_request"


async def test_a_malformed_request_is_refused_by_its_field(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(RemoteError, match=r"test\.echo: field times: expected int, got 'x'") as caught:
                await peer.call(Echo(text="", times="x"))  # type: ignore[arg-type]
            assert caught.value.code == "bad_request"


async def test_a_stream_brings_all_items_in_order(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            async with peer.stream(Count(until=500), credit=8) as items:
                assert [item async for item in items] == list(range(500))


async def test_a_stream_waits_for_a_slow_receiver(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            async with peer.stream(Count(), credit=10) as items:
                assert [await anext(items) for _ in range(25)] == list(range(25))
                for _ in range(20):  # whatever it could send it has sent
                    await peer.call(Echo(text=""))
                assert service.sent <= 25 + 10 + 1


async def test_leaving_a_stream_stops_its_sender(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            async with peer.stream(Count()) as items:
                assert await anext(items) == 0
            await until(lambda: service.stopped)
            assert (await peer.call(Echo(text="on we go"))).text == "on we go"


async def test_a_streams_error_follows_its_items(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            async with peer.stream(Count(fail_at=5)) as items:
                assert [await anext(items) for _ in range(5)] == [0, 1, 2, 3, 4]
                with pytest.raises(RemoteError, match="cannot count any further"):
                    await anext(items)


async def test_notices_are_handled_in_order(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            for number in range(200):
                await peer.notify(Note(text=str(number)))
            await until(lambda: len(service.notes) == 200)
            assert service.notes == [str(number) for number in range(200)]


async def test_a_flood_of_notices_is_taken_at_the_handlers_pace(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            for number in range(5000):
                await peer.notify(Note(text=str(number)))
            await until(lambda: len(service.notes) == 5000)
            assert service.notes[-1] == "4999"


async def test_notices_sent_just_before_closing_arrive(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            for number in range(50):
                await peer.notify(Note(text=str(number)))
        await until(lambda: len(service.notes) == 50)


async def test_a_call_past_its_deadline_times_out_and_its_late_answer_is_dropped(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(TimedOut, match=r"no answer to test\.wait from .* within 0\.01 s"):
                await peer.call(Wait(), timeout=0.01)
            await until(lambda: service.waiting)
            service.gate.set()
            await until(lambda: service.finished)  # a call that has begun ends, though nobody waits for it
            assert (await peer.call(Echo(text="in step"))).text == "in step"


async def test_a_cancelled_call_leaves_the_connection_in_step(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(peer.call, Wait())
                    await until(lambda: service.waiting)
                    scope.cancel()
            assert (await peer.call(Echo(text="in step"))).text == "in step"


async def test_whoever_waits_learns_that_the_connection_is_lost(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with trio.open_nursery() as nursery:
            peer = await open_peer(nursery, wiring.address, security=wiring.client_security, network=wiring.client)
            lost: list[str] = []
            peer.on_close(lambda peer: lost.append(peer.close_reason))

            async def wait_in_vain() -> None:
                with pytest.raises(ConnectionLost):
                    await peer.call(Wait(), timeout=None)

            nursery.start_soon(wait_in_vain)
            await until(lambda: service.waiting)
            service.peers[0].abort("the test says so")
            await peer.closed.wait()
        assert len(lost) == 1
        with pytest.raises(ConnectionLost):
            await peer.call(Echo(text=""))
        with pytest.raises(ConnectionLost):
            await peer.notify(Note(text=""))
        called_at_once: list[Peer] = []
        peer.on_close(called_at_once.append)
        assert called_at_once == [peer]


async def test_a_handler_ends_what_it_began_though_its_caller_is_gone(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(TimedOut):
                await peer.call(Wait(), timeout=0.01)
            await until(lambda: service.waiting)
        await until(lambda: service.peers[0].closed.is_set())
        service.gate.set()
        await until(lambda: service.finished)


async def test_an_error_inside_a_connected_block_comes_out_as_itself(wiring: Wiring) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        with pytest.raises(RemoteError):
            async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
                await peer.call(Refuse())


async def test_the_wrong_daemon_is_refused_by_name(wiring: Wiring, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        with pytest.raises(PeerError, match="a connection for 'schedd' reached 'echo'"):
            async with connected(wiring.address, security=wiring.client_security, network=wiring.client, name="schedd"):
                pass
        await until(lambda: _refusals(caplog))
        assert len(_refusals(caplog)) == 1


async def test_nobody_listening_is_an_error_that_says_where(wiring: Wiring) -> None:
    await wiring.listener.aclose()
    with pytest.raises(PeerError) as caught:
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client):
            pass
    assert str(wiring.address) in str(caught.value)


async def test_more_calls_than_agreed_are_refused_and_the_rest_go_on(wiring: Wiring) -> None:
    from protocol.rpc.connection import ConnectionLimits

    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security, limits=ConnectionLimits(calls_max=4)):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            refused = []

            async def call() -> None:
                try:
                    await peer.call(Wait(), timeout=60)
                except RemoteError as error:
                    refused.append(error.code)

            async with trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(call)
                await until(lambda: len(refused) == 2)
                service.gate.set()
            assert refused == ["busy", "busy"]
            assert service.finished == 4


async def test_a_message_over_the_limit_fails_where_it_is_made(wiring: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.rpc.connection.FRAME_BYTES_MAX", 100_000)
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            with pytest.raises(RemoteError, match="too long"):
                await peer.call(Echo(text="0123456789", times=20_000))
            assert (await peer.call(Echo(text="fits"))).text == "fits"


async def test_what_a_side_takes_of_the_other_does_not_bound_what_it_sends(wiring: Wiring) -> None:
    little = ConnectionLimits(frame_bytes_max=1000)
    async with serving(EchoService(), [wiring.listener], wiring.server_security):
        async with connected(
            wiring.address, security=wiring.client_security, network=wiring.client, limits=little
        ) as peer:
            assert (await peer.call(Echo(text="x" * 2000, times=0))).text == ""


def _refusals(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "refused" in record.getMessage()]


def test_a_message_has_one_answer_and_only_where_a_row_says_who_may_send_it() -> None:
    service = EchoService()
    with pytest.raises(TypeError, match=r"test\.echo is answered twice by echo"):
        service.offer([answer(Echo, service.echo)])
    with pytest.raises(TypeError, match=r"no row of protocol\.security\.needs says who may send test\.note to bare"):
        Service("bare", {}).offer([answer(Note, service.note)])


async def test_a_quiet_connection_has_no_task_that_writes(wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            await peer.call(Echo(text="hello"))
            (client,) = service.peers
            for side in (peer, client):
                side.look(trio.current_time() + REST_S)
            await until(lambda: not _writers())
            assert (await peer.call(Echo(text="again"))).text == "again"
            await client.notify(Note(text="more"))


def _writers() -> list[str]:
    """The tasks of this event loop that write."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    found, tasks = [], [root]
    while tasks:
        task = tasks.pop()
        found += [task.name] if task.name.endswith("._write") else []
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found
