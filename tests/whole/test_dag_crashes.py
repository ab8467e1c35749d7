"""condor_dagman and the schedd are killed while a graph runs with real daemons: no node's job runs once too often.

At each of its steps condor_dagman asks (`dying_dagman.py`) who is to die there: it itself, the schedd, both or nobody.
tests/minipool/dagman/test_crashes.py does the same in a simulated world, with more nodes.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socketserver
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from pool.base.errors import PoolError
from tests.whole.real_pool import RealPool, real_pool

DAGMAN, SCHEDD, BOTH = VICTIMS = ("dagman", "schedd", "both")
NODE: Final = """executable = node.sh
arguments = $(JOB) $(fails:0)
transfer_executable = false
should_transfer_files = NO
queue
"""
PROGRAM: Final = """#!/bin/sh
echo $1 >> runs
exec test $(grep -cx $1 runs) -gt $2
"""
SCRIPT: Final = """#!/bin/sh
echo $1 $2 >> scripts
"""
ROOT: Final = Path(__file__).parents[2]
DAGMAN_PROGRAM: Final = f"""#!{sys.executable} -P
import runpy, sys
sys.path.append("{ROOT}")  # of the tests; the packages are those that are installed
runpy.run_module("tests.whole.dying_dagman", run_name="__main__", alter_sys=True)
"""
FILES: Final = {
    "n.sub": NODE, "node.sh": PROGRAM, "s.sh": SCRIPT, "dagman.sh": DAGMAN_PROGRAM, "runs": "", "scripts": "",
}  # fmt: skip
LATER_S: Final = (0.0, 0.0, 0.003, 0.03)
"""How long after the step the schedd dies: something that it was asked may have been done, and not answered."""


class Diamond:
    """A graph whose middle nodes fail never, once or twice; each third has scripts."""

    def __init__(self, nodes: int) -> None:
        self._layer = [f"N{number}" for number in range(nodes - 2)]
        self.runs = {"A": 1, "Z": 1} | {name: 1 + number % 3 for number, name in enumerate(self._layer)}
        with_scripts = self._layer[::3]
        self.scripts = {f"{kind} {name}" for name in with_scripts for kind in ("PRE", "POST")}

    def text(self) -> str:
        lines = [f"JOB {name} n.sub" for name in self.runs]
        for name in self._layer:
            lines += [f"PARENT A CHILD {name}", f"PARENT {name} CHILD Z", f"RETRY {name} 3"]
            lines += [f'VARS {name} fails="{self.runs[name] - 1}"']
        for script in sorted(self.scripts):
            kind, name = script.split()
            lines += [f"SCRIPT {kind} {name} s.sh {kind} {name}"]
        return "\n".join([*lines, ""])


class SomeSteps:
    """At a share of the steps, by their names, one of the three dies once. So every life comes further than the last."""

    def __init__(self, dice: random.Random, share: float) -> None:
        self._dice, self._share = dice, share
        self._known: set[str] = set()

    def __call__(self, step: str) -> str:
        if step in self._known:
            return ""
        self._known.add(step)
        return self._dice.choice(VICTIMS) if self._dice.random() < self._share else ""


class EachStep:
    """At each step, by its name, each of the three dies once; the first time it is come to, this one, then that."""

    def __init__(self) -> None:
        self._left: dict[str, deque[str]] = {}

    def __call__(self, step: str) -> str:
        if step not in self._left:
            self._left[step] = deque(VICTIMS)
            self._left[step].rotate(len(self._left))
        return self._left[step].popleft() if self._left[step] else ""


class EachKindOfStep:
    """At each kind of step (its name without numbers) each of the three dies, and again at each so many-th of its kind.

    So deaths are at all kinds of steps, and spread over the whole run.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._known: set[str] = set()
        self._deaths: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def __call__(self, step: str) -> str:
        kind = re.sub(r"\d+", "#", step)
        is_new = step not in self._known
        self._known.add(step)
        self.kinds[kind] += is_new
        # The first three are of one kind, even of one name: most kinds have but one, which each life comes to.
        if self._deaths[kind] >= len(VICTIMS) and not (is_new and self.kinds[kind] % self._every == 0):
            return ""
        self._deaths[kind] += 1
        return VICTIMS[self._deaths[kind] % len(VICTIMS)]


