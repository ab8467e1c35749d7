"""Jobs are held to their limits also where an ordinary account's pool has no control groups, and people are told how."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pool.execute.enforcement import CPUS, MEMORY, PROCESSES
from tests.whole.real_pool import RealPool, pool_directory, real_pool

RUNNING, HELD = 2, 5
GREEDY = "executable = {python}\narguments = \"-c 'import time; x = bytearray({mib} << 20); time.sleep(600)'\"\ntransfer_executable = false\n"
UNIFIED = Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")


def greedy(mib: int) -> str:
    return GREEDY.format(python=sys.executable, mib=mib)


def whole_slot(pool: RealPool) -> dict[str, str]:
    ad = pool.machine()
    return {name: ad.eval_str(name, "") for name in (MEMORY, CPUS, PROCESSES)}


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    if os.geteuid() != 0 and Path("/proc/self/cgroup").read_text().startswith("0::"):
        pytest.skip("this account may have a group that is delegated to it")
    with real_pool(owner="nobody", JOB_MEMORY_POLLING_INTERVAL=0.5) as pool:
        yield pool


def test_a_job_that_outgrows_its_memory_is_held_without_a_control_group(pool: RealPool) -> None:
    small = pool.submit(greedy(16) + "request_memory = 100\nqueue\n")
    large = pool.submit(greedy(250) + "request_memory = 100\nqueue\n")
    (job,) = pool.until_status(large, HELD)
    assert (job.eval_int("HoldReasonCode"), job.eval_int("HoldReasonSubCode")) == (34, 102)
    reason = job.eval_str("HoldReason", "")
    assert "has gone over memory limit of 128 megabytes" in reason or "limit of 100 megabytes" in reason
    pool.until_status(small, RUNNING)
    pool.tool("condor_rm", "-all")
    pool.until(lambda: not pool.jobs(), "an empty queue")


def test_how_limits_are_enforced_is_in_the_slots_ad_and_the_log(pool: RealPool) -> None:
    assert whole_slot(pool) == {MEMORY: "polling", CPUS: "none", PROCESSES: "none"}
    log = (pool.directory / "log" / "StartLog").read_text()
    assert "Not all limits of jobs are enforced by control groups" in log


def test_pool_up_says_it_too() -> None:
    with pool_directory("nobody") as directory:
        pool = RealPool(directory, {}, user="nobody", owner="nobody")
        try:
            said = pool.tool("pool", "up", "--dir", str(directory), "-c", "NUM_CPUS=1", "-c", "DOCKER=")
            assert "memory is looked at every JOB_MEMORY_POLLING_INTERVAL" in said
        finally:
            pool.tool("pool", "down", "--dir", str(directory))


@contextmanager
def a_delegated_group() -> Iterator[Path]:
    """A group of version 2 that belongs to nobody, with this process in it."""
    mount = next((path for path in UNIFIED if (path / "cgroup.controllers").exists()), None)
    if os.geteuid() != 0 or mount is None:
        pytest.skip("no group of version 2 can be made")
    group = mount / f"minipool-test-{os.getpid()}"
    group.mkdir()
    try:
        for path in (group, *(group / name for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads"))):
            shutil.chown(path, "nobody")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield group
    finally:
        (mount / "cgroup.procs").write_text(str(os.getpid()))
        for directory, _, _ in os.walk(group, topdown=False):
            Path(directory).rmdir()


def test_a_delegated_group_is_used() -> None:
    """As `Delegate=yes` of a unit makes one: jobs live in groups below it, in which nobody hides."""
    with a_delegated_group() as group, real_pool(owner="nobody", JOB_MEMORY_POLLING_INTERVAL=0.5) as pool:
        cluster = pool.submit(greedy(16) + "request_memory = 100\nqueue\n")
        pool.until_status(cluster, RUNNING)

        def members() -> list[str]:
            found = group.glob("htcondor/*slot1_1*/cgroup.procs")
            return [pid for file in found for pid in file.read_text().split()]

        pool.until(members, "a job in its group")
        has = (group / "cgroup.controllers").read_text().split()
        assert whole_slot(pool)[MEMORY] == ("cgroup" if "memory" in has else "polling")
        pool.tool("condor_rm", "-all")
        pool.until(lambda: not pool.jobs(), "an empty queue")
