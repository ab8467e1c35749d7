"""Tasks of single jobs: what one of them raises ends it alone."""

from __future__ import annotations

from pathlib import Path

import trio
import trio.testing

from daemons.base.log import Log
from daemons.schedd.core.job_tasks import JobTasks


async def test_an_error_in_one_is_logged_and_told_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(path)
    tasks = JobTasks(log)
    told: list[Exception] = []
    went_on = trio.Event()

    async def fails(what: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError(what)

    async def goes_on() -> None:
        while not told:
            await trio.lowlevel.checkpoint()
        went_on.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        tasks.start(goes_on)
        tasks.start(fails, "no line of ours", failed=told.append)
        await went_on.wait()
        nursery.cancel_scope.cancel()
    (error,) = told
    assert isinstance(error, (ValueError, ExceptionGroup))
    assert "no line of ours" in path.read_text()
    log.close()


async def test_none_begins_once_the_schedd_is_on_its_way_out(tmp_path: Path) -> None:
    tasks = JobTasks(Log(tmp_path / "log"))
    begun: list[bool] = []

    async def begin() -> None:
        begun.append(True)

    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        nursery.cancel_scope.cancel()
    tasks.start(begin)
    await trio.testing.wait_all_tasks_blocked()
    assert begun == []
