"""Fetched work is not lost: it runs, or a hook hears what became of it. The hooks are the test's, and run in place."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from pool.classad import ClassAd, parse_long
from protocol.messages.common import StopHow
from protocol.messages.startd import VacateSlots
from tests.daemons.startd.schedd import Bench, a_bench
from tests.own_attributes import own

NEVER_WHILE_BUSY = 'ifThenElse(State == "Claimed" && Activity == "Busy", 3600, 0)'
ONCE_THEN_PARTS = 'ifThenElse(SlotType == "Dynamic", 1, 1000000)'
STATIC = {"SLOT_TYPE_1": "cpus=1, memory=256, disk=2000", "SLOT_TYPE_1_PARTITIONABLE": "false"}


@dataclass
class Ended:
    """A program that ends after a while."""

    after_s: float
    pid: int = 1_999_999_999
    returncode: int | None = None

    async def wait(self) -> int:
        await trio.sleep(self.after_s)
        self.returncode = 0
        return 0


@dataclass
class Site:
    """A spawner whose programs are the site's hooks: what waits to be fetched, and what hooks were told of which work."""

    waiting: list[ClassAd] = field(default_factory=list)
    told: list[tuple[str, int]] = field(default_factory=list)
    fetch_s: float = 0.1
    fetched: trio.Event = field(default_factory=trio.Event)

    async def start(self, argv: Sequence[str], *, stdin: int, stdout: int, **options: Any) -> Ended:
        hook = Path(argv[0]).name
        if hook == "fetch":
            if not self.waiting:
                return Ended(self.fetch_s)
            os.write(stdout, self.waiting.pop(0).long().encode())
            self.fetched.set()
            return Ended(self.fetch_s)
        job = os.read(stdin, 1 << 20).decode().partition("-----\n")[0]
        self.told.append((argv[1] if hook == "reply" else hook, parse_long(job).eval_int("Number")))
        return Ended(0.1)

    def offer(self, number: int, **attributes: object) -> None:
        self.fetched = trio.Event()
        work = {"Cmd": "/bin/true", "Owner": "alice", "RequestCpus": 1, "RequestMemory": 128, "RequestDisk": 1024}
        self.waiting.append(ClassAd({**work, **own(Number=number), **attributes}))

    async def until_told(self, what: str, number: int) -> None:
        while (what, number) not in self.told:
            await trio.sleep(0.05)


@asynccontextmanager
async def a_site(site: Site, directory: Path, delay: str, **knobs: str) -> AsyncGenerator[Bench, None]:
    hooks = {"FETCH_WORK": "fetch", "REPLY_FETCH": "reply", "EVICT_CLAIM": "evict"}
    for name in hooks.values():
        (directory / name).touch(0o755)
    paths = {f"SITE_HOOK_{hook}": str(directory / name) for hook, name in hooks.items()}
    words = {"STARTD_JOB_HOOK_KEYWORD": "SITE", "FetchWorkDelay": delay, "POLLING_INTERVAL": "1", **paths, **knobs}
    async with a_bench(directory, spawner=site, **words) as bench:
        yield bench


async def test_accepted_work_has_its_slot_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A claim without a job is one that waits for work: what came between would be in the way, and rejected."""
    site = Site(fetch_s=0)  # so that many slots do all this at one moment
    for number in range(40):
        site.offer(number, RunsFor=1)
    async with a_site(site, tmp_path, NEVER_WHILE_BUSY, **STATIC, NUM_CPUS="8", NUM_SLOTS_TYPE_1="8"):
        with trio.move_on_after(1000):
            for number in range(40):
                await site.until_told("accept", number)
        assert sorted(site.told) == [("accept", number) for number in range(40)]
    moves = re.findall(r"(slot\d): (\S+ -> \S+):", (tmp_path / "log" / "StartLog").read_text())
    claimed = [number for number, (_, move) in enumerate(moves) if move == "Unclaimed/Idle -> Claimed/Idle"]
    assert len(claimed) >= 8
    for number in claimed:
        assert moves[number + 1] == (moves[number][0], "Claimed/Idle -> Claimed/Busy")


async def test_work_whose_slot_went_while_it_was_fetched_is_rejected(tmp_path: Path, autojump_clock: MockClock) -> None:
    site = Site()
    site.offer(1, RunsFor=20)
    async with a_site(site, tmp_path, ONCE_THEN_PARTS) as bench:
        await bench.until("Claimed/Busy", "slot1_1")
        site.offer(2)
        site.fetch_s = 60
        await bench.until("Claimed/Idle", "slot1_1")
        await site.fetched.wait()
        async with bench.host.connected("startd") as peer:
            await peer.call(VacateSlots(slots=["slot1_1"], how=StopHow.FAST))
        with trio.move_on_after(1000):
            await site.until_told("reject", 2)
        assert site.told == [("accept", 1), ("reject", 2)]
        assert await bench.where("slot1_1") == ""


async def test_accepted_work_that_does_not_get_its_slot_is_told_of_as_evicted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    site = Site()
    knobs = {"NUM_CPUS": "1", "NUM_SLOTS_TYPE_1": "1", "RANK": "TARGET.Number", "MachineMaxVacateTime": "1000"}
    async with a_site(site, tmp_path, "1", **STATIC, **knobs) as bench:
        site.offer(1, LeavesIn=100, JobMaxVacateTime=1000)
        await bench.until("Claimed/Busy")
        site.offer(2)
        with trio.move_on_after(1000):
            await site.until_told("accept", 2)
        async with bench.host.connected("startd") as peer:
            await peer.call(VacateSlots(how=StopHow.GRACEFUL))
        with trio.move_on_after(1000):
            await site.until_told("evict", 2)
        assert sorted(site.told) == [("accept", 1), ("accept", 2), ("evict", 1), ("evict", 2)]
