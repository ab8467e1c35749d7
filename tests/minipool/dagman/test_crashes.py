"""condor_dagman is killed, and the schedd, and both: each node runs exactly once more than it fails."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path
from typing import Final

import pytest

from minipool.dagman import main
from pool.config import Config, load_config
from pool.dag.language.reader import Options, read
from tests.minipool.dagman.simulated import BOTH, DAGMAN, SCHEDD, World, in_world, never

SMALL: Final = """
JOB A n.sub
SCRIPT PRE A pre
JOB B n.sub
RETRY B 2
JOB C n.sub
RETRY C 1
SCRIPT POST C post
JOB D n.sub
JOB E n.sub NOOP
JOB F n.sub
SCRIPT PRE F pre
PRE_SKIP F 1
JOB Z n.sub
SCRIPT POST Z post
PARENT A CHILD B C D E F
PARENT B C D E F CHILD Z
"""
RUNS: Final = {"A": 1, "B": 3, "C": 2, "D": 3, "Z": 1}
SCRIPTS: Final = {"PRE A": 1, "POST C": 2, "PRE F": 1, "POST Z": 1}
FAILING: Final = """
JOB A n.sub
JOB B n.sub
RETRY B 1
JOB C n.sub
SCRIPT PRE C pre
SCRIPT POST C post
RETRY C 1
JOB Z n.sub
PARENT A CHILD B C
PARENT B C CHILD Z
"""
VICTIMS: Final = (DAGMAN, SCHEDD, BOTH)
CRASHES: Final = tuple(product(VICTIMS, (0.0, 0.015, 10.0)))
"""What is killed, and how long it is before condor_dagman is there again: some jobs or all end meanwhile."""
FILES: Final = {"x.dag", "x.dag.dagman.out", "x.dag.metrics", "x.dag.nodes.log"}


def configured(**knobs: str) -> Config:
    return load_config([], environ={}, overrides=knobs, subsystem="DAGMAN")


@contextmanager
def small(home: Path, patch: pytest.MonkeyPatch, old: Path | None = None) -> Iterator[World]:
    """The graph, where an earlier run has left its files: one of the same cluster, as in a new pool."""
    if old is None:
        home.mkdir()
    else:
        shutil.copytree(old, home)
    with in_world(World(home, {"B": 2}, {"POST C": 1, "PRE F": 99}, {"D": 3}), SMALL, patch) as world:
        yield world


def faults(world: World, code: int) -> str:
    """What is not as it should be."""
    wrong = [] if code == 0 else [f"exit code {code}"]
    wrong += [] if world.ran == RUNS else [f"ran {dict(world.ran)}"]
    # A script that was under way when condor_dagman was killed runs again, and no other.
    more = world.scripts.total() - sum(SCRIPTS.values())
    wrong += [] if world.scripts.keys() == SCRIPTS.keys() and 0 <= more <= world.killed else [f"{world.scripts}"]
    left = sorted({path.name for path in world.home.iterdir()} - FILES)
    return "; ".join([*wrong, f"left {left}"] if left else wrong)


class At:
    """Once, at the step of this number."""

    def __init__(self, number: int, what: str) -> None:
        self._left, self._what = number, what

    def __call__(self, _: str) -> str:
        self._left -= 1
        return self._what if self._left == -1 else ""


class ByChance:
    """After so many steps, again and again; some end before anything of the graph goes on, and most not much later."""

    def __init__(self, dice: random.Random, most: int = 40) -> None:
        self._dice, self._most = dice, most
        self._left = dice.randrange(3, most)

    def __call__(self, _: str) -> str:
        self._left -= 1
        if self._left:
            return ""
        self._left = self._dice.randrange(3, self._most)
        return self._dice.choice(VICTIMS)


def crashed(
    base: Path, patch: pytest.MonkeyPatch, crashes_of: Callable[[int], tuple[tuple[str, float], ...]]
) -> dict[str, str]:
    """What goes wrong with crashes at each step."""
    config = configured()
    with small(base / "whole", patch) as world:
        assert not faults(world, world.run(config))
    hour_ago(base / "whole")
    wrong = {}
    for number, step in enumerate(world.steps):
        for what, away_s in crashes_of(number):
            home = base / f"{number}-{what}-{away_s}"
            with small(home, patch, base / "whole") as again:
                again.chooses = At(number, what)
                if found := faults(again, again.run(config, away_s=away_s)):
                    wrong[f"{what} at {step}, away for {away_s} s"] = found
                assert again.deaths == 1
            shutil.rmtree(home)
    return wrong


def test_a_crash_at_each_fourth_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not crashed(tmp_path, monkeypatch, lambda number: (CRASHES[number % len(CRASHES)],) * (number % 4 == 0))


def hour_ago(home: Path) -> None:
    """The run that is over was before the next one was submitted."""
    metrics = home / "x.dag.metrics"
    text = metrics.read_text()
    metrics.write_text(re.sub(r'"end_time":[\d.]+', f'"end_time":{time.time() - 3600}', text))


@pytest.mark.slow
def test_each_crash_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each of the three dies there; for how long condor_dagman is away then differs from step to step.
    assert not crashed(tmp_path, monkeypatch, lambda number: CRASHES[number % 3 :: 3])


@pytest.mark.parametrize("seed", range(10))
def test_many_crashes_at_moments_of_chance(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    with small(tmp_path / "x", monkeypatch) as world:
        world.chooses = ByChance(dice)
        assert not faults(world, world.run(configured(), away_s=dice.choice([0.0, 0.015, 10.0])))
    assert world.deaths > 1


class Diamond:
    """A graph of so many nodes: those of the middle are of nine kinds, by how often their jobs and scripts fail."""

    def __init__(self, nodes: int) -> None:
        self.layer = [f"N{number}" for number in range(nodes - 2)]
        self.failures = {name: number % 3 for number, name in enumerate(self.layer)}
        self.bad_posts = {f"POST {name}": number // 3 % 3 for number, name in enumerate(self.layer)}
        more = {name: number % 3 or number // 3 % 3 for number, name in enumerate(self.layer)}
        self.runs = {"A": 1, "Z": 1, **{name: 1 + failures for name, failures in more.items()}}

    def text(self) -> str:
        """Each node of the middle has retries, and each third of them scripts."""
        lines = [f"JOB {name} n.sub" for name in ("A", "Z", *self.layer)]
        for number, name in enumerate(self.layer):
            lines += [f"RETRY {name} 2", f"PARENT A CHILD {name}", f"PARENT {name} CHILD Z"]
            lines += [f"SCRIPT PRE {name} pre", f"SCRIPT POST {name} post"] if number % 3 == 0 else []
        return "\n".join(lines)

    def run(self, home: Path, patch: pytest.MonkeyPatch, chooses: Callable[[str], str], away_s: float = 0.0) -> World:
        """Run it under these deaths, and see what has run."""
        home.mkdir()
        world = World(home, self.failures, self.bad_posts, chooses=chooses)
        with in_world(world, self.text(), patch):
            assert world.run(configured(), "-MaxJobs", "20", "-MaxPre", "3", "-MaxPost", "3", away_s=away_s) == 0
        assert dict(world.ran) == self.runs
        shutil.rmtree(home)
        return world


class EachStep:
    """At each of these steps each of the victims dies once; and at steps of which only a recovery has come to know."""

    def __init__(self, steps: Iterable[str], victims: Sequence[str]) -> None:
        self._victims = victims
        self.left = {step: list(victims) for step in steps}
        self.later: dict[str, list[str]] = {}
        """Those of recoveries: no run that goes well has them."""

    def __call__(self, step: str) -> str:
        left = self.left.get(step)
        if left is None:
            left = self.later.setdefault(step, list(self._victims))
        return left.pop() if left else ""

    def still(self) -> int:
        """How many deaths are to come yet."""
        return sum(map(len, self.left.values()))


def dies_at_each_step(diamond: Diamond, home: Path, patch: pytest.MonkeyPatch, victims: Sequence[str]) -> int:
    """Have each die at each step of the graph's run, in as many runs as that takes; how many deaths there were.

    A death changes what comes after it: a job that was queued is found by the recovery, and never answered. So a run
    does not come to all of its steps. But up to its first death it goes as the one that was not disturbed, and that is
    at the first of the steps that are left: each run leaves fewer.
    """
    # The graph is the same in all lives, and to read it would be half of the time.
    graph = read(["x.dag"], lambda _: diamond.text(), Options())
    patch.setattr(main, "read", lambda *_, rescue: graph)
    deaths, all_of_them = EachStep(dict.fromkeys(diamond.run(home / "whole", patch, never).steps), victims), 0
    for away_s in cycle((0.0, 0.015, 10.0)):
        if not (before := deaths.still()):
            return all_of_them
        world = diamond.run(home / "again", patch, deaths, away_s)
        assert isinstance(world.chooses, EachStep)
        deaths, all_of_them = world.chooses, all_of_them + world.deaths
        print(f"{before - deaths.still()} deaths of {before}, and {world.deaths} altogether")
        assert deaths.still() < before
    raise AssertionError


@pytest.mark.slow
def test_a_diamond_dies_at_each_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dies_at_each_step(Diamond(11), tmp_path, monkeypatch, VICTIMS) > 600


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_diamond_of_200_nodes_dies_at_each_of_its_steps(
    victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dies_at_each_step(Diamond(200), tmp_path, monkeypatch, [victim]) > 4_000


@pytest.mark.slow
@pytest.mark.parametrize("reset", ["True", "False"])
def test_a_graph_that_fails_leaves_one_rescue_file_wherever_a_crash_comes(
    reset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, wrong = configured(DAGMAN_RESET_RETRIES_UPON_RESCUE=reset), {}
    first = tmp_path / "first"
    first.mkdir()
    code, whole = failed(first, monkeypatch, config)
    assert (code, whole.ran, whole.scripts["POST C"]) == (1, {"A": 1, "B": 2}, 1)
    assert premarked(first, 1) == {"A", "C"}
    hour_ago(first)
    # The second run begins from the file that the first one has left.
    # One of the two has each other step.
    for number, step in list(enumerate(whole.steps))[reset == "True" :: 2]:
        home = tmp_path / f"{number}"
        shutil.copytree(first, home)
        code, world = failed(home, monkeypatch, config, At(number, CRASHES[number % len(CRASHES)][0]))
        rescues = sorted(path.name for path in home.glob("*rescue*"))
        found = (code, dict(world.ran), rescues, premarked(home, 2))
        if found != (1, {"B": 2 if reset == "True" else 1}, ["x.dag.rescue001", "x.dag.rescue002"], {"A", "C"}):
            wrong[step] = found
        shutil.rmtree(home)
    assert not wrong


def failed(
    home: Path, patch: pytest.MonkeyPatch, config: Config, chooses: Callable[[str], str] = never
) -> tuple[int, World]:
    world = World(home, {"B": 99}, {"PRE C": 99}, chooses=chooses)
    with in_world(world, FAILING, patch):
        return world.run(config, "-AlwaysRunPost"), world


def premarked(home: Path, number: int) -> set[str]:
    """The nodes that a rescue file has as done."""
    path = home / f"x.dag.rescue{number:03d}"
    return set(re.findall(r"^DONE (\w+)$", path.read_text(), re.MULTILINE)) if path.exists() else set()
