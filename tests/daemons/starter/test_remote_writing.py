"""What a job writes on its way home: how it is put together, in which order it goes, and who hears of an error."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Awaitable

import pytest
import trio
import trio.testing

from daemons.starter.remote_io.writing import PIECE_BYTES, STILL_S, UNSENT, Budget, Writing


class Far:
    """A file that is far away: each write takes a while, and another one may overtake it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.sizes: list[int] = []
        self.fails_with = 0
        self._chance = random.Random(1)

    async def send(self, data: bytes, at: int) -> int:
        await trio.sleep(self._chance.random())
        if self.fails_with:
            raise OSError(self.fails_with, "far away")
        place = len(self.data) if at == UNSENT else at
        self.data += bytes(max(0, place - len(self.data)))
        self.data[place : place + len(data)] = data
        self.sizes.append(len(data))
        return place + len(data)


async def test_small_writes_become_one_and_what_lies_over_another_stays_over_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    far, expected, chance = Far(), bytearray(), random.Random(2)
    async with trio.open_nursery() as nursery:
        writing = Writing(far.send, nursery, Budget(1 << 20))
        for number in range(1000):
            at = len(expected) if chance.random() < 0.9 else chance.randrange(max(1, len(expected)))
            data = bytes([number % 251]) * chance.randrange(1, 3000)
            await writing.write(data, at)
            expected[at : at + len(data)] = data
        await writing.finish()
        assert far.data == expected
        assert len(far.sizes) < 300
        assert max(far.sizes) <= PIECE_BYTES


async def test_what_is_appended_arrives_in_order_and_once(autojump_clock: trio.testing.MockClock) -> None:
    far = Far()
    async with trio.open_nursery() as nursery:
        writing = Writing(far.send, nursery, Budget(64 * 1024))
        lines = [b"line %d\n" % number * 500 for number in range(50)]
        for line in lines:
            if not writing.write_now(line, UNSENT):
                await writing.write(line, UNSENT)
        await writing.finish()
    assert bytes(far.data) == b"".join(lines)


async def test_how_large_a_file_will_be_is_known_while_its_bytes_are_on_their_way(
    autojump_clock: trio.testing.MockClock,
) -> None:
    far = Far()
    async with trio.open_nursery() as nursery:
        writing = Writing(far.send, nursery, Budget(1 << 20))
        began = trio.current_time()
        for number in range(25):
            await writing.write(b"x", number * 4096)
            await trio.sleep(0.1)
            assert writing.end == number * 4096 + 1
        await writing.settle()
        # Who was told of the file when it was asked for has not heard of what came home meanwhile.
        assert (writing.end, len(far.data)) == (24 * 4096 + 1, 24 * 4096 + 1)
        now = trio.current_time()
        assert (writing.has_had_bytes(began), writing.has_had_bytes(now + 1)) == (True, False)


async def test_bytes_go_by_themselves_after_a_second(autojump_clock: trio.testing.MockClock) -> None:
    far = Far()
    async with trio.open_nursery() as nursery:
        writing = Writing(far.send, nursery, Budget(64 * 1024))
        await writing.write(b"soon", 0)
        assert not far.data
        await trio.sleep(2.5)
        assert (bytes(far.data), writing.is_idle) == (b"soon", True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("how", ["close", "finish"])
async def test_an_error_is_told_by_a_write_and_again_by_the_close_and_nothing_is_written_meanwhile(
    autojump_clock: trio.testing.MockClock, number: int, how: str
) -> None:
    far = Far()
    far.fails_with = number
    async with trio.open_nursery() as nursery:
        writing = Writing(far.send, nursery, Budget(64 * 1024))
        await writing.write(b"lost", 0)
        await writing.settle()
        assert (writing.error, writing.write_now(b"more", 4)) == (number, False)
        await _fails(writing.write(b"more", 4), number)
        far.fails_with = 0
        # The write was perhaps a part of a larger one, of which the program hears only that it was not taken whole.
        await writing.write(b"more", 4)
        await writing.settle()
        assert not writing.is_idle
        await _fails(writing.close() if how == "close" else writing.finish(), number)
        assert writing.is_idle
        await writing.write(b"once", 0)
        await writing.finish()
    assert bytes(far.data) == b"oncemore"


async def test_an_error_is_told_once_where_no_write_has_heard_it(autojump_clock: trio.testing.MockClock) -> None:
    far = Far()
    far.fails_with = errno.EDQUOT
    async with trio.open_nursery() as nursery:
        writing = Writing(far.send, nursery, Budget(64 * 1024))
        await writing.write(b"lost", 0)
        await _fails(writing.close(), errno.EDQUOT)
        await writing.close()
        assert writing.is_idle


async def _fails(told: Awaitable[None], number: int) -> None:
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        await told
    assert caught.value.errno == number


async def test_a_close_waits_for_a_home_that_takes_bytes_and_not_for_one_that_does_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    far, lost = Far(), trio.Event()

    async def send(data: bytes, at: int) -> int:
        if len(far.sizes) == 20:
            await lost.wait()
        await trio.sleep(STILL_S / 2)
        return await far.send(data, at)

    async with trio.open_nursery() as nursery:
        writing = Writing(send, nursery, Budget(1 << 20))
        for _ in range(20):
            await writing.write(b"x", UNSENT)
            writing.start()
        await writing.close()
        assert len(far.data) == 20
        await writing.write(b"y", UNSENT)
        began = trio.current_time()
        await writing.close()
        assert trio.current_time() - began == STILL_S
        far.fails_with = errno.EDQUOT
        lost.set()
        await writing.settle()
        assert writing.error == errno.EDQUOT
