"""Daemons die at every stage of a starter's going to rest, resting and waking: the job runs once and ends once (P2 to P6).

At a stage the starter stops; while it stands still the test kills whom it wants, and lets it go on if it still lives.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.base.linux import descendants
from tests.whole.probe import Probe
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.rest import name_of, resting_keepers, starters_of
from tests.whole.test_crashes_by_stage import go_on, processes_of_jobs, zygote_of

STAGES = {
    "about to": "starter.wants_rest",
    "schedd knows": "starter.rest_told",
    "startd knows": "starter.may_rest",
    "woken": "starter.wakes",
    "awake": "starter.awake",
}
HANDED_OVER, RESTING = "handed over", "resting"
OFTEN = frozenset(
    {("schedd", "startd knows"), ("startd", "handed over"), ("keeper", "awake"), ("startd and schedd", "resting")}
)
"""What is run with the slow tests; all with the long ones."""
TRANSFERS = """
executable = /bin/sh
transfer_executable = false
arguments = "-c 'cp given taken; cd {directory}; exec ./waits.sh'"
should_transfer_files = YES
transfer_input_files = given
"""
WAITS = """#!/bin/sh
exec 9> lock
flock -n 9 || echo overlap >> trace
echo begin >> trace
while [ ! -e go ]; do sleep 0.1; done
echo end >> trace
echo done
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        user="www-data",
        NUM_CPUS=4,
        MASTER_BACKOFF_CEILING=1,
        STARTER_REST_AFTER=1,
        FAULT_POINTS=" ".join(STAGES.values()),
        start=False,
    ) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        faults.chmod(0o777)
        for point in STAGES.values():
            (faults / point).touch()
            (faults / f"{point}.do").write_text("stop")
        pool.start()
        yield pool


def at_stage(pool: RealPool, stage: str) -> tuple[Probe, int, int]:
    """A job with files that move, its keeper, and its starter, which stands still (0: there is none)."""
    probe = Probe(pool)
    probe.more = TRANSFERS.format(directory=probe.directory)
    (probe.directory / "given").write_text("some input\n")
    (probe.directory / "waits.sh").write_text(WAITS)
    (probe.directory / "waits.sh").chmod(0o755)
    if stage == RESTING:
        probe.submit()
        pool.until(lambda: resting_keepers(pool), "the starter to rest")
        return probe, resting_keepers(pool)[0], 0
    marker = pool.run_dir / "faults" / STAGES["startd knows" if stage == HANDED_OVER else stage]
    marker.unlink()
    probe.submit()
    if stage in ("woken", "awake"):
        pool.until(lambda: resting_keepers(pool), "the starter to rest")
        (probe.directory / "go").touch()
    pool.until(lambda: marker.exists() and marker.read_text().endswith("\n"), f"{stage} to be reached")
    starter = int(marker.read_text())
    pool.until(lambda: _state(starter) == "T", "the starter to stand still")
    keeper = int(_stat(starter)[1])
    if stage == HANDED_OVER:  # the keeper has not looked yet, and the starter is gone
        os.kill(keeper, signal.SIGSTOP)
        pool.until(lambda: _state(keeper) == "T", "the keeper to stand still")
        go_on(starter)
        pool.until(lambda: _state(starter) == "Z", "the end of the starter")
        return probe, keeper, keeper
    return probe, keeper, starter


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _state(pid: int) -> str:
    return _stat(pid)[0]


