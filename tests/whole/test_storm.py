"""Fifty jobs run while every daemon is killed in turn: none is lost, none runs twice at a time, nothing is left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.whole.probe import PROBE, patiently
from tests.whole.real_pool import RealPool, as_account, real_pool

JOBS = 50
DESCRIPTION = """executable = {program}
arguments = 2
initialdir = job.$(Process)
output = out
log = {log}
should_transfer_files = NO
job_lease_duration = 60
queue {jobs}
"""


def _directories(pool: RealPool) -> Path:
    home = Path(tempfile.mkdtemp(prefix="storm-", dir=pool.directory))
    (home / "probe.sh").write_text(PROBE)
    (home / "probe.sh").chmod(0o755)
    for number in range(JOBS):
        (home / f"job.{number}").mkdir()
    if identity := as_account(pool.user):
        for path in [home, *home.iterdir()]:
            os.chown(path, identity["user"], identity["group"])
    return home


def _agents(pool: RealPool) -> list[int]:
    return [pid for pid in pool.processes() if _name(pid) == "condor_agent"]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has just ended
        return ""


def _kill_one(pool: RealPool, what: str) -> None:
    if what == "master":
        pool.kill()
        pool.start()
    elif what == "agent":
        for pid in _agents(pool):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    else:
        pool.restart_of(what)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_p1_to_p6_hold_for_fifty_jobs_while_each_daemon_dies() -> None:
    with real_pool(user="www-data", NUM_CPUS=16, MASTER_BACKOFF_CEILING=1) as pool:
        home = _directories(pool)
        cluster = pool.submit(DESCRIPTION.format(program=home / "probe.sh", log=home / "log", jobs=JOBS), cwd=home)
        for what in ("collector", "negotiator", "agent", "schedd", "startd", "master"):
            pool.until(lambda: any((home / f"job.{n}" / "trace").exists() for n in range(JOBS)), "jobs to begin")
            _kill_one(pool, what)
        pool.until(lambda: not patiently(pool, lambda: pool.jobs(str(cluster))), "the end of all", deadline_s=600)
        ended = patiently(pool, lambda: pool.history(str(cluster)))
        assert Counter((ad["JobStatus"], ad["ExitCode"]) for ad in ended) == {(4, 0): JOBS}
        assert len({ad["ProcId"] for ad in ended}) == JOBS
        for number in range(JOBS):
            trace = (home / f"job.{number}" / "trace").read_text().split()
            assert "overlap" not in trace
            assert trace[-1] == "end"
        pool.until(lambda: (home / "log").read_text().count("\n005 (") == JOBS, "the last event")
        ends = re.findall(r"^005 \((\d+\.\d+)", (home / "log").read_text(), re.MULTILINE)
        assert len(set(ends)) == JOBS
        shutil.rmtree(home)
