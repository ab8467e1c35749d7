"""Waiting of tasks, under a virtual clock."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemons.base.sync import Backoff, Signal, first_of
from tests.scopes import scopes


async def test_a_signal_wakes_all_who_wait_and_can_be_waited_for_again(nursery: trio.Nursery) -> None:
    signal, woken = Signal(), []

    async def wait(name: str) -> None:
        for time in (1, 2):
            await signal.wait()
            woken.append((time, name))

    nursery.start_soon(wait, "a")
    nursery.start_soon(wait, "b")
    await wait_all_tasks_blocked()
    signal.fire()
    await wait_all_tasks_blocked()
    assert sorted(woken) == [(1, "a"), (1, "b")]
    signal.fire()
    await wait_all_tasks_blocked()
    assert sorted(woken) == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


async def test_what_happens_between_the_look_and_the_wait_is_not_missed(autojump_clock: MockClock) -> None:
    signal = Signal()
    news = signal.next()
    signal.fire()
    with trio.fail_after(1):
        await news.wait()
    with trio.move_on_after(1) as quiet:  # it has happened before: not the next time
        await signal.wait()
    assert quiet.cancelled_caught


async def test_a_condition_is_looked_at_each_time(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    signal, seen, left = Signal(), [], [3]

    def none_left() -> bool:
        seen.append(left[0])
        return left[0] == 0

    async def work() -> None:
        while left[0]:
            await trio.sleep(1)
            left[0] -= 1
            signal.fire()

    nursery.start_soon(work)
    await signal.until(none_left)
    assert seen == [3, 2, 1, 0]
    assert trio.current_time() == 3
    await signal.until(none_left)  # it is true already: nothing has to happen


async def test_the_first_of_several_is_named_and_the_others_are_left(autojump_clock: MockClock) -> None:
    event, signal, left = trio.Event(), Signal(), []

    async def long() -> None:
        try:
            await trio.sleep(10)
        except trio.Cancelled:
            left.append("long")
            raise

    async def fire() -> None:
        await trio.sleep(2)
        signal.fire()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fire)
        assert await first_of(event, signal, long) is signal
    assert (trio.current_time(), left) == (2, ["long"])


async def test_of_several_at_once_the_first_named_counts(autojump_clock: MockClock) -> None:
    one, other = trio.Event(), trio.Event()
    other.set()
    one.set()
    for _ in range(20):  # trio runs tasks in an order of chance
        assert await first_of(one, other) is one


async def test_a_signal_that_fires_as_the_race_begins_counts(autojump_clock: MockClock) -> None:
    signal = Signal()

    async def fire() -> None:
        signal.fire()  # in half of the cases before the other task of the race runs
        await trio.sleep_forever()

    for _ in range(20):
        assert await first_of(fire, signal, timeout_s=5) is signal


async def test_nothing_in_time_is_none(autojump_clock: MockClock) -> None:
    assert await first_of(trio.Event(), Signal(), timeout_s=30) is None
    assert trio.current_time() == 30


async def test_a_cancelled_race_is_cancelled_and_leaves_nobody(autojump_clock: MockClock) -> None:
    left = []

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            left.append(trio.current_time())

    with trio.move_on_after(3) as outer:
        await first_of(wait, wait, timeout_s=10)
        pytest.fail("a cancelled wait has ended")
    assert outer.cancelled_caught
    assert left == [3, 3]


async def test_races_that_are_won_in_time_leave_nothing(autojump_clock: MockClock) -> None:
    event = trio.Event()
    event.set()
    assert await first_of(event, timeout_s=600) is event
    before = scopes()
    for _ in range(50):
        assert await first_of(event, timeout_s=600) is event
    assert scopes() <= before


async def test_what_fails_in_a_race_is_raised(autojump_clock: MockClock) -> None:
    async def fail() -> None:
        raise OSError("no such file")

    with pytest.raises(ExceptionGroup) as raised:
        await first_of(trio.Event(), fail)
    assert raised.group_contains(OSError, match="no such file")


async def test_each_wait_is_twice_as_long_until_it_is_long_enough(autojump_clock: MockClock) -> None:
    backoff = Backoff(first_s=1, most_s=5)
    times = []
    for _ in range(5):
        await backoff.wait()
        times.append(trio.current_time())
    assert times == [1, 3, 7, 12, 17]
    backoff.reset()
    assert [backoff.take(), backoff.now_s] == [1, 2]


async def test_a_cancelled_wait_counts_as_one(autojump_clock: MockClock) -> None:
    backoff = Backoff(first_s=1, most_s=8)
    with trio.move_on_after(0.5):
        await backoff.wait()
    assert (trio.current_time(), backoff.now_s) == (0.5, 2)
