"""One TCP port for all daemons of a host."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio

from pool.base.errors import PeerError
from protocol.network import port_server
from protocol.network.admission import Admission
from protocol.network.listening import open_port
from protocol.network.net import RealNetwork
from protocol.network.shared_port import PREFACE_BYTES, begins_well, preface, read_preface
from protocol.rpc.endpoints import connected
from protocol.security.credentials import Security
from protocol.wire.address import Address
from protocol.wire.message import replace
from tests.protocol.echo import Echo, EchoService, a_security, serving, until


@pytest.fixture
def security(pool_keys: Path) -> Security:
    return a_security(keys=str(pool_keys), ca_files=(str(pool_keys / "ca.pem"),))


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Address]:
    """A shared port whose daemons' endpoints are in tmp_path."""
    async with trio.open_nursery() as nursery:
        yield await nursery.start(partial(RealNetwork().share_port, Address.tcp("127.0.0.1", 0), str(tmp_path)))
        nursery.cancel_scope.cancel()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_each_daemon_is_reached_by_its_name(port: Address, tmp_path: Path, security: Security) -> None:
    network = RealNetwork()
    schedd, startd = EchoService("schedd"), EchoService("startd")
    at = {name: await network.listen_shared(str(tmp_path), replace(port, sock=name)) for name in ("schedd", "startd")}
    async with serving(schedd, [at["schedd"]], security), serving(startd, [at["startd"]], security):
        for name, service in (("schedd", schedd), ("startd", startd)):
            async with connected(replace(port, sock=name), security=security) as peer:
                assert (await peer.call(Echo(text=name))).text == name
            assert len(service.peers) == 1
            assert service.peers[0].link.host == "127.0.0.1"


async def test_a_connection_without_preface_is_the_collectors(
    port: Address, tmp_path: Path, security: Security
) -> None:
    listener = await RealNetwork().listen_shared(str(tmp_path), replace(port, sock="collector"))
    async with serving(EchoService("collector"), [listener], security):
        async with connected(port, security=security) as peer:
            assert (await peer.call(Echo(text="found"))).text == "found"


async def test_a_daemon_listens_on_its_unix_socket_too(port: Address, tmp_path: Path, security: Security) -> None:
    network = RealNetwork()
    shared = await network.listen_shared(str(tmp_path), replace(port, sock="schedd"))
    local = await network.listen(Address.unix(str(tmp_path / "schedd.sock")))
    service = EchoService("schedd")
    async with serving(service, [shared, local], security):
        for address in (shared.address, local.address):
            async with connected(address, security=security):
                pass
    assert [peer.method for peer in service.peers] == ["SSL", "FS"]


async def test_the_name_inside_tls_must_agree_with_the_preface(
    port: Address, tmp_path: Path, security: Security, caplog: pytest.LogCaptureFixture
) -> None:
    listener = await RealNetwork().listen_shared(str(tmp_path), replace(port, sock="schedd"))
    async with serving(EchoService(""), [listener], security):
        with pytest.raises(PeerError, match="a connection for 'startd' reached 'schedd'"):
            async with connected(replace(port, sock="schedd"), security=security, name="startd"):
                pass
        await until(lambda: lines(caplog))
        assert len(lines(caplog)) == 1


async def test_a_daemon_that_is_not_there_costs_one_connection_and_one_line(
    port: Address, security: Security, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PeerError):
        async with connected(replace(port, sock="nobody"), security=security):
            pass
    await until(lambda: lines(caplog))
    assert len(lines(caplog)) == 1
    assert "no daemon 'nobody' on this host" in lines(caplog)[0]


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 200,
        b"MPSP1",
        b"MPSP1 ../../etc".ljust(PREFACE_BYTES - 1) + b"\n",
        b"MPSP2 x",
    ],
)
async def test_garbage_costs_one_connection_and_one_line(
    port: Address, tmp_path: Path, security: Security, caplog: pytest.LogCaptureFixture, noise: bytes
) -> None:
    listener = await RealNetwork().listen_shared(str(tmp_path), replace(port, sock="schedd"))
    async with serving(EchoService("schedd"), [listener], security):
        stream = await trio.open_tcp_stream("127.0.0.1", port.port)
        try:
            await stream.send_all(noise)
            await stream.send_eof()
            assert await stream.receive_some() == b""
        except trio.BrokenResourceError:
            pass
        await stream.aclose()
        await until(lambda: lines(caplog))
        assert len(lines(caplog)) == 1
        async with connected(replace(port, sock="schedd"), security=security) as peer:
            assert (await peer.call(Echo(text="unharmed"))).text == "unharmed"


async def test_a_preface_that_never_ends_is_dropped_and_harms_nobody(
    tmp_path: Path, security: Security, caplog: pytest.LogCaptureFixture
) -> None:
    sock = await open_port(Address.tcp("127.0.0.1", 0))
    port = Address.tcp("127.0.0.1", sock.getsockname()[1], sock="schedd")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(port_server.share, sock, str(tmp_path), Admission(), preface_s=0.2))
        slow = await trio.open_tcp_stream("127.0.0.1", port.port)
        await slow.send_all(b"MPSP1 sch")
        with trio.fail_after(60):
            try:
                assert await slow.receive_some() == b""
            except trio.BrokenResourceError:
                pass
        await slow.aclose()
        assert "no preface within 0.2 s" in lines(caplog)[0]
        nursery.cancel_scope.cancel()
    sock.close()


async def test_only_the_pools_account_can_pass_connections(tmp_path: Path) -> None:
    listener = await RealNetwork().listen_shared(str(tmp_path), Address.tcp("127.0.0.1", 9618, sock="schedd"))
    assert (tmp_path / "schedd.port").stat().st_mode & 0o777 == 0o600
    await listener.aclose()
    assert not (tmp_path / "schedd.port").exists()


async def test_a_message_without_connection_is_passed_over(
    tmp_path: Path, security: Security, port: Address, caplog: pytest.LogCaptureFixture
) -> None:
    listener = await RealNetwork().listen_shared(str(tmp_path), replace(port, sock="schedd"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"schedd", str(tmp_path / "schedd.port"))
    async with serving(EchoService("schedd"), [listener], security):
        async with connected(replace(port, sock="schedd"), security=security):
            pass
    assert "a message without a connection" in lines(caplog)[0]


@pytest.mark.parametrize("name", ["schedd", "startd_exec1.pool.test", "a" * 64, "slot1@host"])
def test_a_name_survives_the_preface(name: str) -> None:
    data = preface(name)
    assert len(data) == PREFACE_BYTES
    assert all(begins_well(data[:count]) for count in range(len(data)))
    assert read_preface(data) == name


@pytest.mark.parametrize("name", ["", "a" * 65, "a/b", "a b", "a\nb", "ü"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(PeerError, match="not the name of a daemon"):
        preface(name)


@pytest.mark.parametrize("backlog", [1, 4096])
async def test_as_many_connections_wait_as_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backlog: int
) -> None:
    listened: list[int] = []
    monkeypatch.setattr(socket.socket, "listen", lambda self, number=0: listened.append(number))
    listener = await RealNetwork(backlog).listen(Address.unix(str(tmp_path / "sock")))
    await listener.aclose()
    listener = await RealNetwork(backlog).listen(Address.tcp("127.0.0.1", 0))
    await listener.aclose()
    assert listened == [backlog, backlog]
