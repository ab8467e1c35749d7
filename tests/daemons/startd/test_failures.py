"""An error that nobody foresaw costs the task that meets it, and not the startd with all its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemons.daemon_core.world import InPlace
from daemons.startd import main as startd_main
from daemons.startd.machine.engine import EngineWatch
from daemons.startd.slots import holders
from pool.config import load_config
from protocol.messages.offers import ClaimChange
from tests.daemons.startd.schedd import Bench, a_bench, a_job


def failures(bench: Bench) -> str:
    """What the log tells of tasks that have failed; forgotten then, for the host's end looks for such lines."""
    log = bench.host.directory / "log" / "StartLog"
    text = log.read_text()
    log.write_text("")
    return "\n".join(line for line in text.splitlines() if "has failed" in line)


async def test_a_task_of_a_claim_that_fails_leaves_the_startd_alone(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a bug in telling")

    monkeypatch.setattr(holders, "_notify", fail)
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.release(held)
        assert list(await bench.ads()) == ["slot1"]
        assert "a bug in telling" in failures(bench)


async def test_a_service_that_fails_begins_again(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = []

    async def poll(*_: object) -> None:
        began.append(trio.current_time())
        if len(began) == 1:
            raise RuntimeError("a bug in polling")
        await trio.sleep_forever()

    monkeypatch.setattr(startd_main, "poll", poll)
    async with a_bench(tmp_path) as bench:
        while len(began) < 2:
            await trio.sleep(0.1)
        assert await bench.where() == "Unclaimed/Idle"
        assert "it begins again in 1 s: a bug in polling" in failures(bench)


class OddSpawner:
    """It cannot start anything, for a reason that nobody foresaw."""

    async def start(self, argv: Sequence[str], **options: Any) -> Any:
        raise RuntimeError("a bug in starting")


async def test_a_backfill_client_that_cannot_be_started_keeps_no_slot_waiting(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)  # no BOINC_Owner is needed
    monkeypatch.setattr("tests.daemons.one_host.NoPrograms", OddSpawner)
    knobs = {
        "ENABLE_BACKFILL": "true",
        "START_BACKFILL": "true",
        "BOINC_Executable": "/bin/true",
        "BOINC_InitialDir": str(tmp_path),
        "POLLING_INTERVAL": "1",
        "NUM_SLOTS_TYPE_1": "1",
        "SLOT_TYPE_1": "100%",
        "SLOT_TYPE_1_PARTITIONABLE": "false",
    }
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        await bench.until("Backfill/Idle")
        held = await schedd.claim(await bench.offer())
        assert held.answer.granted, held.answer.reason
        assert "a bug in starting" in failures(bench)


async def test_a_container_whose_starter_has_just_begun_is_no_orphan(tmp_path: Path) -> None:
    living: set[int] = set()
    cleaned: list[int] = []

    def records_of() -> set[int]:
        living.add(7)  # forked since the look began, and its container has a record already
        return {7, 8}

    def clean(pid: int) -> list[str]:
        cleaned.append(pid)
        return []

    start = SimpleNamespace(
        world=SimpleNamespace(threads=InPlace()),
        config=load_config([], environ={}, overrides={"LOCAL_DIR": str(tmp_path), "DOCKER": "/bin/false"}),
        log=SimpleNamespace(always=lambda *_, **__: None, error=lambda *_, **__: None),
    )
    containers = SimpleNamespace(starters=records_of, remove_left=lambda pid: [])
    records: Any = SimpleNamespace(containers=containers, clean=clean)
    watch = EngineWatch(start, SimpleNamespace(), records, lambda: set(living))  # type: ignore[arg-type]
    await watch._remove_orphans()
    assert cleaned == [8]


async def test_the_last_word_of_a_starter_that_has_ended_is_heard(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held, a_job(RunsFor=3))
        starter = await bench.until_running()
        bench.farm.network.delay_s = (1.0, 1.0)  # its end is known before its words have come
        starter.heard.append("leave")
        await starter.ended.wait()
        await bench.until("Claimed/Idle", held.slot)
        assert ClaimChange.STARTER_GONE not in [word.change for word in schedd.told]
