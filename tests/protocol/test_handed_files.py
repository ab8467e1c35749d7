"""Files that are handed over open, on a unix socket."""

from __future__ import annotations

import errno
import gc
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pool.base.errors import PeerError
from protocol.files.bulk import receive_file, send_file
from protocol.files.file_copy import PIECE_BYTES, FileChanged, Way, begin_copy, copy_piece
from protocol.network.net import RealNetwork
from protocol.network.unix_stream import AT_ONCE_MAX, WAITING_MAX, OpenFile, UnixStream
from protocol.rpc.bulk_lane import BULK_FRAMES_WAITING_MAX
from protocol.rpc.endpoints import ConnectionLost, Peer, connected
from protocol.wire.address import Address
from tests.protocol.echo import Echo, EchoService, a_security, serving, until


@asynccontextmanager
async def two_ends(directory: Path) -> AsyncIterator[tuple[Peer, Peer]]:
    """A connection over a unix socket; the server's side takes files."""
    service, security = EchoService(), a_security()
    listener = await RealNetwork().listen(Address.unix(str(directory / "echo.sock")))
    async with serving(service, [listener], security):
        async with connected(listener.address, security=security) as peer:
            await until(lambda: service.peers)
            assert service.peers[0].bulk.take_files()
            yield peer, service.peers[0]


def with_bytes(path: Path, data: bytes) -> int:
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY)


def empty(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_file_arrives_without_its_bytes_on_the_connection(tmp_path: Path) -> None:
    data, pieces = os.urandom(2 * PIECE_BYTES + 12_345), 0
    source, target = with_bytes(tmp_path / "from", data), empty(tmp_path / "to")

    def count() -> None:
        nonlocal pieces
        pieces += 1

    async with two_ends(tmp_path) as (client, server):
        assert client.bulk.reaches(os.getpid())
        assert not client.bulk.reaches(os.getpid() + 1)
        await client.bulk.hand_over(source, len(data))
        await receive_file(server, target, len(data), after_piece=count)
        assert (await client.call(Echo(text="and calls"))).text == "and calls"
    assert (tmp_path / "to").read_bytes() == data
    assert pieces >= 3
    os.close(target)


async def test_the_rest_of_a_file_arrives(tmp_path: Path) -> None:
    source, target = with_bytes(tmp_path / "from", b"begun and ended"), empty(tmp_path / "to")
    os.write(target, b"begun ")
    async with two_ends(tmp_path) as (client, server):
        await client.bulk.hand_over(source, 9)
        await receive_file(server, target, 9)
    assert (tmp_path / "to").read_bytes() == b"begun and ended"
    os.close(target)


async def test_files_arrive_in_their_order_among_streamed_ones_and_none_stays_open(tmp_path: Path) -> None:
    count = 5 * (AT_ONCE_MAX + BULK_FRAMES_WAITING_MAX)
    async with two_ends(tmp_path) as (client, server):
        before = open_files()
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for number in range(count):
                    source = with_bytes(tmp_path / f"f{number}", b"x" * number)
                    if number % 3:
                        await client.bulk.hand_over(source, number)
                    else:
                        await send_file(client, source, number)
                        os.close(source)

            nursery.start_soon(send)
            for number in range(count):
                target = empty(tmp_path / f"t{number}")
                await receive_file(server, target, number)
                os.close(target)
                assert (tmp_path / f"t{number}").stat().st_size == number
        assert open_files() == before


async def test_a_receiver_that_takes_no_files_holds_the_sender_back(tmp_path: Path) -> None:
    source, sent = with_bytes(tmp_path / "from", b"x"), 0
    async with two_ends(tmp_path) as (client, server), trio.open_nursery() as nursery:

        async def send_for_ever() -> None:
            nonlocal sent
            while True:
                await client.bulk.hand_over(os.dup(source), 1)
                sent += 1

        nursery.start_soon(send_for_ever)
        await until(lambda: server._reading_paused)
        before = -1
        while before != sent:
            before = sent
            await trio.testing.wait_all_tasks_blocked(0.005)  # less than the pause of a sender that has to wait
        assert sent < 20_000
        nursery.cancel_scope.cancel()
    os.close(source)


async def leave_files_unread(directory: Path, source: int) -> None:
    async with two_ends(directory) as (client, server):
        for _ in range(BULK_FRAMES_WAITING_MAX + 2):
            await client.bulk.hand_over(os.dup(source), 1)
        await until(lambda: server._reading_paused)


async def test_files_that_nobody_takes_are_closed_with_the_connection(tmp_path: Path) -> None:
    source = with_bytes(tmp_path / "from", b"x")
    before = open_files()
    await leave_files_unread(tmp_path, source)
    gc.collect()
    assert open_files() <= before
    os.close(source)


async def test_a_file_that_is_announced_and_does_not_come_ends_the_connection(tmp_path: Path) -> None:
    async with two_ends(tmp_path) as (client, server):
        client._connection.bulk_handed(5)
        client._outbox.kick()
        await server.closed.wait()
        assert "did not come" in server.close_reason


async def test_who_has_not_asked_for_files_gets_none(tmp_path: Path) -> None:
    source = with_bytes(tmp_path / "from", b"x")
    async with two_ends(tmp_path) as (client, server):
        before = open_files()
        await server.bulk.hand_over(source, 1)
        await client.closed.wait()
        assert "did not come" in client.close_reason
        await until(lambda: open_files() < before)


async def test_more_files_than_anybody_asked_for_break_the_stream(tmp_path: Path) -> None:
    source, before = with_bytes(tmp_path / "from", b"x"), open_files()
    here, there = (UnixStream(end) for end in socket.socketpair())
    there.take_files()
    for _ in range(WAITING_MAX // AT_ONCE_MAX):
        for _ in range(AT_ONCE_MAX):
            here.attach(OpenFile(os.dup(source)))
        await here.send_all(b"x")
        assert await there.receive_some() == b"x"
    here.attach(OpenFile(os.dup(source)))
    await here.send_all(b"x")
    with pytest.raises(trio.BrokenResourceError):
        await there.receive_some()
    await here.aclose()
    await there.aclose()
    assert open_files() == before
    with pytest.raises(trio.ClosedResourceError):
        await here.send_all(b"x")
    os.close(source)


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "too short", "of another size"])
async def test_what_is_no_whole_file_is_refused_and_the_next_one_passes(tmp_path: Path, kind: str) -> None:
    target, announced = empty(tmp_path / "to"), 100
    if kind == "a directory":
        handed = os.open(tmp_path, os.O_RDONLY)
    elif kind == "a pipe":
        handed, other = os.pipe()
        os.close(other)
    else:
        handed, announced = with_bytes(tmp_path / "from", b"short"), 100 if kind == "too short" else 5
    async with two_ends(tmp_path) as (client, server):
        await client.bulk.hand_over(handed, announced)
        await client.bulk.hand_over(with_bytes(tmp_path / "good", b"good"), 4)
        with pytest.raises(PeerError):
            await receive_file(server, target, 100)
        os.ftruncate(target, os.lseek(target, 0, os.SEEK_SET))
        await receive_file(server, target, 4)
    assert (tmp_path / "to").read_bytes() == b"good"
    os.close(target)


