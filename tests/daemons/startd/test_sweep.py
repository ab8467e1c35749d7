"""Whatever ends first, nothing of a starter stays: real processes and directories, under any account."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from daemons.startd.starters.sweep import StarterPlace, StarterRecords
from pool.execute.cgroup import Trees
from tests.daemons.startd.schedd import a_bench

STARTER = """
import os, subprocess, sys, time
job = {**os.environ, "_CONDOR_SCRATCH_DIR": sys.argv[1] % os.getpid()}
os.mkdir(job["_CONDOR_SCRATCH_DIR"])
child = subprocess.Popen(["sleep", "300"], env=job, start_new_session=True)
print(child.pid, flush=True)
time.sleep(300)
"""


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that has a sandbox and a job in a session of its own."""
    (tmp_path / "execute").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "execute" / "dir_%d")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    job = int(process.stdout.readline())
    yield process, job
    process.kill()
    process.wait()
    process.stdout.close()
    if alive(job):
        os.kill(job, 9)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


def test_p6_when_a_starter_is_gone_so_is_its_job_and_its_sandbox(
    tmp_path: Path, starter: tuple[subprocess.Popen[str], int]
) -> None:
    process, job = starter
    records = StarterRecords(tmp_path / "run", Trees(0))
    records.write(process.pid, StarterPlace(str(tmp_path / "execute")))
    process.kill()
    process.wait()
    assert alive(job)
    assert records.clean(process.pid) == []
    assert until_gone(job)
    assert os.listdir(tmp_path / "execute") == []
    assert list((tmp_path / "run" / "starters").iterdir()) == []


def test_p6_a_startd_that_starts_removes_what_another_life_left(
    tmp_path: Path, starter: tuple[subprocess.Popen[str], int]
) -> None:
    process, job = starter
    StarterRecords(tmp_path / "run", Trees(0)).write(process.pid, StarterPlace(str(tmp_path / "execute")))
    (tmp_path / "execute" / "dir_999999999").mkdir()
    (tmp_path / "execute" / "keep").touch()
    (tmp_path / "run" / "starters" / "5.json").write_text("{ half a rec")
    assert StarterRecords(tmp_path / "run", Trees(0)).clean_all([str(tmp_path / "execute")]) == []
    process.wait()
    assert until_gone(job)
    assert os.listdir(tmp_path / "execute") == ["keep"]
    assert list((tmp_path / "run" / "starters").iterdir()) == []


def test_a_later_process_with_the_number_of_a_starter_is_left_alone(tmp_path: Path) -> None:
    records = StarterRecords(tmp_path / "run", Trees(0))
    records.write(os.getpid(), StarterPlace(str(tmp_path)))
    file = tmp_path / "run" / "starters" / f"{os.getpid()}.json"
    file.write_text(file.read_text().replace('"started": ', '"started": 1'))
    assert records.clean(os.getpid()) == []


def test_a_starter_without_record_needs_no_cleaning(tmp_path: Path) -> None:
    assert StarterRecords(tmp_path / "run", Trees(0)).clean(12345) == []


async def test_a_backfill_client_of_an_earlier_life_ends_although_backfill_is_off_now(tmp_path: Path) -> None:
    mark = f"_CONDOR_BACKFILL={tmp_path}/where-sandboxes-were"
    name, _, value = mark.partition("=")
    client = subprocess.Popen(["sleep", "300"], env={**os.environ, name: value}, start_new_session=True)
    try:
        (tmp_path / "run").mkdir()
        (tmp_path / "run/backfill").write_text(mark)
        async with a_bench(tmp_path, ENABLE_BACKFILL="false"):
            assert await trio.to_thread.run_sync(client.wait) == -signal.SIGKILL
            assert not (tmp_path / "run/backfill").exists()
    finally:
        client.kill()
        client.wait()
