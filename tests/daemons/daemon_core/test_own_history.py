"""<SUBSYS>_DAEMON_HISTORY: daemons write down their own ads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from daemons.daemon_core import own_history
from daemons.daemon_core.run import DaemonStart
from pool.classad import ClassAd
from pool.config import load_config
from pool.jobs.queue.history_file import records

Clock = trio.testing.MockClock


class Here:
    """Threads that are not needed: everything is done at once."""

    async def run_sync(self, function: Any, *arguments: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return function(*arguments)


async def kept(seconds: float, said: list[str], **knobs: str) -> None:
    config = load_config([], environ={}, overrides=knobs)
    start = SimpleNamespace(
        config=config,
        subsystem="SCHEDD",
        world=SimpleNamespace(wall=lambda: 1000 + trio.current_time(), threads=Here()),
        log=SimpleNamespace(always=said.append),
        own_ad=lambda: ClassAd({"Name": "ap1", "TotalRunningJobs": 3}),
    )
    with trio.move_on_after(seconds):
        await own_history.keep(cast(DaemonStart, start))


async def test_the_ad_is_written_at_each_interval(tmp_path: Path, autojump_clock: Clock) -> None:
    path, said = tmp_path / "schedd", list[str]()
    await kept(2000, said, SCHEDD_DAEMON_HISTORY=str(path))
    found = list(records(path.read_text()))
    assert [one.kind for one in found] == ["SCHEDD"] * 3
    assert [one.ad()["TotalRunningJobs"] for one in found] == [3, 3, 3]
    dates = [one.ad()["RecordWriteDate"] for one in found]
    assert [later - dates[0] for later in dates] == [0, 900, 1800]
    assert found[0].banner == f"*** SCHEDD CurrentTime={dates[0]}"
    assert said == []


async def test_the_file_does_not_grow_for_ever(tmp_path: Path, autojump_clock: Clock) -> None:
    knobs = {"MAX_DAEMON_HISTORY_LOG": "200", "SCHEDD_HISTORY_RECORD_INTERVAL": "10"}
    await kept(300, [], SCHEDD_DAEMON_HISTORY=str(tmp_path / "schedd"), **knobs)
    assert len(list(tmp_path.iterdir())) == 2


async def test_without_a_file_nothing_is_written_and_a_bad_one_is_told(tmp_path: Path, autojump_clock: Clock) -> None:
    said: list[str] = []
    await kept(1000, said, SCHEDD_DAEMON_HISTORY="")
    assert said == []
    await kept(100, said, SCHEDD_DAEMON_HISTORY=str(tmp_path / "no" / "such"))
    assert "cannot be written: No such file or directory" in said[0]