async def test_a_file_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    async with two_ends(tmp_path) as (client, server):
        await client.bulk.hand_over(with_bytes(tmp_path / "from", b"x" * 10), 10)
        with pytest.raises(OSError, match="No space left"):
            await receive_file(server, full, 10)
    os.close(full)


async def test_a_lost_connection_ends_the_wait_for_a_file(tmp_path: Path) -> None:
    source = with_bytes(tmp_path / "from", b"x")
    async with two_ends(tmp_path) as (client, server):
        client.abort("the test says so")
        with pytest.raises(ConnectionLost):
            await client.bulk.hand_over(source, 1)
        with pytest.raises(ConnectionLost):
            await server.bulk.next()


# ---- the copying itself


def copied(source: int, target: int, size: int) -> list[Way]:
    """Copy all; the ways that were gone."""
    at, end, way = begin_copy(source, target, size)
    ways = []
    while at < end:
        at, way = copy_piece(source, target, at, end, way)
        ways.append(way)
    return ways


def test_holes_stay_holes(tmp_path: Path) -> None:
    size = 40 << 20
    source, target = os.open(tmp_path / "from", os.O_RDWR | os.O_CREAT), empty(tmp_path / "to")
    os.pwrite(source, b"in the middle", 20 << 20)
    os.ftruncate(source, size)
    copied(source, target, size)
    assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()
    assert os.fstat(target).st_blocks * 512 <= 1 << 20
    os.close(source)
    os.close(target)


def refusing(number: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize(
    ("refused", "way"),
    [
        ({}, Way.RANGE),
        ({"copy_file_range": refusing(errno.EXDEV)}, Way.SEND),
        ({"copy_file_range": lambda *_: 0}, Way.SEND),
        ({"copy_file_range": refusing(errno.ENOSYS), "sendfile": refusing(errno.EINVAL)}, Way.PLAIN),
    ],
)
def test_each_way_of_copying_leads_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: dict[str, Any], way: Way
) -> None:
    for name, instead in refused.items():
        monkeypatch.setattr(os, name, instead)
    data = b"".join(os.urandom(1000) + bytes(200_000) for _ in range(20))
    source, target = with_bytes(tmp_path / "from", data), empty(tmp_path / "to")
    os.write(target, data[:777])
    assert set(copied(source, target, len(data) - 777)) == {way}
    assert (tmp_path / "to").read_bytes() == data
    os.close(source)
    os.close(target)


def test_what_is_there_already_is_written_over_with_zeros_too(tmp_path: Path) -> None:
    source, target = os.open(tmp_path / "from", os.O_RDWR | os.O_CREAT), empty(tmp_path / "to")
    os.ftruncate(source, 10_000)
    os.pwrite(target, b"old" * 5000, 0)
    copied(source, target, 10_000)
    assert (tmp_path / "to").read_bytes()[:10_000] == bytes(10_000)
    os.close(source)
    os.close(target)


def test_a_target_that_is_no_file_gets_the_bytes_in_order(tmp_path: Path) -> None:
    source, (end, target) = with_bytes(tmp_path / "from", b"one after the other"), os.pipe()
    assert copied(source, target, 19) == [Way.PLAIN]
    assert os.read(end, 100) == b"one after the other"
    for descriptor in (source, target, end):
        os.close(descriptor)


def test_nothing_is_copied_to_nowhere(tmp_path: Path) -> None:
    source, nowhere = with_bytes(tmp_path / "from", b"x" * 100), os.open(os.devnull, os.O_WRONLY)
    assert copied(source, nowhere, 100) == []
    os.close(source)
    os.close(nowhere)


def test_a_file_that_ends_in_a_hole_and_is_too_short_is_noticed(tmp_path: Path) -> None:
    source, target = os.open(tmp_path / "from", os.O_RDWR | os.O_CREAT), empty(tmp_path / "to")
    os.ftruncate(source, 5000)
    with pytest.raises(FileChanged, match="ends 5000 bytes early"):
        copied(source, target, 10_000)
    os.close(source)
    os.close(target)
