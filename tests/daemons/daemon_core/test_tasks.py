"""What a task raises is logged, and costs that task alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from daemons.base.log import Log
from daemons.daemon_core.tasks import AGAIN_MOST_S, WELL_S, Tasks


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "DaemonLog")
    yield log
    log.close()


def said(log: Log) -> str:
    assert log.path is not None
    return log.path.read_text() if log.path.exists() else ""


async def test_a_task_that_is_kept_begins_again_after_longer_and_longer_waits(
    log: Log, autojump_clock: MockClock
) -> None:
    began = []

    async def fail() -> None:
        began.append(trio.current_time())
        if len(began) < 9:
            raise RuntimeError(f"attempt {len(began)}")

    async with trio.open_nursery() as nursery:
        Tasks(nursery, log).keep(fail)
    assert began == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert AGAIN_MOST_S == 60
    first = said(log).splitlines()[0]
    assert "fail has failed; it begins again in 1 s: attempt 1" in first
    assert 'raise RuntimeError(f"attempt {len(began)}")' in said(log)  # the line, from the traceback
    assert said(log).count("has failed") == 8


async def test_whoever_has_worked_for_long_begins_again_soon(log: Log, autojump_clock: MockClock) -> None:
    began = []

    async def work() -> None:
        began.append(trio.current_time())
        await trio.sleep(WELL_S if len(began) == 4 else 0)
        if len(began) < 6:
            raise OSError("broken")

    async with trio.open_nursery() as nursery:
        Tasks(nursery, log).keep(work)
    assert began == [0, 1, 3, 7, 7 + WELL_S + 1, 7 + WELL_S + 1 + 2]


async def test_a_failure_leaves_the_others_alone(log: Log, autojump_clock: MockClock) -> None:
    done = []

    async def fail() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            raise ValueError("odd")

    async def work() -> None:
        await trio.sleep(5)
        done.append(True)

    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery, log)
        tasks.once(fail)
        tasks.once(work)
    assert done == [True]
    assert "fail has failed; it is over: odd" in said(log)
    assert "ValueError: odd" in said(log)


async def test_a_task_that_fails_as_it_is_cancelled_ends(log: Log, autojump_clock: MockClock) -> None:
    async def fail() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("broken meanwhile")

    with trio.move_on_after(1) as scope:
        async with trio.open_nursery() as nursery:
            Tasks(nursery, log).keep(fail)
    assert scope.cancelled_caught
    assert trio.current_time() == 1
    assert said(log).count("broken meanwhile") >= 1


async def test_an_order_to_end_the_process_is_no_failure_of_a_task(log: Log) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(BaseExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            Tasks(nursery, log).keep(leave)
    assert raised.group_contains(SystemExit)
    assert said(log) == ""
