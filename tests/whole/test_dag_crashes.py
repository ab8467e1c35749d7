"""condor_dagman and the schedd are killed while a graph runs with real daemons: no node's job runs once too often.

tests/minipool/dagman/test_crashes.py kills them at each step, in a simulated world.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

pytestmark = pytest.mark.slow
LAYER = [f"N{number}" for number in range(60)]
NODE = """executable = node.sh
arguments = $(JOB) $(fails:0)
transfer_executable = false
should_transfer_files = NO
queue
"""
PROGRAM = """#!/bin/sh
echo $1 >> runs
exec test $(grep -cx $1 runs) -gt $2
"""
STEP = 6
"""After so many more runs something is killed again."""


def graph() -> str:
    """A diamond; a third of its nodes fails once, another twice, and the last third has scripts."""
    lines = [f"JOB {name} n.sub" for name in ("A", "Z", *LAYER)]
    for number, name in enumerate(LAYER):
        lines += [
            f"PARENT A CHILD {name}",
            f"PARENT {name} CHILD Z",
            f'RETRY {name} 3\nVARS {name} fails="{number % 3}"',
        ]
        lines += [] if number % 3 else [f"SCRIPT PRE {name} s.sh", f"SCRIPT POST {name} s.sh"]
    return "\n".join([*lines, ""])


def runs(home: Path) -> list[str]:
    return (home / "runs").read_text().split()


def kill_dagman(home: Path) -> None:
    said = re.findall(r"\*\* PID = (\d+) ", (home / "x.dag.dagman.out").read_text())
    with suppress(ProcessLookupError):  # one that was killed is not there again yet
        os.kill(int(said[-1]), signal.SIGKILL)


def test_condor_dagman_and_the_schedd_are_killed_again_and_again() -> None:
    with real_pool(NUM_CPUS="16", MASTER_BACKOFF_CEILING="1") as pool:
        home = pool.place("graph")
        for name, text in (
            ("x.dag", graph()),
            ("n.sub", NODE),
            ("node.sh", PROGRAM),
            ("s.sh", "#!/bin/sh\n"),
            ("runs", ""),
        ):
            (home / name).write_text(text)
            (home / name).chmod(0o777)
        program = Path(sys.executable).with_name("condor_dagman")
        said = pool.tool("condor_submit_dag", "-dagman", str(program), "-maxjobs", "20", "x.dag", cwd=home)
        (cluster,) = re.findall(r"submitted to cluster (\d+)", said)
        killed = until_over(pool, home)
        (ad,) = pool.until_done(int(cluster))
        expected = {"A": 1, "Z": 1} | {name: 1 + number % 3 for number, name in enumerate(LAYER)}
        assert (ad.eval_int("ExitCode"), Counter(runs(home))) == (0, expected)
        assert killed > 10


def until_over(pool: RealPool, home: Path) -> int:
    """Kill one, the other, and both by turns; how often."""
    seen = killed = 0
    for what in cycle(("dagman", "schedd", "both")):
        pool.until(lambda seen=seen: len(runs(home)) >= seen + STEP or "Z" in runs(home), "more runs")
        seen = len(runs(home))
        if "Z" in runs(home):
            break
        if what != "schedd":
            kill_dagman(home)
        if what != "dagman":
            pool.restart_of("schedd")
        killed += 1
    return killed
