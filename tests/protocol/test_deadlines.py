"""Calls that are not answered are given up in time, each at its own, whatever others were given; and long waits."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from protocol.rpc import deadlines
from tests.scopes import scopes


class Noting:
    """Notes when each call was given up."""

    def __init__(self) -> None:
        self.given_up: list[tuple[int, float]] = []

    def give_up(self, number: int) -> None:
        self.given_up.append((number, trio.current_time()))


async def test_each_call_is_given_up_at_its_own_deadline(autojump_clock: MockClock) -> None:
    asker, began = Noting(), trio.current_time()
    due = deadlines.of_loop()
    for number, timeout in enumerate((20.0, 5.0, 20.0, 0.5)):
        due.add(asker, number, timeout)
    await trio.sleep(2)
    due.add(asker, 4, 1.0)
    await trio.sleep(100)
    times = [(number, round(at - began, 6)) for number, at in asker.given_up]
    assert times == [(3, 0.5), (4, 3.0), (1, 5.0), (0, 20.0), (2, 20.0)]


async def test_a_call_that_was_answered_is_not_given_up(autojump_clock: MockClock) -> None:
    asker, due = Noting(), deadlines.of_loop()
    due.add(asker, 1, 5.0)
    due.add(asker, 2, 5.0)
    await trio.sleep(1)
    due.remove(asker, 1, 5.0)
    await trio.sleep(100)
    assert [number for number, _ in asker.given_up] == [2]
    due.remove(asker, 2, 5.0)  # whoever was given up says so as well


async def test_what_was_given_up_leaves_nothing(autojump_clock: MockClock) -> None:
    asker, due = Noting(), deadlines.of_loop()
    for number in range(100):
        due.add(asker, number, 1.0 + number / 100)
    await trio.sleep(100)
    assert len(asker.given_up) == 100
    assert not due._queues


# ---- long waits


@pytest.mark.parametrize("seconds", [0.0, 0.5, 4.9, 5.0, 60.0, 900.0])
async def test_a_wait_ends_when_its_time_is_over(seconds: float, autojump_clock: MockClock) -> None:
    with deadlines.LongWait(seconds) as waited:
        await trio.sleep_forever()
    assert waited.cancelled_caught
    assert trio.current_time() == pytest.approx(seconds)


async def test_a_wait_without_end_goes_on_until_what_it_waits_for(autojump_clock: MockClock) -> None:
    with deadlines.LongWait(math.inf) as waited:
        await trio.sleep(1e6)
    assert not waited.cancelled_caught


async def test_a_wait_that_is_over_is_not_cancelled_any_more(autojump_clock: MockClock) -> None:
    with deadlines.LongWait(60.0) as waited:
        await trio.sleep(59)
    await trio.sleep(100)
    assert not waited.cancel_called


async def test_a_shorter_wait_in_a_longer_one_ends_alone(autojump_clock: MockClock) -> None:
    with deadlines.LongWait(60.0) as outer:
        with deadlines.LongWait(20.0) as inner:
            await trio.sleep_forever()
        await trio.sleep(30)
    assert (inner.cancelled_caught, outer.cancelled_caught, trio.current_time()) == (True, False, 50)


async def test_a_longer_wait_in_a_shorter_one_ends_with_it(autojump_clock: MockClock) -> None:
    with deadlines.LongWait(20.0) as outer:
        with deadlines.LongWait(60.0):
            await trio.sleep_forever()
        pytest.fail("the inner wait has caught what was the outer one's")
    assert (outer.cancelled_caught, trio.current_time()) == (True, 20)


async def test_many_waits_of_any_length_end_each_in_its_time(autojump_clock: MockClock) -> None:
    ended: list[float] = []

    async def wait(seconds: float) -> None:
        with deadlines.LongWait(seconds):
            await trio.sleep_forever()
        ended.append(round(trio.current_time() - seconds, 6))

    async with trio.open_nursery() as nursery:
        for number in range(300):
            nursery.start_soon(wait, 1.0 + 7 * (number % 37))
    assert ended == [0.0] * 300


async def test_what_goes_wrong_in_a_wait_comes_out_of_it(autojump_clock: MockClock) -> None:
    with pytest.raises(OSError, match="no such file"), deadlines.LongWait(60.0):
        raise OSError("no such file")
    assert not deadlines.of_loop()._queues


async def test_waits_that_end_before_their_time_leave_nothing(autojump_clock: MockClock) -> None:
    news = trio.Event()
    news.set()
    with deadlines.LongWait(900.0):  # somebody is always waiting longer
        before = scopes()
        for number in range(100):
            with deadlines.LongWait(60.0 + number % 7):
                await news.wait()
        assert scopes() - before <= 2  # the alarm that was to go off later, until then
        assert len(deadlines.of_loop()._queues) == 1
