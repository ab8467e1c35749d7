"""Users take turns on the event loop."""

from __future__ import annotations

import time

import trio
import trio.testing

from protocol.network import turns


def work(seconds: float) -> None:
    """Hold the loop."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def test_one_piece_of_work_waits_for_one_of_each_other_user_not_for_all() -> None:
    done: list[str] = []

    async def ask(user: str) -> None:
        await turns.of_loop().enter(user)
        work(turns.SLICE_S * 1.1)
        done.append(user)

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(ask, "many")
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        nursery.start_soon(ask, "one")
    assert len(done) == 101
    assert done.index("one") <= 6


async def test_long_work_in_pieces_is_shared_between_users_not_between_tasks() -> None:
    pieces: list[str] = []

    async def scan(user: str, count: int) -> None:
        turns.user.set(user)
        for _ in range(count):
            await turns.of_loop().give_way()
            work(turns.SLICE_S * 1.1)
            pieces.append(user)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(scan, "many", 5)
        nursery.start_soon(scan, "one", 5)
    last = max(at for at, user in enumerate(pieces) if user == "one")
    assert last < 40  # of 105: with a turn for each task it would be the last round


async def test_little_work_waits_for_nobody() -> None:
    loop = turns.of_loop()
    for _ in range(1000):
        with trio.fail_after(60):
            await loop.enter("somebody")
        await trio.lowlevel.checkpoint()


async def test_who_stops_waiting_holds_nobody_up() -> None:
    done: list[str] = []

    async def ask(user: str) -> None:
        await turns.of_loop().enter(user)
        work(turns.SLICE_S * 1.1)
        done.append(user)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask, "stays")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as leaving:
                for _ in range(3):
                    leaving.start_soon(ask, "leaves")
                await trio.lowlevel.checkpoint()
                scope.cancel()
    assert done.count("stays") == 3
    with trio.fail_after(60):
        await turns.of_loop().enter("later")


async def test_who_has_used_little_does_not_wait_for_those_who_have_used_much() -> None:
    order: list[str] = []

    async def ask(user: str) -> None:
        await turns.of_loop().enter(user)
        work(turns.SLICE_S * 1.1)
        order.append(user)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask, "many")
        for _ in range(4):
            await trio.lowlevel.checkpoint()
        nursery.start_soon(ask, "other")
        nursery.start_soon(ask, "many")
    assert order.index("other") < len(order) - 2


async def test_strangers_have_a_part_of_the_loop_and_no_more() -> None:
    handshakes: list[float] = []

    async def stranger(address: str) -> None:
        await turns.of_loop().enter_stranger(address)
        work(0.003)
        handshakes.append(trio.current_time())

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(stranger, f"10.0.0.{number % 2}")
    assert len(handshakes) == 10
    assert trio.current_time() - began > 9 * 0.003 / turns.STRANGERS_PART * 0.6  # without a part of their own: a third


async def test_strangers_of_one_address_do_not_keep_another_address_waiting() -> None:
    order: list[str] = []

    async def stranger(address: str) -> None:
        await turns.of_loop().enter_stranger(address)
        work(0.001)
        order.append(address)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(stranger, "flood")
        while len(order) < 3:  # they are in the middle of it
            await trio.sleep(0.001)
        nursery.start_soon(stranger, "guest")
    assert order.index("guest") < len(order) - 5
