"""Calls that are not answered are given up in time: each at its own, whatever others were given."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from protocol.rpc import deadlines


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
