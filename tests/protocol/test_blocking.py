"""The face for tools: the same answers as over trio, from a plain thread."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from pool.base.errors import PeerError
from pool.base.ids import JobId
from protocol.network.admission import Admission, ConnectionBounds
from protocol.rpc import blocking
from protocol.rpc.remote import ConnectionLost, RemoteError, TimedOut
from protocol.security.authorize import access_lists
from protocol.security.credentials import Security
from protocol.wire.address import Address
from protocol.wire.message import replace
from tests.protocol.conftest import Wiring
from tests.protocol.echo import (
    NOBODY,
    Administrate,
    Count,
    Echo,
    EchoService,
    Note,
    Refuse,
    Wait,
    a_security,
    serving,
    until,
)

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(work)


async def test_calls_streams_and_notices_work_as_they_do_over_trio(real_wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [real_wiring.listener], real_wiring.server_security):

        def tool() -> None:
            with blocking.connect(real_wiring.address, real_wiring.client_security) as peer:
                assert peer.call(Echo(text="hi", job=JobId(1, 0))).job == JobId(1, 0)
                assert list(peer.stream(Count(until=300), credit=8)) == list(range(300))
                peer.notify(Note(text="noted"))
                assert peer.me.endswith("@pool.test")
                assert len(peer.call(Echo(text="0123456789", times=200_000)).text) == 2_000_000

        await in_thread(tool)
        await until(lambda: service.notes == ["noted"])


async def test_errors_are_those_of_the_other_face(real_wiring: Wiring) -> None:
    security = Security(replace(real_wiring.server_security.settings, lists=access_lists({}, {"ADMINISTRATOR": ["*"]})))
    async with serving(EchoService(), [real_wiring.listener], security):

        def tool() -> None:
            with blocking.connect(real_wiring.address, real_wiring.client_security) as peer:
                with pytest.raises(RemoteError, match="no such thing") as caught:
                    peer.call(Refuse())
                assert caught.value.code == "UserError"
                with pytest.raises(RemoteError) as caught:
                    peer.call(Administrate())
                assert caught.value.code == "denied"
                with pytest.raises(TimedOut):
                    peer.call(Wait(), timeout=0.01)
                assert peer.call(Echo(text="in step")).text == "in step"
                with pytest.raises(RemoteError, match="cannot count"):
                    list(peer.stream(Count(fail_at=0)))

        await in_thread(tool)


async def test_leaving_a_stream_stops_its_sender(real_wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [real_wiring.listener], real_wiring.server_security):

        def tool() -> None:
            with blocking.connect(real_wiring.address, real_wiring.client_security) as peer:
                for number in peer.stream(Count()):
                    if number == 5:
                        break
                assert peer.call(Echo(text="on we go")).text == "on we go"

        await in_thread(tool)
        await until(lambda: service.stopped)


async def test_an_idle_tool_is_not_taken_for_dead(real_wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [real_wiring.listener], real_wiring.server_security, silence_s=0.05):
        idle = threading.Event()

        def tool() -> str:
            with blocking.connect(real_wiring.address, real_wiring.client_security) as peer:
                idle.wait()
                return peer.call(Echo(text="awake")).text

        async with trio.open_nursery() as nursery:
            answers: list[str] = []

            async def run() -> None:
                answers.append(await in_thread(tool))

            nursery.start_soon(run)
            await until(lambda: service.peers)
            peer = service.peers[0]
            peer.look(trio.current_time() + 3600)  # as if an hour had passed
            idle.set()
        assert answers == ["awake"]


async def test_a_lost_server_is_noticed(real_wiring: Wiring) -> None:
    service = EchoService()
    async with serving(service, [real_wiring.listener], real_wiring.server_security):

        def tool() -> None:
            with blocking.connect(real_wiring.address, real_wiring.client_security) as peer:
                with pytest.raises(ConnectionLost):
                    peer.call(Wait(), timeout=None)
                with pytest.raises(ConnectionLost):
                    peer.call(Echo(text=""))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_thread, tool)
            await until(lambda: service.waiting)
            service.peers[0].abort("the test says so")


async def test_the_wrong_daemon_is_refused_by_name(real_wiring: Wiring) -> None:
    async with serving(EchoService(), [real_wiring.listener], real_wiring.server_security):

        def tool() -> None:
            with pytest.raises(PeerError, match="a connection for 'schedd' reached 'echo'"):
                blocking.connect(real_wiring.address, real_wiring.client_security, name="schedd")

        await in_thread(tool)


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match=r"cannot connect to .*/none\.sock: No such file"):
        blocking.connect(str(tmp_path / "none.sock"), a_security())
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but nobody listens
        with pytest.raises(PeerError, match=r"cannot connect to <127\.0\.0\.1:\d+>: Connection refused"):
            blocking.connect(Address.tcp("127.0.0.1", closed.getsockname()[1]), a_security())


def test_a_server_that_says_nothing_times_out(tmp_path: Path) -> None:
    path = str(tmp_path / "mute.sock")
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(path)
        mute.listen()
        with pytest.raises(TimedOut, match=r"no connection to .* within 0\.05 s"):
            blocking.connect(path, a_security(), timeout=0.05)


@pytest.mark.parametrize("noise", [b"", b"\xff" * 100, b"\x00\x00\x00\x01\xc0", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_talks_nonsense_is_an_error(tmp_path: Path, noise: bytes) -> None:
    path = str(tmp_path / "odd.sock")
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(path)
        odd.listen()

        def answer() -> None:
            connection, _ = odd.accept()
            connection.recv(1000)
            connection.sendall(noise)
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(PeerError):
            blocking.connect(path, a_security(), timeout=30)
        thread.join()


async def test_a_users_connection_that_nobody_uses_is_closed_and_the_tool_can_tell(real_wiring: Wiring) -> None:
    if real_wiring.kind == "unix" and os.geteuid() == 0:
        await real_wiring.listener.aclose()
        pytest.skip("root's connections are not a user's")
    service = EchoService()
    admission = Admission()
    security = Security(replace(real_wiring.server_security.settings, owner_uid=NOBODY))
    async with serving(service, [real_wiring.listener], security, admission=admission, silence_s=0.3):

        def tool() -> None:
            token = a_security().create_token("alice", lifetime_s=60)
            mine = a_security(ca_files=real_wiring.client_security.settings.ca_files).with_token(token)
            with blocking.connect(real_wiring.address, mine) as peer:
                assert peer.call(Echo(text="hi")).text == "hi"
                admission.bounds = ConnectionBounds(idle_s=0.05)  # not before: a busy machine may keep the tool so long
                deadline = time.monotonic() + 60
                while peer.is_open():
                    assert time.monotonic() < deadline
                with pytest.raises(ConnectionLost, match="not used for"):
                    peer.call(Echo(text="too late"))

        await in_thread(tool)


def test_our_first_word_is_out_before_what_is_done_meanwhile(tmp_path: Path) -> None:
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen(1)

        def read_it() -> None:
            accepted, _ = server.accept()
            with accepted:  # and hang up, so that nobody waits for a greeting
                heard.append(accepted.recv(1024))

        with pytest.raises(PeerError):
            blocking.connect(Address.unix(str(tmp_path / "s")), Security(), meanwhile=read_it)
    assert b"versions" in heard[0]
