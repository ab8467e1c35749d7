"""How late the loop was, by a clock that jumps too far."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemons.base import loop_lag
from daemons.base.loop_lag import BEAT_S, LoopLag


async def test_the_worst_of_the_last_beats_is_told_and_older_ones_are_forgotten(
    mock_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_lag, "SAMPLES_MAX", 20)
    lag = LoopLag()
    assert (lag.p99(), lag.worst()) == (0.0, 0.0)
    nursery.start_soon(lag.watch)
    for late_s in [3.0, 0.0, 0.0]:
        await _beat(mock_clock, late_s)
    assert (lag.p99(), lag.worst()) == (pytest.approx(3.0), pytest.approx(3.0))
    for _ in range(17):
        await _beat(mock_clock, 0.5)
    assert lag.worst() == pytest.approx(3.0)
    await _beat(mock_clock, 0.25)
    assert lag.worst() == pytest.approx(0.5)
    for _ in range(25):
        await _beat(mock_clock, 0.125)
    assert lag.worst() == pytest.approx(0.125)


async def _beat(clock: MockClock, late_s: float) -> None:
    await wait_all_tasks_blocked()
    clock.jump(BEAT_S + late_s)
    await wait_all_tasks_blocked()
