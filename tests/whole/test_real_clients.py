"""Programs that know nothing of this pool, as their authors publish them: each runs a small piece of work through it.

What they do is in tests/cases/clients. They find our condor_* programs in PATH, as they would find HTCondor's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool

CASES = Path(__file__).parents[1] / "cases" / "clients"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=8, MEMORY=8192) as pool:
        yield pool


def run(pool: RealPool, program: str) -> tuple[Path, str]:
    """The client's directory, and what it printed."""
    home = pool.directory / program
    home.mkdir()
    home.chmod(0o777)
    (home / "program.py").write_text((CASES / f"{program}.py").read_text())
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=home,
        env={**pool.env(), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
        **as_account(pool.user),
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{pool.logs()}"
    return home, done.stdout


@pytest.mark.slow
def test_parsl_runs_blocks_of_workers_and_cancels_its_jobs(pool: RealPool) -> None:
    pytest.importorskip("parsl")
    _, said = run(pool, "use_parsl")
    found = json.loads(said.splitlines()[-1])
    assert found["sum"] == sum(number * number for number in range(100))
    assert found["error"] == "ValueError"
    assert found["blocks"] == ["CANCELLED", "RUNNING"]
    assert found["own"] == ["RUNNING", "COMPLETED"]
    assert found["cancelled"] == [True]
    pool.tool("condor_rm", "-all", check=False)  # it has its jobs stay in the queue when they are over
    pool.tool("condor_rm", "-all", "-forcex", check=False)
    pool.until(lambda: not pool.jobs(), "an empty queue")


@pytest.mark.slow
def test_b2luigi_tells_tasks_that_succeed_from_one_that_fails(pool: RealPool) -> None:
    pytest.importorskip("b2luigi")
    home, _ = run(pool, "use_b2luigi")
    written = sorted(path.read_text() for path in (home / "results").rglob("number.txt"))
    assert written == [str(number) for number in range(6)]
    codes = Counter(ad.eval_int("ExitCode") for ad in pool.history("-constraint", 'JobFlavour == "short"'))
    assert codes == {0: 6, 3: 1}


@pytest.mark.slow
def test_pycondor_submits_several_queue_statements(pool: RealPool) -> None:
    pytest.importorskip("pycondor")
    _, said = run(pool, "use_pycondor")
    found = json.loads(said.splitlines()[-1])
    assert found["version"][0] == 25
    assert found["said"] == [f"hello {number} words\n" for number in range(4)]
    assert len(found["totals"]) == 1
    codes = [ad.eval_int("ExitCode") for ad in pool.history("-constraint", "Mine == 3")]
    assert sorted(code for code in codes if code is not None) == [0, 1, 2, 3]


@pytest.mark.slow
def test_pycondor_runs_a_dag_with_a_dag_within(pool: RealPool) -> None:
    pytest.importorskip("pycondor")
    _, said = run(pool, "use_pycondor_dag")
    found = json.loads(said.splitlines()[-1])
    ran = found["order"]
    assert (ran[0], sorted(ran[1:5]), ran[5:]) == ("one", ["four", "three", "three", "two"], ["six", "seven"])
    assert found["output"] == ["deep.output", "first.output", "last.output", "many.output", "many_n4.output"]


@pytest.mark.slow
def test_nipype_runs_a_workflow_as_a_dag_and_waits_for_its_end(pool: RealPool) -> None:
    if find_spec("nipype") is None:  # to import it would have it tell its authors
        pytest.skip("no nipype")
    _, said = run(pool, "use_nipype_dag")
    found = json.loads(said.splitlines()[-1])
    ran = found["order"]
    assert (ran[0], ran[1:3], ran[3:]) == ("1", ["2", "2"], ["4+4"])
    assert (found["done"], found["code"]) == (4, 0)
