from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from daemons.host.cgroup import ControlGroup
from daemons.host.cgroup_trees import usable_trees
from pool.execute.cgroup import CgroupLimits, Trees

MIB = 1 << 20


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    trees = usable_trees("minipool-test")
    if not trees.version:
        if os.environ.get("CI") == "true" and os.getuid() == 0:
            pytest.fail("root cannot make control groups")
        pytest.skip("no control groups can be made")
    made = ControlGroup(trees, f"minipool-test/unit-{os.getpid()}")
    yield made
    made.kill()
    made.remove()
    assert not made.members()


def _start_in(group: ControlGroup, *argv: str) -> subprocess.Popen[bytes]:
    entrances = group.entrances()
    process = subprocess.Popen(["/bin/sh", "-c", 'read x; exec "$@"', "sh", *argv], stdin=subprocess.PIPE)
    for entrance in entrances:
        os.write(entrance, str(process.pid).encode())
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    return process


def test_a_group_holds_kills_and_vanishes(group: ControlGroup) -> None:
    assert group.prepare(CgroupLimits(memory=64 * MIB, cpus=2)) == []
    process = _start_in(group, "/bin/sleep", "600")
    assert group.members() == {process.pid}
    assert group.kill() == 1
    assert process.wait() == -signal.SIGKILL
    assert group.kill() == 0


def test_a_frozen_group_can_be_killed(group: ControlGroup) -> None:
    group.prepare(CgroupLimits())
    if not group.can_freeze:
        pytest.skip("no freezer")
    process = _start_in(group, "/bin/sleep", "600")
    group.freeze(True)
    group.kill()
    assert process.wait() == -signal.SIGKILL


def test_memory_beyond_the_limit_is_noticed_for_this_job_only(group: ControlGroup) -> None:
    group.prepare(CgroupLimits(memory=32 * MIB, memory_and_swap=32 * MIB))
    if not group.limits_memory:
        pytest.skip("no memory controller")
    process = _start_in(group, "/usr/bin/python3", "-I", "-c", "x = bytearray(b'x' * (256 << 20))")
    assert process.wait() == -signal.SIGKILL
    assert group.oom_killed()
    group.prepare(CgroupLimits(memory=256 * MIB))
    assert not group.oom_killed()
    process = _start_in(group, "/usr/bin/python3", "-I", "-c", "x = bytearray(b'x' * (64 << 20))")
    assert process.wait() == 0
    assert not group.oom_killed()


def test_a_group_counts_processor_time(group: ControlGroup) -> None:
    group.prepare(CgroupLimits())
    process = _start_in(group, "/bin/sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    assert process.wait() == 0
    sample = group.sample()
    assert sample is not None
    if "cpuacct" in dict(group.trees.mounts) or group.trees.version == 2:
        assert sample.user_s + sample.system_s > 0.02


def test_a_group_that_somebody_has_removed_is_made_and_read_anew(group: ControlGroup) -> None:
    group.prepare(CgroupLimits(memory=64 * MIB))
    _start_in(group, "/bin/true").wait()
    assert group.sample() is not None
    ControlGroup(group.trees, group.name).remove()
    assert group.prepare(CgroupLimits(memory=64 * MIB)) == []
    process = _start_in(group, "/bin/sleep", "600")
    assert group.members() == {process.pid}
    assert group.kill() == 1
    process.wait()


def test_without_trees_nothing_is_done() -> None:
    group = ControlGroup(Trees(0), "whatever")
    assert not group.works
    assert group.prepare(CgroupLimits(memory=1)) == []
    assert group.entrances() == []
    assert group.kill() == 0
    assert group.sample() is None
    assert not group.oom_killed()
    group.remove()
