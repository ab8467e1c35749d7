"""Graphs that HTCondor's condor_dagman ran, run by ours with real daemons: order, exit codes and files.

Most of what tests/cases/dag/recorded.cases holds is held by tests/pool/dag/course without any daemon; here are those
graphs that need jobs of a schedd, files that are there before, or nested graphs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.pool.dag.cases import CASES
from tests.pool.dag.recorded import Recorded, recorded, without_time
from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool

pytestmark = pytest.mark.slow
LIVE = [case for case in recorded() if case.head.get("live")]


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS="16") as pool:
        yield pool


@pytest.fixture(scope="module")
def homes(pool: RealPool) -> dict[str, Path]:
    """All of the graphs, run beside one another; in each directory the file `exit` says what came of it."""
    found = {case.name: prepared(pool, case) for case in LIVE}
    with ThreadPoolExecutor(4) as several:
        submitted = list(several.map(lambda case: submit(pool, case, found[case.name]), LIVE))
    for case, is_submitted in zip(LIVE, submitted, strict=True):
        code = returned(pool, found[case.name]) if is_submitted else "1"
        (found[case.name] / "exit").write_text(code)
    return found


def returned(pool: RealPool, home: Path) -> str:
    """What the graph's own job returned; -1 if it was removed."""
    log, over = home / "x.dag.dagman.log", re.compile(r"^(005|009) .*^\.\.\.$", re.MULTILINE | re.DOTALL)
    # All of them run at once: the first may be over as late as the last.
    pool.until(lambda: over.search(log.read_text()), f"the end of the graph in {home}", deadline_s=3 * DEADLINE_S)
    found = re.findall(r"\(return value (\d+)\)", log.read_text())
    return found[0] if found else "-1"


def prepared(pool: RealPool, case: Recorded) -> Path:
    home = pool.place("graph")
    shared = {name: (CASES / "recorded" / name).read_text() for name in ("act", "n.sub")}
    for name, text in {"codes": "", **shared, **case.files}.items():
        file = home / name
        if not file.parent.exists():
            file.parent.mkdir()
            file.parent.chmod(0o777)
        file.write_text(text)
        file.chmod(0o777)
    return home


def submit(pool: RealPool, case: Recorded, home: Path) -> bool:
    """Whether condor_submit_dag has submitted it."""
    bin = Path(sys.executable).parent
    done = subprocess.run(
        [str(bin / "condor_submit_dag"), *case.head.get("options", "").split(), *case.dags],
        cwd=home,
        env={**pool.env(), "PATH": f"{bin}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        **as_account(pool.user),
    )
    assert ("submitted to cluster" in done.stdout) == (done.returncode == 0), done
    return done.returncode == 0


def left(home: Path, case: Recorded) -> dict[str, str]:
    """The files that are compared, as they are now."""
    names = {path.name for path in home.glob("*.rescue*")} | set(case.head.get("saved", "").split())
    texts = {name: without_time((home / name).read_text()) for name in sorted(names)}
    return {name: re.sub(r"Completion=\d+", "Completion=NOW", text) for name, text in texts.items()}


@pytest.mark.parametrize("case", LIVE, ids=lambda case: case.name)
def test_a_graph_ends_as_htcondors(homes: dict[str, Path], case: Recorded) -> None:
    home = homes[case.name]
    order = home / "order"
    ran = order.read_text().splitlines() if order.exists() else []
    assert (ran if case.in_order else sorted(ran), int((home / "exit").read_text())) == (case.ran, case.exit_code)
    assert left(home, case) == case.left
