"""So many at a time, then a pause."""

from __future__ import annotations

import pytest

from pool.jobs.waiting.pacing import Bursts


@pytest.mark.parametrize(
    ("count", "delay_s", "own_s", "waits"),
    [
        (1, 0, 0, [0, 0, 0, 0]),
        (1, 10, 0, [0, 10, 20, 30]),
        (2, 10, 0, [0, 0, 10, 10, 20, 20]),
        (1, 0, 5, [0, 5, 10]),
        (3, 10, 4, [0, 4, 8, 18, 22]),
        (2, 3, 5, [0, 5, 10]),
    ],
)
def test_moments_are_spread(count: int, delay_s: float, own_s: float, waits: list[float]) -> None:
    bursts = Bursts()
    booked = [bursts.book(100, count=count, delay_s=delay_s, own_delay_s=own_s) for _ in waits]
    assert booked == waits


def test_a_burst_that_is_long_over_counts_no_more() -> None:
    bursts = Bursts()
    assert [bursts.book(0, count=2, delay_s=10) for _ in range(1)] == [0]
    assert [bursts.book(50, count=2, delay_s=10) for _ in range(3)] == [0, 0, 10]


def test_nobody_waits_for_what_is_past() -> None:
    bursts = Bursts()
    assert bursts.book(0, count=1, delay_s=10) == 0
    assert bursts.book(4, count=1, delay_s=10) == 6
    assert bursts.book(100, count=1, delay_s=10) == 0
