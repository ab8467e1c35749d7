"""kill -9 of a machine's startd, zygote and starter, one or two at once, at each stage of a job (P2, P3, P4, P6).

The starter stops at the stage; while it stands still the test kills whom it wants, and lets it go on if it still lives.
The first to die at a stage alone, the starter, is in `test_crashes.py`; hooks and containers have files of their own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.probe import Probe
from tests.whole.real_pool import RealPool, real_pool

STAGES = {
    "sandbox": "starter.sandbox_made",
    "input": "starter.input_file",
    "run": "starter.job_started",
    "exit": "starter.job_exited",
    "output": "starter.output_file",
    "report": "starter.reported",
}
TRANSFERS = """
executable = /bin/sh
transfer_executable = false
arguments = "-c 'cp given taken; cd {directory}; exec ./probe.sh {seconds}'"
should_transfer_files = YES
transfer_input_files = given
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        user="www-data",
        NUM_CPUS=4,
        MASTER_BACKOFF_CEILING=1,
        USE_PID_NAMESPACES="true",
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


def until_stopped(pool: RealPool, marker: Path) -> int:
    """The starter that has come to this point, once it stands still: SIGCONT would else come too early for it."""
    pool.until(lambda: marker.exists() and marker.read_text().endswith("\n"), f"{marker.name} to be reached")
    starter = int(marker.read_text())
    pool.until(lambda: _state(starter) == "T", "the starter to stand still")
    return starter


def stopped_at(pool: RealPool, stage: str) -> tuple[Probe, int]:
    """A job with files that move, and its starter, which stands still."""
    marker = pool.run_dir / "faults" / STAGES[stage]
    marker.unlink()
    probe = Probe(pool, 0.5)
    probe.more = TRANSFERS.format(directory=probe.directory, seconds=probe.seconds)
    (probe.directory / "given").write_text("some input\n")
    probe.submit()
    return probe, until_stopped(pool, marker)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def zygote_of(pool: RealPool) -> int:
    """The zygote of the machine's startd, which may have to be made anew."""
    startd = pool.pid_of("startd")
    found = pool.until(lambda: [pid for pid in _children(startd) if _comm(pid) == "condor_zygote"], "a zygote")
    return found[0]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def go_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def processes_of_jobs(pool: RealPool) -> list[int]:
    """Whatever any job of the pool has started, wherever it hides."""
    mark = b"_CONDOR_SCRATCH_DIR=" + os.fsencode(pool.directory / "execute")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def assert_all_is_well(pool: RealPool, probe: Probe) -> int:
    """It ended once, and nothing of it is left; how often it was started."""
    ad = probe.assert_ended_once()
    assert (probe.directory / "taken").read_text() == "some input\n"
    pool.until(lambda: not list((pool.directory / "execute").iterdir()), "the end of the sandbox")
    pool.until(lambda: not processes_of_jobs(pool), "the end of its processes")
    return ad.eval_int("NumJobStarts") or 0


def rows(*quick: str) -> list[object]:
    return [stage if stage in quick else pytest.param(stage, marks=pytest.mark.slow) for stage in STAGES]


@pytest.mark.parametrize("stage", rows("run"))
def test_a_job_does_not_notice_the_death_of_its_zygote(pool: RealPool, stage: str) -> None:
    probe, starter = stopped_at(pool, stage)
    os.kill(zygote_of(pool), signal.SIGKILL)
    go_on(starter)
    assert assert_all_is_well(pool, probe) == 1
    assert probe.trace() == ["begin", "end"]


@pytest.mark.parametrize("stage", rows())
def test_a_job_ends_once_although_starter_and_zygote_die_together(pool: RealPool, stage: str) -> None:
    probe, starter = stopped_at(pool, stage)
    os.kill(zygote_of(pool), signal.SIGKILL)
    os.kill(starter, signal.SIGKILL)
    assert_all_is_well(pool, probe)


@pytest.mark.parametrize("stage", rows())
def test_a_job_ends_once_although_its_startd_dies(pool: RealPool, stage: str) -> None:
    probe, starter = stopped_at(pool, stage)
    pool.restart_of("startd")
    go_on(starter)
    assert_all_is_well(pool, probe)


@pytest.mark.parametrize("stage", rows())
def test_a_job_ends_once_although_startd_and_starter_die_together(pool: RealPool, stage: str) -> None:
    probe, starter = stopped_at(pool, stage)
    startd = pool.pid_of("startd")
    os.kill(startd, signal.SIGKILL)
    os.kill(starter, signal.SIGKILL)
    pool.until(lambda: pool.pid_of("startd") not in (0, startd), "another startd")
    assert_all_is_well(pool, probe)


@pytest.mark.parametrize("stage", rows())
def test_a_job_ends_once_although_startd_and_zygote_die_together(pool: RealPool, stage: str) -> None:
    probe, starter = stopped_at(pool, stage)
    startd, zygote = pool.pid_of("startd"), zygote_of(pool)
    os.kill(zygote, signal.SIGKILL)
    os.kill(startd, signal.SIGKILL)
    pool.until(lambda: pool.pid_of("startd") not in (0, startd), "another startd")
    go_on(starter)
    assert_all_is_well(pool, probe)
