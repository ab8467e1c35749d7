"""STARTD_HISTORY: what ran on this host stays known here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from daemons.daemon_core.run import DaemonStart
from daemons.startd.slots.history import History
from daemons.startd.slots.slot import Slot
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.config import load_config
from pool.jobs.queue.history_file import records
from pool.slots.claim import Activation


class Here:
    """Threads that are not needed: everything is done at once."""

    async def run_sync(self, function: Any, *arguments: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return function(*arguments)


def a_start(path: Path, said: list[str], **knobs: str) -> DaemonStart:
    config = load_config([], environ={}, overrides={"STARTD_HISTORY": str(path), "FULL_HOSTNAME": "here", **knobs})
    world = SimpleNamespace(wall=lambda: 1100.0, threads=Here())
    log = SimpleNamespace(always=said.append)
    return cast(DaemonStart, SimpleNamespace(config=config, world=world, host="here", log=log))


def a_run(number: int) -> tuple[Slot, Activation]:
    job = ClassAd({"ClusterId": number, "ProcId": 0, "Owner": "ann", "Cmd": "/bin/true"})
    ran = SimpleNamespace(job_id=JobId(number, 0), job_ad=job, started_wall=1000.0)
    slot = SimpleNamespace(name="slot1_1@here", usage=ClassAd({"MemoryUsage": 7}))
    return cast(Slot, slot), cast(Activation, ran)


async def ends(history: History, *numbers: int) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        for number in numbers:
            history.ended(*a_run(number))
            await trio.sleep(1)
        nursery.cancel_scope.cancel()


async def test_each_job_leaves_a_record(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    path, said = tmp_path / "history", list[str]()
    await ends(History(a_start(path, said)), 1, 2)
    ads = [record.ad() for record in records(path.read_text())]
    assert [ad["ClusterId"] for ad in ads] == [1, 2]
    assert (ads[0]["RemoteHost"], ads[0]["JobDuration"], ads[0]["MemoryUsage"]) == ("slot1_1@here", 100.0, 7)
    assert said == []


async def test_what_has_not_been_written_is_written_at_the_end(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "history"
    history = History(a_start(path, []))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        history.ended(*a_run(3))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert "ClusterId = 3\n" in path.read_text()


async def test_a_file_that_is_too_long_is_put_aside(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    path = tmp_path / "history"
    await ends(History(a_start(path, [], MAX_HISTORY_LOG="1")), 1, 2)
    assert "ClusterId = 2\n" in path.read_text()
    assert len(list(tmp_path.glob("history.*"))) == 1


async def test_a_file_that_cannot_be_written_is_told_and_costs_no_job(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    said: list[str] = []
    await ends(History(a_start(tmp_path / "missing" / "history", said)), 1)
    assert [line.partition(": ")[2] for line in said] == ["No such file or directory"]


async def test_without_a_file_nothing_is_written(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    said: list[str] = []
    start = a_start(tmp_path, said)
    start.config = load_config([], environ={}, overrides={"STARTD_HISTORY": "", "FULL_HOSTNAME": "here"})
    await ends(History(start), 1)
    assert said == []
    assert list(tmp_path.iterdir()) == []
