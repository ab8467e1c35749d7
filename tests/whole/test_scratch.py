"""A pool whose jobs have file systems of their own: a full one holds its job; whoever is killed, the space comes back."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from daemons.host.mounts import mounted_below
from daemons.host.namespaces import can_isolate
from daemons.host.volumes.rootly import backing_files
from daemons.startd.machine.disk_limits import look
from pool.config.load import load_config
from pool.execute.scratch import ScratchKind
from tests.whole.real_pool import RealPool, real_pool

JOB = """
executable = /bin/sh
transfer_executable = false
should_transfer_files = yes
when_to_transfer_output = on_exit
request_disk = 20MB
request_memory = 64MB
"""


def _why_not() -> str:
    if not can_isolate():
        return "mounting is root's"
    root = tempfile.mkdtemp(prefix="minipool-scratch-")
    try:
        knobs = {"EXECUTE": root, "STARTD_ENFORCE_DISK_LIMITS": "true", "SCRATCH_FILE_SYSTEMS": "ext4"}
        found = look(load_config([], overrides={"LOCAL_DIR": root, **knobs}, environ={}), root)
        return "" if found.store.kind is ScratchKind.EXT4 else found.said[0]
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    if reason := _why_not():
        pytest.skip(reason)
    with real_pool(
        user="www-data",
        NUM_CPUS=2,
        STARTD_ENFORCE_DISK_LIMITS="true",
        SCRATCH_FILE_SYSTEMS="ext4",
        MASTER_BACKOFF_CEILING=1,
    ) as pool:
        yield pool


def _left(pool: RealPool) -> list[str]:
    execute = str(pool.directory / "execute")
    files = [file for file in backing_files() if file.startswith(execute + "/")]
    return [*files, *mounted_below(execute), *os.listdir(execute)]


def _disk(pool: RealPool) -> int:
    found = [ad for ad in pool.slots() if ad.eval_bool("PartitionableSlot", False)]
    if not found:
        return 0  # a startd that was killed is advertised again in a moment
    assert found[0].eval_bool("IsEnforcingDiskUsage", False)
    return found[0].eval_int("TotalDisk") or 0


def test_a_job_that_fills_its_disk_is_held_and_its_neighbour_does_not_notice(pool: RealPool) -> None:
    command = "arguments = \"-c 'head -c $(size) /dev/zero > big'\"\n"
    cluster = pool.submit(JOB + command + 'transfer_output_files = ""\nqueue size in (60000000, 10000000)\n')
    (held,) = pool.until_status(cluster, 5)
    assert held.eval_int("ProcId") == 0
    assert (held.eval_int("HoldReasonCode"), held.eval_int("HoldReasonSubCode")) == (34, 104)
    assert "Job has exceeded allocated disk (20.00 MB)." in (held.eval_str("HoldReason") or "")
    pool.until(lambda: len(pool.jobs(str(cluster))) == 1, "the neighbour's end")
    assert pool.history(str(cluster))[0].eval_int("ExitCode") == 0
    pool.until(lambda: not _left(pool), "nothing to be left")


def test_p6_a_killed_startd_has_all_of_its_disk_again(pool: RealPool) -> None:
    before = _disk(pool)
    cluster = pool.submit(JOB + "request_disk = 1GB\narguments = \"-c 'sleep 1000'\"\nqueue\n")
    pool.until_status(cluster, 2)
    pool.until(lambda: _left(pool), "the job's file system")
    pool.restart_of("startd")
    pool.tool("condor_rm", str(cluster))
    pool.until(lambda: not _left(pool), "nothing to be left")
    pool.until(lambda: _disk(pool) > before - 512 * 1024, "the disk to be advertised as before")
