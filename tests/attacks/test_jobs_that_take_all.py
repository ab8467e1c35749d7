"""A job takes all processes and all disk that it can get: it meets its own bounds, by default."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attacks.actors import ATTACKER, needs_accounts
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

DISK_MB = 200


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """Its EXECUTE is a small file system."""
    with real_pool(user=ATTACKER, NUM_CPUS=2, start=False) as pool:
        execute = pool.directory / "execute"
        execute.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "tmpfs", str(execute)], check=False
        )
        if done.returncode:
            pytest.skip("root may not mount here")
        try:
            pool.start()
            yield pool
            pool.stop()
        finally:
            pool.kill()
            subprocess.run(["umount", "--lazy", str(execute)], check=False)


def python_job(pool: RealPool, name: str, code: str, more: str = "") -> tuple[int, Path]:
    """Submit a Python program; its cluster, and where it works."""
    home = pool.place(name)
    (home / "job.py").write_text(code)
    text = (
        "executable = /usr/bin/python3\narguments = -I job.py\ntransfer_executable = false\n"
        f'transfer_input_files = {home}/job.py\nshould_transfer_files = yes\ntransfer_output_files = ""\n'
        f"initialdir = {home}\noutput = out\nerror = err\nlog = log\nrequest_memory = 600\nrequest_disk = 1M\n{more}\nqueue\n"
    )
    return pool.submit(text), home


def sizes(pool: RealPool, name: str) -> list[int]:
    """How large the files of this name are that jobs have in their sandboxes."""
    found = []
    for path in (pool.directory / "execute").glob(f"*/{name}"):
        with suppress(FileNotFoundError):
            found.append(path.stat().st_size)
    return found


@pytest.mark.skipif(not Path("/sys/fs/cgroup/pids").exists(), reason="no control group that counts processes")
def test_a_job_cannot_have_all_processes_of_the_machine(pool: RealPool) -> None:
    code = """
import threading
threading.stack_size(32768)
gate, made = threading.Event(), 0
try:
    while made < 6000:
        threading.Thread(target=gate.wait, daemon=True).start()
        made += 1
except RuntimeError:
    pass
print(made, flush=True)
import os
os._exit(0)
"""
    cluster, home = python_job(pool, "bomb", code, "request_cpus = 1")
    pool.until_done(cluster)
    assert 500 < int((home / "out").read_text()) < 4096


def test_a_job_cannot_fill_the_disk_of_its_neighbours(pool: RealPool) -> None:
    hog, _ = python_job(
        pool,
        "hog",
        f"""
import os, time
with open("large", "wb") as file:
    for _ in range({DISK_MB}):
        try:
            file.write(bytes(1 << 20))
            file.flush()
        except OSError:
            open("full", "w").close()
        time.sleep(0.02)
time.sleep(1000)
""",
    )
    (ad,) = pool.until_status(hog, 5)
    assert (ad.eval_int("HoldReasonCode"), ad.eval_int("HoldReasonSubCode")) == (34, 104)
    assert "disk is nearly full" in ad.eval_str("HoldReason", "")
    pool.tool("condor_rm", str(hog))
    pool.until(lambda: not sizes(pool, "large"), "its disk to be free again")


def test_jobs_that_take_a_little_more_than_they_asked_for_are_left_alone(pool: RealPool) -> None:
    modest, _ = python_job(
        pool,
        "modest",
        """
import time
with open("mine", "wb") as file:
    file.write(bytes(5 << 20))
time.sleep(1000)
""",
    )
    pool.until(lambda: sizes(pool, "mine") == [5 << 20], "what it takes more than it asked for")
    greedy, _ = python_job(
        pool,
        "greedy",
        """
import time
with open("large", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
        file.flush()
        time.sleep(0.02)
""",
    )
    pool.until_status(greedy, 5)
    assert [ad.eval_int("JobStatus") for ad in pool.jobs(str(modest))] == [2]
    pool.tool("condor_rm", str(modest), str(greedy))
