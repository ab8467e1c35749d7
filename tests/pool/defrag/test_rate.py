"""How many machines may be drained now."""

from __future__ import annotations

import pytest

from pool.defrag.rate import DAY_S, HOUR_S, Rate

MIDNIGHT = 19_000 * DAY_S


# What HTCondor 25.14's condor_defrag logs at its start: machines in each interval, hour and day.
@pytest.mark.parametrize(
    ("per_hour", "interval_s", "expected"),
    [
        (1.0, 3600, (1, 0, 0)),
        (1.0, 600, (0, 1, 0)),
        (6.0, 600, (1, 0, 0)),
        (20.0, 600, (3, 2, 0)),
        (0.5, 600, (0, 0, 12)),
        (1.5, 600, (0, 1, 12)),
        (0.1, 600, (0, 0, 2)),
        (0.01, 600, (0, 0, 0)),
        (360.0, 10, (1, 0, 0)),
        (0.25, 1000, (0, 0, 6)),
        (7.25, 1000, (2, 0, 1)),
        (8.0, 1200, (2, 2, 0)),
        (0.0, 600, (0, 0, 0)),
    ],
)
def test_a_rate_is_split_into_looks_hours_and_days(
    per_hour: float, interval_s: float, expected: tuple[int, int, int]
) -> None:
    rate = Rate.of(per_hour, interval_s)
    assert (rate.each_look, rate.each_hour, rate.each_day) == expected


def test_looks_that_are_further_apart_than_an_hour_drain_too() -> None:
    """HTCondor's condor_defrag takes the rate for 0 then."""
    assert Rate.of(1.0, 2 * HOUR_S).due(MIDNIGHT, MIDNIGHT + 2 * HOUR_S).count == 2
    assert Rate.of(0.2, 2 * HOUR_S).due(MIDNIGHT - HOUR_S, MIDNIGHT + HOUR_S).count == 5


@pytest.mark.parametrize("per_hour", [0.25, 0.5, 1.0, 1.5, 2.0, 6.0, 7.25, 20.0, 100.0])
@pytest.mark.parametrize("interval_s", [60.0, 600.0, 1000.0, 3600.0])
def test_a_day_drains_what_the_rate_says(per_hour: float, interval_s: float) -> None:
    rate = Rate.of(per_hour, interval_s)
    looks = [MIDNIGHT + number * interval_s for number in range(int(DAY_S / interval_s))]
    drained = sum(rate.due(now - interval_s, now).count for now in looks)
    assert drained == pytest.approx(per_hour * 24, abs=interval_s / HOUR_S * per_hour + 1)


def test_what_is_less_than_one_a_look_comes_with_the_hour() -> None:
    rate = Rate.of(1.0, 600)
    assert rate.due(MIDNIGHT + 3500, MIDNIGHT + 4100).count == 1
    assert rate.due(MIDNIGHT + 4100, MIDNIGHT + 4700).count == 0


def test_an_hour_of_which_little_is_left_has_less_to_drain() -> None:
    rate = Rate.of(8.0, 1200)
    assert (rate.each_look, rate.each_hour) == (2, 2)
    assert rate.due(MIDNIGHT - 5000, MIDNIGHT + 3500).count == 2 + 1
    assert rate.due(MIDNIGHT - 5000, MIDNIGHT + 100).count == 2 + 2


def test_the_first_look_of_all_drains_one_looks_share() -> None:
    assert Rate.of(20.0, 600).due(0.0, MIDNIGHT + 10).count == 3
    assert Rate.of(0.5, 600).due(0.0, MIDNIGHT + 10).count == 0