class Deaths:
    """Who dies at which step, and has died."""

    def __init__(self, pool: RealPool, chooses: Callable[[str], str], dice: random.Random) -> None:
        self._pool, self._chooses, self._dice = pool, chooses, dice
        self._lock = threading.Lock()
        self.steps = 0
        self.died: list[str] = []

    def answer(self, step: str) -> str:
        """What a condor_dagman at this step is told."""
        with self._lock:
            self.steps += 1
            what = self._chooses(step)
            if what == DAGMAN or (what and self._kill_schedd(0.0 if what == BOTH else self._dice.choice(LATER_S))):
                self.died.append(f"{what} at {step}")
            return "die" if what in (DAGMAN, BOTH) else "live"

    def _kill_schedd(self, wait_s: float) -> bool:
        """Kill it after so long; False: there is none."""
        try:
            if not (pid := self._pool.pid_of("schedd")):
                return False
            os.kill(pid, 0 if wait_s else signal.SIGKILL)
        except (PoolError, ProcessLookupError):  # it is dead, and the master has yet to hear of that
            return False
        if wait_s:
            threading.Timer(wait_s, _kill, [pid]).start()
        return True

    @contextmanager
    def at(self, home: Path) -> Iterator[None]:
        """Answer those that run in this directory."""
        answer = self.answer

        class Asked(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(ConnectionError):  # who asks may die with the schedd
                    for line in self.rfile:
                        self.wfile.write(f"{answer(line.decode().strip())}\n".encode())

        address = str(home / "deaths.sock")
        with socketserver.ThreadingUnixStreamServer(address, Asked) as server:
            server.daemon_threads = True
            os.chmod(address, 0o777)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield
            server.shutdown()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def dies(diamond: Diamond, chooses: Callable[[str], str], dice: random.Random, deadline_s: float) -> Deaths:
    """Run the graph under these deaths, and see that it ends as if nothing had happened."""
    with real_pool(NUM_CPUS="16", MASTER_BACKOFF_CEILING="1") as pool:
        home, deaths = pool.place("graph"), Deaths(pool, chooses, dice)
        for name, text in {**FILES, "x.dag": diamond.text()}.items():
            (home / name).write_text(text)
            (home / name).chmod(0o777)
        with deaths.at(home):
            began = time.monotonic()
            said = pool.tool("condor_submit_dag", "-dagman", str(home / "dagman.sh"), "x.dag", cwd=home)
            (cluster,) = re.findall(r"submitted to cluster (\d+)", said)
            pool.until(lambda: pool.statuses(int(cluster)) == [], "the end of the graph", deadline_s=deadline_s)
        (ad,) = pool.until_done(int(cluster))
        print(f"{len(deaths.died)} deaths at {deaths.steps} steps in {time.monotonic() - began:.0f} s")
        print(Counter(death.split(" ")[0] for death in deaths.died), *deaths.died, sep="\n")
        runs, scripts = (Counter((home / name).read_text().splitlines()) for name in ("runs", "scripts"))
        assert (ad.eval_int("ExitCode"), runs) == (0, diamond.runs)
        # A script that was under way when condor_dagman died runs again, and no other.
        assert scripts.keys() == diamond.scripts
        assert not list(home.glob("*.lock")) + list(home.glob("*rescue*"))
    return deaths


@pytest.mark.slow
def test_condor_dagman_and_the_schedd_are_killed_again_and_again() -> None:
    dice = random.Random(1)
    assert len(dies(Diamond(8), SomeSteps(dice, 0.1), dice, 500).died) > 4


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_each_dies_at_each_step() -> None:
    assert len(dies(Diamond(6), EachStep(), random.Random(1), 7000).died) > 150


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_diamond_of_200_nodes_dies_at_each_kind_of_step() -> None:
    steps = EachKindOfStep(5)
    deaths = dies(Diamond(200), steps, random.Random(1), 3500)
    print(f"{len(steps.kinds)} kinds of steps", *steps.kinds.items(), sep="\n")
    assert len(deaths.died) > 350
