"""One host, real processes: a job from submit to exit, and whatever is killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

COMPLETED, RUNNING = 4, 2


@pytest.fixture
def pool() -> Iterator[RealPool]:
    with real_pool() as pool:
        yield pool


@pytest.fixture
def home(pool: RealPool) -> Path:
    """A directory in which the submitting user may write."""
    home = pool.directory / "home"
    home.mkdir()
    home.chmod(0o777)
    return home


def test_jobs_run_and_leave_output_log_and_history(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(
        """executable = /bin/sh
arguments = "-c 'echo hello from $1; exit $1' sh $(Process)"
output = out.$(Process)
log = log
queue 3
""",
        cwd=home,
    )
    ads = pool.until_done(cluster)
    assert sorted((ad.eval_int("ProcId"), ad.eval_int("JobStatus"), ad.eval_int("ExitCode")) for ad in ads) == [
        (0, COMPLETED, 0),
        (1, COMPLETED, 1),
        (2, COMPLETED, 2),
    ]
    assert [(home / f"out.{n}").read_text() for n in range(3)] == [f"hello from {n}\n" for n in range(3)]
    events = [line[:3] for line in (home / "log").read_text().splitlines() if line[:4] in ("000 ", "001 ", "005 ")]
    assert sorted(events) == ["000"] * 3 + ["001"] * 3 + ["005"] * 3


def a_waiting_job(home: Path) -> str:
    """A job that ends when the file `go` appears, having noted that it began."""
    return f"""executable = /bin/sh
arguments = "-c 'echo begun >> {home}/begun; while [ ! -e {home}/go ]; do sleep 0.1; done'"
should_transfer_files = NO
log = log
queue
"""


@pytest.mark.parametrize("daemon", ["collector", "negotiator", "schedd"])
def test_p5_a_running_job_does_not_notice_that_a_daemon_was_killed(pool: RealPool, home: Path, daemon: str) -> None:
    cluster = pool.submit(a_waiting_job(home), cwd=home)
    pool.until(lambda: (home / "begun").exists(), "the job to begin")
    pool.until_status(cluster, RUNNING)
    pool.restart_of(daemon)
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 0
    assert (home / "begun").read_text() == "begun\n"  # once
    assert ad.eval_int("NumJobStarts") == 1


def test_p4_a_job_runs_again_after_the_startd_was_killed(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(a_waiting_job(home), cwd=home)
    pool.until(lambda: (home / "begun").exists(), "the job to begin")
    pool.until_status(cluster, RUNNING)
    pool.restart_of("startd")
    pool.until(lambda: (home / "begun").read_text() == "begun\nbegun\n", "the job to begin again")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 0


def test_p1_an_acknowledged_submit_survives_the_schedd(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(f"executable = /bin/true\nlog = {home}/log\nqueue 20\n", cwd=home)
    pool.restart_of("schedd")
    ads = pool.until_done(cluster)
    assert sorted(ad.eval_int("ProcId") for ad in ads) == list(range(20))
    assert (home / "log").read_text().count("\n005 (") + (home / "log").read_text().startswith("005 (") == 20


def test_a_stop_with_a_running_job_leaves_nothing_and_the_job_goes_on_next_time(home: Path, pool: RealPool) -> None:
    cluster = pool.submit(a_waiting_job(home), cwd=home)
    pool.until(lambda: (home / "begun").exists(), "the job to begin")
    pool.until_status(cluster, RUNNING)
    pool.stop()
    pool.start()
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 0


def test_ps_tells_the_daemons_apart() -> None:
    with real_pool() as pool:
        names = {_name_of(pid) for pid in pool.processes()}
        daemons = {"condor_master", "condor_collecto", "condor_negotiat", "condor_schedd", "condor_startd"}
        assert names >= daemons | {"condor_zygote"}


def _name_of(pid: int) -> str:
    """What a process calls itself; a program that a daemon has only asked something may be gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
