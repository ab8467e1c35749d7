"""condor_dagman is killed, and the schedd, and both: each node runs exactly once more than it fails."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path
from typing import Final

import pytest

from minipool.dagman import main
from pool.config import Config, load_config
from pool.dag.language.reader import Options, read
from tests.minipool.dagman.simulated import BOTH, DAGMAN, SCHEDD, World, in_world

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
CRASHES: Final = tuple(product((DAGMAN, SCHEDD, BOTH), (0.0, 0.015, 10.0)))
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


def crashed(
    base: Path, patch: pytest.MonkeyPatch, crashes_of: Callable[[int], tuple[tuple[str, float], ...]]
) -> dict[str, str]:
    """What goes wrong with crashes at each point."""
    config = configured()
    with small(base / "whole", patch) as world:
        assert not faults(world, world.run(config))
    hour_ago(base / "whole")
    wrong = {}
    for number, point in enumerate(world.points):
        for what, away_s in crashes_of(number):
            home = base / f"{number}-{what}-{away_s}"
            with small(home, patch, base / "whole") as again:
                again.kills = {number: what}
                if found := faults(again, again.run(config, away_s=away_s)):
                    wrong[f"{what} at {point}, away for {away_s} s"] = found
            shutil.rmtree(home)
    return wrong


def test_a_crash_at_each_other_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not crashed(tmp_path, monkeypatch, lambda number: (CRASHES[number % len(CRASHES)],) * (number % 2))


def hour_ago(home: Path) -> None:
    """The run that is over was before the next one was submitted."""
    metrics = home / "x.dag.metrics"
    text = metrics.read_text()
    metrics.write_text(re.sub(r'"end_time":[\d.]+', f'"end_time":{time.time() - 3600}', text))


@pytest.mark.slow
def test_each_crash_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not crashed(tmp_path, monkeypatch, lambda _: CRASHES)


@pytest.mark.parametrize("seed", range(10))
def test_many_crashes_at_moments_of_chance(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    with small(tmp_path / "x", monkeypatch) as world:
        world.lives = lives(dice)
        assert not faults(world, world.run(configured(), away_s=dice.choice([0.0, 0.015, 10.0])))
    assert world.killed


def lives(dice: random.Random, most: int = 40) -> Iterator[tuple[int, str]]:
    """Some end before anything of the graph goes on, and most not much later."""
    while True:
        yield dice.randrange(3, most), dice.choice([DAGMAN, SCHEDD, BOTH])


LAYER: Final = [f"N{number}" for number in range(198)]
FAILURES: Final = {name: number % 3 for number, name in enumerate(LAYER)}
BAD_POSTS: Final = {f"POST {name}": number // 3 % 3 for number, name in enumerate(LAYER)}
DIAMOND_RUNS: Final = {
    "A": 1, "Z": 1, **{name: 1 + (number % 3 or number // 3 % 3) for number, name in enumerate(LAYER)}
}  # fmt: skip


def diamond() -> str:
    """200 nodes, each of the middle with retries, each third of those with scripts."""
    lines = [f"JOB {name} n.sub" for name in ("A", "Z", *LAYER)]
    for number, name in enumerate(LAYER):
        lines += [f"RETRY {name} 2", f"PARENT A CHILD {name}", f"PARENT {name} CHILD Z"]
        lines += [f"SCRIPT PRE {name} pre", f"SCRIPT POST {name} post"] if number % 3 == 0 else []
    return "\n".join(lines)


class EachStep:
    """Who is to die at which step: at each step one of the three, at the steps of one node of each kind all of them.

    A step is a point of `simulated`, by its name: a message that is sent, committed, answered or told, a script that
    begins or ends, a file that comes into its place; of which node, and after how many runs of its jobs. The nodes of
    the middle are of nine kinds, by how often their jobs and scripts fail. One run goes through many deaths, or the way
    to each step would be gone again for each.
    """

    def __init__(self, steps: Iterable[str]) -> None:
        victims, several = cycle((DAGMAN, SCHEDD, BOTH)), re.compile(r"N(9|[1-9]\d+)\b")
        # Neighbours die of something else.
        self.left = {
            step: [victim for victim, _ in zip(victims, range(1 if several.search(step) else 3), strict=False)]
            for step in dict.fromkeys(steps)
        }
        self.all = sum(map(len, self.left.values()))

    def __call__(self, step: str) -> str:
        if not (left := self.left.get(step)):
            return ""
        victim = left.pop()
        if not left:
            del self.left[step]
        return victim


@pytest.mark.slow
def test_a_diamond_of_200_nodes_dies_at_most_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The graph is the same in all lives, and to read it would be half of the time.
    graph = read(["x.dag"], lambda _: diamond(), Options())
    monkeypatch.setattr(main, "read", lambda *_, rescue: graph)
    deaths = EachStep(run_diamond(tmp_path / "whole", monkeypatch, None, 0.0))
    # What follows a death is not what would have come without it: a step that one run does not come to, the next may.
    for run, away_s in enumerate((0.0, 0.015, 10.0)):
        run_diamond(tmp_path / str(run), monkeypatch, deaths, away_s)
    assert deaths.all - sum(map(len, deaths.left.values())) > 2_500


def run_diamond(home: Path, patch: pytest.MonkeyPatch, deaths: EachStep | None, away_s: float) -> list[str]:
    """Run it under these deaths, and see what has run; its steps."""
    home.mkdir()
    world = World(home, FAILURES, BAD_POSTS)
    if deaths is not None:
        world.chooses = deaths
    with in_world(world, diamond(), patch):
        assert world.run(configured(), "-MaxJobs", "20", "-MaxPre", "3", "-MaxPost", "3", away_s=away_s) == 0
    assert dict(world.ran) == DIAMOND_RUNS
    shutil.rmtree(home)
    return world.points


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
    for number, point in enumerate(whole.points):
        home = tmp_path / f"{number}"
        shutil.copytree(first, home)
        code, world = failed(home, monkeypatch, config, {number: CRASHES[number % len(CRASHES)][0]})
        rescues = sorted(path.name for path in home.glob("*rescue*"))
        found = (code, dict(world.ran), rescues, premarked(home, 2))
        if found != (1, {"B": 2 if reset == "True" else 1}, ["x.dag.rescue001", "x.dag.rescue002"], {"A", "C"}):
            wrong[point] = found
        shutil.rmtree(home)
    assert not wrong


def failed(
    home: Path, patch: pytest.MonkeyPatch, config: Config, kills: dict[int, str] | None = None
) -> tuple[int, World]:
    world = World(home, {"B": 99}, {"PRE C": 99}, kills=kills or {})
    with in_world(world, FAILING, patch):
        return world.run(config, "-AlwaysRunPost"), world


def premarked(home: Path, number: int) -> set[str]:
    """The nodes that a rescue file has as done."""
    path = home / f"x.dag.rescue{number:03d}"
    return set(re.findall(r"^DONE (\w+)$", path.read_text(), re.MULTILINE)) if path.exists() else set()
