"""Memory limits of the kernel, in a real pool of root's: the soft one, and what becomes of jobs when the host lacks memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemons.host.cgroup_trees import usable_trees
from tests.whole.real_pool import RealPool, pool_directory, real_pool

IDLE, HELD = 1, 5
MACHINE_MB, SLOT_MB = 400, 128
GREEDY = """executable = {python}
arguments = "-c 'import os, time; x = b""x"" * ({mib} << 20); open(""{at}/has-it"", ""w"").close(); [time.sleep(0.05) for _ in iter(lambda: os.path.exists(""{at}/end""), True)]'"
transfer_executable = false
request_memory = 100
log = {at}/log
queue
"""


@contextmanager
def a_pool(**knobs: object) -> Iterator[tuple[RealPool, Path, Path]]:
    """A pool whose jobs' groups are in a group of the test's, that group, and a directory for signs from jobs."""
    base = f"minipool-test-{os.getpid()}"
    trees = usable_trees(base) if os.geteuid() == 0 else None
    mounts = dict(trees.mounts) if trees is not None else {}
    mount = mounts.get("memory" if trees is not None and trees.version == 1 else "")
    if mount is None or (trees is not None and trees.version == 2 and "memory" not in trees.controllers):
        pytest.skip("root has no group that limits memory")
    with pool_directory() as at:
        at.chmod(0o777)
        try:
            with real_pool(BASE_CGROUP=base, MEMORY=MACHINE_MB, **knobs) as pool:
                yield pool, Path(mount, base), at
        finally:
            for one in mounts.values():
                for directory, _, _ in os.walk(Path(one, base), topdown=False):
                    Path(directory).rmdir()


def greedy(at: Path, mib: int) -> str:
    return GREEDY.format(python=sys.executable, mib=mib, at=at)


def limit(group: Path, mib: int) -> None:
    """What all jobs may have together: for each of them it is as if the host had no more."""
    version_1 = group / "memory.limit_in_bytes"
    (version_1 if version_1.exists() else group / "memory.max").write_text(str(mib << 20))


def memory_of_a_job(base: Path) -> tuple[int, int, int]:
    """The soft and the hard limit of the only job's group, and what is in it, in MiB."""
    names = ("memory.soft_limit_in_bytes", "memory.limit_in_bytes", "memory.usage_in_bytes")
    (group,) = (one for one in base.glob("*slot1_1*") if one.is_dir())
    if not (group / names[0]).exists():
        names = ("memory.low", "memory.max", "memory.current")
    soft, hard, used = (int((group / name).read_text()) >> 20 for name in names)
    return soft, hard, used


def test_beyond_a_soft_limit_a_job_runs_on_and_is_held_at_what_the_startd_has() -> None:
    with a_pool(CGROUP_MEMORY_LIMIT_POLICY="soft") as (pool, base, at):
        modest = pool.submit(greedy(at, SLOT_MB + 72))
        pool.until((at / "has-it").exists, "a job with more than its slot's memory")
        soft, hard, used = memory_of_a_job(base)
        assert (soft, hard) == (SLOT_MB, MACHINE_MB)
        assert used > SLOT_MB
        (at / "end").touch()
        (ended,) = pool.until_done(modest)
        assert (ended.eval_int("ExitCode"), ended.eval_int("NumJobStarts")) == (0, 1)
        (held,) = pool.until_status(pool.submit(greedy(at, MACHINE_MB + 50)), HELD)
        assert (held.eval_int("HoldReasonCode"), held.eval_int("HoldReasonSubCode")) == (34, 102)
        assert f"memory limit of {MACHINE_MB} megabytes" in held.eval_str("HoldReason", "")
        pool.tool("condor_rm", "-all")
        pool.until(lambda: not pool.jobs(), "an empty queue")


def test_the_slots_memory_is_the_hard_limit_by_default_and_nine_tenths_of_it_the_soft_one() -> None:
    with a_pool() as (pool, base, at):
        job = pool.submit(greedy(at, 20))
        pool.until((at / "has-it").exists, "the job")
        assert memory_of_a_job(base)[:2] == (SLOT_MB * 9 // 10, SLOT_MB)
        (at / "end").touch()
        pool.until_done(job)


def test_a_job_that_the_kernel_kills_below_its_limit_for_the_hosts_want_is_held() -> None:
    with a_pool() as (pool, base, at):
        limit(base, 60)
        (held,) = pool.until_status(pool.submit(greedy(at, 90)), HELD)
        assert (held.eval_int("HoldReasonCode"), held.eval_int("HoldReasonSubCode")) == (34, 102)
        assert f"memory limit of {SLOT_MB} megabytes" in held.eval_str("HoldReason", "")
        pool.tool("condor_rm", "-all")
        pool.until(lambda: not pool.jobs(), "an empty queue")


def test_such_a_job_is_idle_and_runs_again_unless_it_is_always_to_be_held() -> None:
    with a_pool(STARTER_ALWAYS_HOLD_ON_OOM=False) as (pool, base, at):
        limit(base, 60)
        job = pool.submit(greedy(at, 90))

        def evicted() -> bool:
            return (at / "log").exists() and "The machine ran out of memory" in (at / "log").read_text()

        pool.until(evicted, "an eviction that tells why")
        assert [ad.eval_int("JobStatus") for ad in pool.jobs(str(job))] != [HELD]
        limit(base, 300)
        (at / "end").touch()
        (ended,) = pool.until_done(job)
        assert ended.eval_int("ExitCode") == 0
        assert ended.eval_int("NumJobStarts", 0) >= 2


def test_beyond_nine_tenths_of_its_own_limit_a_job_is_held_all_the_same() -> None:
    with a_pool(STARTER_ALWAYS_HOLD_ON_OOM=False) as (pool, _base, at):
        (held,) = pool.until_status(pool.submit(greedy(at, SLOT_MB + 50)), HELD)
        assert (held.eval_int("HoldReasonCode"), held.eval_int("HoldReasonSubCode")) == (34, 102)
        pool.tool("condor_rm", "-all")
        pool.until(lambda: not pool.jobs(), "an empty queue")
