"""Runs the files of tests/cases/policy: a startd with the policy of one of them, on a virtual clock, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from daemons.startd.slots import load
from pool.classad import expr
from pool.slots.provision import detect
from pool.slots.provision.detect import Look
from protocol.messages.offers import ClaimChange
from tests.daemons.one_host import EPOCH
from tests.daemons.startd.schedd import Bench, FakeSchedd, Held, a_bench, a_job
from tests.fakes.starters import FakeStarter

CASES = Path(__file__).parents[2] / "cases" / "policy"
POLLING_S = 5.0
DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
MACHINE = """
POLLING_INTERVAL = 5
NUM_CPUS = 4
MEMORY = 4096
DISK = 1000000
SLOT_TYPE_1 = 100%
NUM_SLOTS_TYPE_1 = 1
SPARE_STARTERS = 1
"""


@dataclass
class Case:
    """One file, taken apart."""

    name: str
    config: str
    steps: list[tuple[int, str]]

    @classmethod
    def read(cls, path: Path) -> Case:
        return cls.parse(path.name, path.read_text())

    @classmethod
    def parse(cls, name: str, text: str) -> Case:
        lines = text.splitlines()
        cut = lines.index("---")
        steps = [(n, line.strip()) for n, line in enumerate(lines[cut + 1 :], cut + 2) if line.strip()]
        return cls(name, "\n".join(lines[:cut]) + "\n", steps)

    def machine(self) -> str:
        """The configuration with the machine before it; slots of its own replace the static one."""
        own_slots = re.search(r"StaticSlots|SLOT_TYPE|NUM_SLOTS", self.config)
        base = [line for line in MACHINE.splitlines() if not (own_slots and "TYPE" in line)]
        return "\n".join(base) + "\n" + self.config


@dataclass
class Running:
    """A job of the case, and its starter."""

    held: Held
    starter: FakeStarter
    started_at: float
    left_at: float | None = None


@dataclass
class Machine:
    """What the startd sees of its surroundings."""

    load: float = 0.0
    key_at: float = -100_000.0
    minute: int = 720
    day: int = 0
    burning: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    """Of a starter: how many cores its job keeps busy, since when, and the processor seconds until then."""

    def look(self, *_: object) -> Look:
        idle = int(trio.current_time() - self.key_at)
        return Look(self.load, idle, idle, self.minute, self.day)

    def burn(self, pid: int, cores: float) -> None:
        self.burning[pid] = (cores, trio.current_time(), self.burnt(pid))

    def burnt(self, pid: int) -> float:
        cores, since, before = self.burning.get(pid, (0.0, 0.0, 0.0))
        return before + cores * (trio.current_time() - since)


@dataclass
class Player:
    """Does the steps."""

    bench: Bench
    schedd: FakeSchedd
    machine: Machine
    jobs: dict[str, Running] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    async def play(self, text: str) -> None:
        words = text.split()
        match words:
            case ["keyboard", seconds]:
                self.machine.key_at = trio.current_time() - float(seconds)
            case ["load", load]:
                self.machine.load = float(load)
            case ["clock", time, day]:
                hour, minute = time.split(":")
                self.machine.minute, self.machine.day = 60 * int(hour) + int(minute), DAYS.index(day)
            case ["wait", seconds]:
                await trio.sleep(float(seconds))
            case [slot, "is", where] if slot.startswith("slot"):
                await self.until(slot, where)
            case [slot, "stays", where, seconds]:
                await self.stays(slot, where, float(seconds))
            case [slot, "runs", name, *attributes]:
                await self.run(slot, name, _attributes(attributes))
            case [slot, "refuses", *attributes]:
                answer = (await self.schedd.claim(await self.offer(slot), a_job(**_attributes(attributes)))).answer
                assert not answer.granted, f"{slot} was granted"
            case [name, "keeps", cores, "cores", "busy"]:
                self.machine.burn(self.jobs[name].starter.pid, float(cores))
            case [name, "uses", *attributes]:
                await self.jobs[name].starter.inform(**_attributes(attributes))
            case [name, "is", "held", *reason]:
                await self.held(name, " ".join(reason))
            case [name, "is", "suspended", times]:
                heard = self.jobs[name].starter.heard
                assert heard.count("suspend") == int(times), heard
            case [name, "releases"]:
                await self.schedd.release(self.jobs[name].held)
            case [name, "leaves", "after", seconds]:
                await self.leaves(self.jobs[name], float(seconds))
            case _:
                raise AssertionError("no such step")

    async def until(self, slot: str, where: str) -> None:
        found = ""
        for _ in range(4):
            await trio.sleep(POLLING_S)
            if (found := await self.bench.where(slot)) == where:
                return
        raise AssertionError(f"{slot} is {found}, not {where}")

    async def stays(self, slot: str, where: str, seconds: float) -> None:
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            assert (found := await self.bench.where(slot)) == where, f"{slot} is {found}"
            await trio.sleep(max(POLLING_S, seconds / 20))

    async def offer(self, slot: str) -> str:
        """A claim id of the slot that was not used before; the collector may still show the last one."""
        with trio.fail_after(10):
            while (offer := await self.bench.offer(slot)) in self.used:
                await trio.sleep(0.1)
        return offer

    async def run(self, slot: str, name: str, attributes: Mapping[str, object]) -> None:
        ad = a_job(**attributes)
        held = await self.schedd.claim(await self.offer(slot), ad, lease_s=1e7)
        assert held.answer.granted, held.answer.reason
        self.used.add(held.claim_id)
        before = set(self.bench.farm.starters)
        ad["JobCurrentStartDate"] = int(EPOCH + trio.current_time())  # as each schedd puts it
        answer = await self.schedd.run(held, ad)
        assert answer.started, answer.reason
        (starter,) = [
            one
            for one in self.bench.farm.starters
            if one.job is not None and one.job.activation.endswith(f"-{self.schedd.count}")
        ]
        assert starter in before or starter.jobs
        await starter.inform()  # as each starter does when the program runs
        self.jobs[name] = Running(held, starter, trio.current_time())

    async def held(self, name: str, reason: str) -> None:
        with trio.fail_after(1000):
            word = await self.schedd.until_told(ClaimChange.VACATING)
        assert (word.hold_code, word.reason) == (21, reason)

    async def leaves(self, job: Running, seconds: float) -> None:
        slack = 3 * POLLING_S + 1
        with trio.move_on_after(max(0.0, job.started_at + seconds + slack - trio.current_time())):
            while not job.starter.stops:
                await trio.sleep(1)
        assert job.starter.stops, f"it still runs after {seconds} seconds"
        assert trio.current_time() - job.started_at >= seconds - slack, "it left too early"


def _attributes(words: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for word in words:
        name, _, text = word.lstrip("+").partition("=")
        if text == "now":
            found[name] = int(EPOCH + trio.current_time())
        else:
            found[name] = expr(text).eval() if re.fullmatch(r"[\d.]+|true|false", text) else text
    return found


async def play(case: Case, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one case; a step that fails names its file and line."""
    machine = Machine()
    monkeypatch.setattr(detect, "look", machine.look)
    monkeypatch.setattr(load, "processes_seconds", machine.burnt)
    file = directory / "policy"
    file.write_text(case.machine())
    async with a_bench(directory, files=(str(file),), only_files=True) as bench, bench.schedd() as schedd:
        player = Player(bench, schedd, machine)
        for line, text in case.steps:
            try:
                await player.play(text)
            except (AssertionError, trio.TooSlowError) as error:
                raise AssertionError(f"{case.name}:{line}: {text}: {error}") from error
