from __future__ import annotations

import signal

import pytest

from pool.base.errors import ConfigError
from pool.execute.cgroup import (
    CgroupLimits,
    claim_group,
    find_trees,
    memory_limits,
    oom_kills,
    writes_v1,
    writes_v2,
)
from pool.execute.exit import cannot_execute, exited, over_memory
from pool.execute.usage import JobUsage, UsageSample

MIB = 1 << 20

V1 = """\
25 1 0:23 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
26 1 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
27 1 0:25 / /sys/fs/cgroup/freezer rw,nosuid - cgroup cgroup rw,freezer
"""
UNIFIED = "28 1 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n"


def test_trees_by_version() -> None:
    v1 = find_trees(V1.splitlines())
    assert v1.version == 1
    assert v1.mount("cpuacct") == "/sys/fs/cgroup/cpu,cpuacct"
    assert v1.mount("pids") is None
    assert find_trees((V1 + UNIFIED).splitlines()).version == 1
    v2 = find_trees(UNIFIED.splitlines())
    assert v2.version == 2
    assert v2.mount("") == "/sys/fs/cgroup/unified"
    assert find_trees([]).version == 0


def test_the_name_of_a_claims_group() -> None:
    assert claim_group("htcondor", "/var/lib/condor/execute", "slot1") == "htcondor/condor_var_lib_condor_execute_slot1"
    assert claim_group("/a/b/", "/e", "slot1_1@host.x") == "a/b/condor_e_slot1_1@host.x"


@pytest.mark.parametrize(
    ("policy", "swap_off", "expected"),
    [
        ("hard", True, CgroupLimits(memory=100 * MIB, memory_soft=90 * MIB, memory_and_swap=100 * MIB)),
        ("soft", True, CgroupLimits(memory=1000 * MIB, memory_soft=100 * MIB, memory_and_swap=1000 * MIB)),
        ("none", True, CgroupLimits()),
        ("HARD", False, CgroupLimits(memory=100 * MIB, memory_soft=90 * MIB)),
    ],
)
def test_memory_limits_by_policy(policy: str, swap_off: bool, expected: CgroupLimits) -> None:
    assert memory_limits(policy, 100, machine_mb=1000, disable_swap=swap_off) == expected


def test_swap_is_what_the_slot_has_beyond_its_memory() -> None:
    limits = memory_limits("hard", 100, machine_mb=1000, disable_swap=False, slot_swap_kb=150 * 1024)
    assert limits.memory_and_swap == 150 * MIB


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="hard, soft, none, custom"):
        memory_limits("strict", 100, machine_mb=1000, disable_swap=True)


def test_values_for_both_versions() -> None:
    limits = CgroupLimits(memory=100, memory_soft=90, memory_and_swap=100, cpus=2, processes=50)
    v1 = {(w.controller, w.file): w.value for w in writes_v1(limits)}
    assert v1["memory", "memory.limit_in_bytes"] == "100"
    assert v1["memory", "memory.memsw.limit_in_bytes"] == "100"
    assert v1["cpu", "cpu.shares"] == "200"
    assert v1["pids", "pids.max"] == "50"
    v2 = {w.file: w.value for w in writes_v2(limits)}
    assert (v2["memory.max"], v2["memory.swap.max"], v2["cpu.weight"], v2["pids.max"]) == ("100", "0", "200", "50")
    assert v2["memory.low"] == "90"
    own = {w.file: w.value for w in writes_v2(CgroupLimits(memory=100, memory_soft=90, memory_low=40))}
    assert own["memory.low"] == "40"
    free = {w.file: w.value for w in writes_v2(CgroupLimits())}
    assert (free["memory.max"], free["memory.swap.max"], free["pids.max"]) == ("max", "max", "max")


def test_kills_by_the_kernel_are_counted() -> None:
    assert oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n") == 3
    assert oom_kills("low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\noom_group_kill 1\n") == 1
    assert oom_kills("oom_kill_disable 0\n") == 0


def test_wait_statuses() -> None:
    assert exited(3 << 8).ad().eval_int("ExitCode") == 3
    killed = exited(signal.SIGSEGV | 0x80).ad()
    assert (killed.eval_bool("ExitBySignal"), killed.eval_int("ExitSignal"), killed.eval_bool("JobCoreDumped")) == (
        True,
        11,
        True,
    )


def test_over_memory_says_what_it_had_and_used() -> None:
    hold = over_memory(128, 130)
    assert hold is not None
    assert "128 megabytes" in hold.reason
    assert "130 megabytes" in hold.reason
    assert (hold.code, hold.subcode) == (34, 102)
    assert over_memory(128, 50, always_hold=False) is None
    assert over_memory(128, 120, always_hold=False) is not None


def test_a_program_that_cannot_start_is_held_with_the_errno() -> None:
    hold = cannot_execute("/no/such", ["a"], 2)
    assert (hold.code, hold.subcode) == (6, 2)
    assert "/no/such" in hold.reason
    assert "No such file or directory" in hold.reason


def test_usage_never_goes_down() -> None:
    usage = (
        JobUsage()
        .seen(UsageSample(image=5000, resident=3 * MIB, user_s=1.5, processes=2))
        .seen(UsageSample(resident=MIB, user_s=1.0))
    )
    ad = usage.with_disk(2049).ad()
    assert ad.eval_int("ResidentSetSize") == 3072
    assert ad.eval_int("MemoryUsage") == 3
    assert ad.eval_float("RemoteUserCpu") == 1.5
    assert ad.eval_int("DiskUsage") == 3
    assert ad.eval_int("NumPids") == 0