def kill(pool: RealPool, whom: str, keeper: int, starter: int) -> None:
    """With SIGKILL; returns when there is another where there has to be one."""
    if whom == "starter":
        os.kill(starter or keeper, signal.SIGKILL)
    elif whom == "keeper":
        os.kill(keeper, signal.SIGKILL)
    elif whom == "zygote":
        os.kill(zygote_of(pool), signal.SIGKILL)
    elif whom == "keeper and zygote":
        os.kill(zygote_of(pool), signal.SIGKILL)
        os.kill(keeper, signal.SIGKILL)
    elif whom == "master":
        assert pool.master is not None
        pool.master.kill()
        pool.master.wait()
        pool.until(lambda: not pool.processes() or _only_of_jobs(pool), "the end of its daemons")
        pool.start()
    elif whom == "startd and schedd":
        startd, schedd = pool.pid_of("startd"), pool.pid_of("schedd")
        os.kill(startd, signal.SIGKILL)
        os.kill(schedd, signal.SIGKILL)
        pool.until(lambda: pool.pid_of("startd") not in (0, startd), "another startd")
        pool.until(lambda: pool.pid_of("schedd") not in (0, schedd), "another schedd")
    else:
        pool.restart_of(whom)


def _only_of_jobs(pool: RealPool) -> bool:
    """What stands still goes on to live without its daemons."""
    return not any(name_of(pid) in ("condor_master", "condor_schedd", "condor_startd") for pid in pool.processes())


def assert_all_is_well(pool: RealPool, probe: Probe) -> int:
    """It ended once, and nothing of it is left; how often it was started."""
    (probe.directory / "go").touch()
    ad = probe.assert_ended_once()
    assert (probe.directory / "taken").read_text() == "some input\n"
    pool.until(lambda: not list((pool.directory / "execute").iterdir()), "the end of the sandbox")
    pool.until(lambda: not processes_of_jobs(pool), "the end of its processes")
    return ad.eval_int("NumJobStarts") or 0


WHOM = ("starter", "keeper", "zygote", "keeper and zygote", "startd", "schedd", "startd and schedd", "master")
ROWS = [
    pytest.param(whom, stage, marks=pytest.mark.slow if (whom, stage) in OFTEN else pytest.mark.long)
    for stage in (*STAGES, HANDED_OVER, RESTING)
    for whom in WHOM
]


@pytest.mark.parametrize(("whom", "stage"), ROWS)
def test_p4_p6_a_job_ends_once_whoever_dies_as_its_starter_rests(pool: RealPool, whom: str, stage: str) -> None:
    probe, keeper, starter = at_stage(pool, stage)
    kill(pool, whom, keeper, starter)
    if starter:
        go_on(starter)
    starts = assert_all_is_well(pool, probe)
    if whom in ("schedd", "zygote"):
        assert (starts, probe.trace()) == (1, ["begin", "end"])


@pytest.mark.slow
def test_p2_a_job_ends_that_is_told_to_leave_before_its_starter_has_taken_it_over(pool: RealPool) -> None:
    probe, keeper, _ = at_stage(pool, RESTING)
    inner = descendants(keeper)
    marker = pool.run_dir / "faults" / STAGES["awake"]
    marker.unlink()
    (cluster,) = [ad.eval_int("ClusterId", 0) for ad in probe.in_queue()]
    pool.tool("condor_rm", str(cluster))
    pool.until(lambda: marker.exists() and marker.read_text().endswith("\n"), "the starter to be awake")
    starter = int(marker.read_text())
    pool.until(lambda: _state(starter) == "T", "the starter to stand still")
    go_on(starter)
    pool.until_gone(cluster)
    pool.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inner), "the end of its processes")


@pytest.mark.slow
def test_a_job_that_ends_while_the_startd_is_asked_for_rest_leaves_no_starter(pool: RealPool) -> None:
    probe, keeper, starter = at_stage(pool, "schedd knows")
    startd = pool.pid_of("startd")
    os.kill(startd, signal.SIGSTOP)
    go_on(starter)
    pool.until(lambda: _state(starter) == "S", "the starter to wait for an answer")
    (probe.directory / "go").touch()
    pool.until(lambda: probe.trace()[-1:] == ["end"] and not processes_of_jobs(pool), "the end of the job")
    go_on(startd)
    assert_all_is_well(pool, probe)
    pool.until(lambda: not starters_of(keeper), "the end of the starter")
