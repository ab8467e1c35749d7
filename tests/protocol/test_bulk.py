"""File bytes between two processes."""

from __future__ import annotations

import os
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from pool.base.errors import PeerError
from protocol.files.bulk import CHUNK_BYTES, receive_file, send_file
from protocol.files.file_copy import FileChanged
from protocol.rpc.endpoints import ConnectionLost, Peer, connected
from tests.protocol.conftest import Wiring
from tests.protocol.echo import Echo, EchoService, serving, until


@asynccontextmanager
async def two_ends(wiring: Wiring) -> AsyncIterator[tuple[Peer, Peer]]:
    """A connection: the client's side and the server's."""
    service = EchoService()
    async with serving(service, [wiring.listener], wiring.server_security):
        async with connected(wiring.address, security=wiring.client_security, network=wiring.client) as peer:
            await until(lambda: service.peers)
            yield peer, service.peers[0]


def a_file(path: Path, size: int) -> int:
    path.write_bytes(os.urandom(size))
    return os.open(path, os.O_RDONLY)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 3_000_001])
async def test_files_arrive_as_they_were(wiring: Wiring, tmp_path: Path, size: int) -> None:
    source, target = a_file(tmp_path / "from", size), os.open(tmp_path / "to", os.O_RDWR | os.O_CREAT)
    async with two_ends(wiring) as (client, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_file, client, source, size)
            crc = await receive_file(server, target, size)
        assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()
        assert crc == zlib.crc32((tmp_path / "to").read_bytes())
    os.close(source)
    os.close(target)


async def test_both_directions_and_calls_share_a_connection(wiring: Wiring, tmp_path: Path) -> None:
    size = 1_000_000
    up, down = a_file(tmp_path / "up", size), a_file(tmp_path / "down", size)
    got_up, got_down = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("got-up", "got-down"))
    async with two_ends(wiring) as (client, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_file, client, up, size)
            nursery.start_soon(send_file, server, down, size)
            nursery.start_soon(receive_file, server, got_up, size)
            nursery.start_soon(receive_file, client, got_down, size)
        assert (await client.call(Echo(text="and calls"))).text == "and calls"
    assert (tmp_path / "got-up").read_bytes() == (tmp_path / "up").read_bytes()
    assert (tmp_path / "got-down").read_bytes() == (tmp_path / "down").read_bytes()
    for descriptor in (up, down, got_up, got_down):
        os.close(descriptor)


async def test_a_file_that_shrank_fails_on_both_sides_and_the_next_one_passes(wiring: Wiring, tmp_path: Path) -> None:
    short, good = a_file(tmp_path / "short", 10), a_file(tmp_path / "good", 10)
    target = os.open(tmp_path / "to", os.O_RDWR | os.O_CREAT)
    async with two_ends(wiring) as (client, server):
        with pytest.raises(FileChanged, match="ends 90 bytes early"):
            await send_file(client, short, 100)
        with pytest.raises(PeerError, match="the sender cannot read the file: the file ends 90 bytes early"):
            await receive_file(server, target, 100)
        os.lseek(target, 0, os.SEEK_SET)
        await send_file(client, good, 10)
        await receive_file(server, target, 10)
        assert (tmp_path / "to").read_bytes() == (tmp_path / "good").read_bytes()
    for descriptor in (short, good, target):
        os.close(descriptor)


async def test_a_file_that_cannot_be_written_is_passed_over(wiring: Wiring, tmp_path: Path) -> None:
    first, second = a_file(tmp_path / "first", 2_000_000), a_file(tmp_path / "second", 5)
    full = os.open("/dev/full", os.O_WRONLY)
    target = os.open(tmp_path / "to", os.O_RDWR | os.O_CREAT)
    async with two_ends(wiring) as (client, server):
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                await send_file(client, first, 2_000_000)
                await send_file(client, second, 5)

            nursery.start_soon(send)
            with pytest.raises(OSError, match="No space left"):
                await receive_file(server, full, 2_000_000)
            await receive_file(server, target, 5)
        assert (tmp_path / "to").read_bytes() == (tmp_path / "second").read_bytes()
    for descriptor in (first, second, full, target):
        os.close(descriptor)


async def test_a_file_longer_than_announced_is_refused(wiring: Wiring, tmp_path: Path) -> None:
    source, target = a_file(tmp_path / "from", 100), os.open(tmp_path / "to", os.O_RDWR | os.O_CREAT)
    async with two_ends(wiring) as (client, server):
        await send_file(client, source, 100)
        with pytest.raises(PeerError, match="more bytes than were announced"):
            await receive_file(server, target, 50)
    os.close(source)
    os.close(target)


async def test_changed_bytes_are_noticed(wiring: Wiring, tmp_path: Path) -> None:
    target = os.open(tmp_path / "to", os.O_RDWR | os.O_CREAT)
    async with two_ends(wiring) as (client, server):
        await client.bulk.send(b"12345")
        await client.bulk.end(5, 0)
        with pytest.raises(PeerError, match="changed on their way"):
            await receive_file(server, target, 5)
    os.close(target)


async def test_a_lost_connection_ends_the_transfer(wiring: Wiring, tmp_path: Path) -> None:
    target = os.open(tmp_path / "to", os.O_RDWR | os.O_CREAT)
    async with two_ends(wiring) as (client, server):
        await client.bulk.send(b"12345")
        client.abort("the test says so")
        with pytest.raises(ConnectionLost):
            await receive_file(server, target, 50)
    os.close(target)


async def test_a_receiver_that_does_not_take_bytes_holds_the_sender_back(wiring: Wiring) -> None:
    sent = 0
    async with two_ends(wiring) as (client, server):
        async with trio.open_nursery() as nursery:

            async def send_for_ever() -> None:
                nonlocal sent
                while True:
                    await client.bulk.send(b"x" * CHUNK_BYTES)
                    sent += 1

            nursery.start_soon(send_for_ever)
            await until(lambda: server._reading_paused)
            before = -1
            while before != sent:
                before = sent
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert sent * CHUNK_BYTES < 40 * 1024 * 1024
            nursery.cancel_scope.cancel()


async def test_holes_stay_holes_and_read_as_they_were(wiring: Wiring, tmp_path: Path) -> None:
    size = 40 * CHUNK_BYTES
    source = os.open(tmp_path / "from", os.O_RDWR | os.O_CREAT)
    os.pwrite(source, b"in the middle", 20 * CHUNK_BYTES + 5)
    os.ftruncate(source, size)
    target = os.open(tmp_path / "to", os.O_RDWR | os.O_CREAT)
    async with two_ends(wiring) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(send_file, client, source, size)
        await receive_file(server, target, size)
    assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()
    assert os.fstat(target).st_blocks * 512 <= 2 * CHUNK_BYTES
    os.close(source)
    os.close(target)
