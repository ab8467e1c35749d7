"""Programs that write checkpoints of their own, in each way in which HTCondor's manual lets them say so. Real daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_transfer import events

pytestmark = pytest.mark.slow

STEPS = """#!/bin/sh
# Makes a step and a checkpoint of it, until it has made four; waits before the last until it may.
n=$(cat at 2>/dev/null || echo 0)
echo "from $n"
[ "$n" -lt 3 ] || until [ -e "$GO" ]; do sleep 0.1; done
echo $((n + 1)) > at
[ "$n" -ge 3 ] || {end}
"""
JOB = """executable = steps.sh
environment = "GO={home}/go"
should_transfer_files = yes
output = out
error = err
log = log
{more}
queue
"""
BY_CODE = "checkpoint_exit_code = 85"
BY_SIGNAL = """+WantFTOnCheckpoint = true
+SuccessCheckpointExitBySignal = true
+SuccessCheckpointExitSignal = 10
transfer_checkpoint_files = at"""
AT_SIGNAL = """#!/bin/sh
# Counts in memory, and writes that down only when it is told to leave.
n=$(cat at 2>/dev/null || echo 0)
echo "from $n"
trap 'echo $n > at.new; mv at.new at; exit 1' USR1
touch "$GO.runs"
until [ -e "$GO" ]; do n=$((n + 1)); sleep 0.1; done
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=1) as pool:
        yield pool


def begin(pool: RealPool, home: Path, more: str, script: str) -> int:
    """The job, which runs."""
    (home / "steps.sh").write_text(script)
    (home / "steps.sh").chmod(0o755)
    home.chmod(0o777)
    cluster = pool.submit(JOB.format(home=home, more=more), cwd=home)
    pool.until_status(cluster, 2)
    return cluster


@pytest.mark.parametrize(
    ("more", "end"),
    [
        (f"{BY_CODE}\ntransfer_checkpoint_files = at", "exit 85"),
        (f"{BY_CODE}\ntransfer_output_files = at", "exit 85"),
        (BY_CODE, "exit 85"),
        (BY_SIGNAL, "kill -USR1 $$"),
        ("+WantFTOnCheckpoint = true\n+SuccessCheckpointExitCode = 85\ntransfer_output_files = at", "exit 85"),
    ],
    ids=["files of checkpoints", "files of output", "all files", "a signal", "by attributes"],
)
def test_a_program_that_says_it_has_made_a_checkpoint_goes_on_from_it(
    pool: RealPool, more: str, end: str, request: pytest.FixtureRequest
) -> None:
    home = pool.place(request.node.callspec.id.replace(" ", "-"))
    cluster = begin(pool, home, more, STEPS.replace("{end}", end))
    pool.until(lambda: events(home).count("003") == 3, "three checkpoints")
    pool.tool("condor_vacate_job", "-fast", str(cluster))
    pool.until(lambda: events(home).count("001") == 2, "the job to run again")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval("ExitCode"), ad.eval("NumCkpts"), ad.eval("NumJobStarts")) == (0, 3, 2)
    assert (home / "out").read_text().splitlines() == [f"from {n}" for n in range(4)]


def test_a_program_that_writes_its_checkpoint_when_it_has_to_leave_goes_on_from_it(pool: RealPool) -> None:
    home = pool.place("leaves")
    more = "when_to_transfer_output = ON_EXIT_OR_EVICT\nkill_sig = SIGUSR1\ntransfer_output_files = at"
    cluster = begin(pool, home, more, AT_SIGNAL)
    pool.until((home / "go.runs").exists, "the program to count")
    (home / "go.runs").unlink()
    pool.tool("condor_vacate_job", str(cluster))
    pool.until((home / "go.runs").exists, "the program to go on")
    pool.tool("condor_hold", str(cluster))
    pool.until(lambda: "012" in events(home), "the job to have left")
    (home / "go").touch()
    pool.tool("condor_release", str(cluster))
    pool.until_done(cluster)
    assert int((home / "out").read_text().split()[1]) > 0


def test_what_is_kept_of_a_job_on_hold_can_be_looked_at(pool: RealPool) -> None:
    home = pool.place("looks")
    cluster = begin(pool, home, f"{BY_CODE}\ntransfer_checkpoint_files = at", STEPS.replace("{end}", "exit 85"))
    pool.until(lambda: events(home).count("003") == 3, "three checkpoints")
    pool.tool("condor_vacate_job", str(cluster))
    pool.tool("condor_hold", str(cluster))
    pool.until(lambda: "012" in events(home), "the job to have left")
    assert pool.tool("condor_evicted_files", "get", f"{cluster}.0", cwd=home) == f"Copied to '{cluster}.0'.\n"
    assert (home / f"{cluster}.0" / "at").read_text() == "3\n"
    (home / "go").touch()
    pool.tool("condor_release", str(cluster))
    pool.until_done(cluster)


def test_a_program_that_asks_to_run_again_after_its_checkpoint_does(pool: RealPool) -> None:
    home = pool.place("again")
    script = STEPS.replace("{end}", "exit 85")
    more = "on_exit_remove = ExitCode =!= 85\ntransfer_output_files = at\ntransfer_input_files = at"
    (home / "at").write_text("2\n")
    (home / "at").chmod(0o666)
    cluster = begin(pool, home, more, script)
    pool.until(lambda: (home / "at").read_text() == "3\n", "its output")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval("ExitCode"), ad.eval("NumJobStarts"), (home / "at").read_text()) == (0, 2, "4\n")
