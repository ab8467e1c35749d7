"""Which control group a job lives in, and which files get which values: a tree per controller (version 1), or one (2).

A machine whose version 2 tree lacks the memory controller while version 1 trees have it (a hybrid) counts as version 1.

Source: HTCondor manual, "Configuration Macros" (BASE_CGROUP, CGROUP_MEMORY_LIMIT_POLICY, CGROUP_LOW_MEMORY_LIMIT ...);
the kernel's "Control Group v2" and "Control Groups version 1".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pool.base.errors import ConfigError
from pool.execute.usage import DiskTraffic
from pool.hosts.mounts import as_path

CONTROLLERS_V1: Final = ("memory", "cpu", "cpuacct", "freezer", "pids")
CONTROLLERS_V2: Final = ("memory", "cpu", "pids", "io")
CPU_SHARES_PER_CPU: Final = 100
V2_WEIGHT_MAX: Final = 10_000
UNLIMITED: Final = "max"
PROCESSES_MIN: Final = 512
"""What a job may have on the smallest share of a machine."""

POLICIES: Final = ("hard", "soft", "none", "custom")


@dataclass(frozen=True)
class CgroupLimits:
    """What a job may use. Bytes; 0: no limit."""

    memory: int = 0
    memory_soft: int = 0
    memory_and_swap: int = 0
    memory_low: int = 0
    cpus: int = 1
    processes: int = 0


def claim_group(base: str, execute: str, slot: str) -> str:
    """The group of a slot's jobs, below the tree's root: `htcondor/condor_var_lib_condor_execute_slot1`."""
    name = f"condor{execute.replace('/', '_')}_{slot}"
    return f"{base.strip('/')}/{re.sub('[^A-Za-z0-9_.@-]', '_', name)}"


def memory_limits(
    policy: str, slot_mb: int, *, machine_mb: int, disable_swap: bool, slot_swap_kb: int | None = None
) -> CgroupLimits:
    """The memory half of Limits under CGROUP_MEMORY_LIMIT_POLICY.

    hard: the slot's memory is the limit, and nine tenths of it the soft one. soft: the slot's memory is the soft limit,
    all memory of the startd the hard one. none: no limit. (custom takes its hard limit from an expression: pass it as
    `slot_mb` with policy hard.)
    """
    chosen = policy.strip().lower() or "none"
    if chosen not in POLICIES:
        raise ConfigError(f"CGROUP_MEMORY_LIMIT_POLICY is {policy!r}", expected=", ".join(POLICIES))
    slot = slot_mb << 20
    if chosen == "none" or slot <= 0:
        return CgroupLimits()
    hard, soft = (slot, slot * 9 // 10) if chosen != "soft" else (max(machine_mb << 20, slot), slot)
    swap = 0 if disable_swap or slot_swap_kb is None else max(0, (slot_swap_kb << 10) - slot)
    with_swap = hard + swap if disable_swap or slot_swap_kb is not None else 0
    return CgroupLimits(memory=hard, memory_soft=soft, memory_and_swap=with_swap)


def processes_limit(wanted: int, *, cpus: int, machine_cpus: int, machine: int) -> int:
    """How many processes a job may have: what is wanted for it (0: no limit), but not the share of other cpus' jobs.

    A quarter of what the machine can have is nobody's job's.
    """
    if wanted <= 0:
        return 0
    share = machine * 3 // 4 * cpus // max(cpus, machine_cpus)
    return min(wanted, max(PROCESSES_MIN, share))


@dataclass(frozen=True)
class Write:
    """One value for one file; `controller` is the tree (version 1), empty for version 2.

    `optional`: a kernel without the file, or which refuses the value, is no reason to refuse the job.
    """

    controller: str
    file: str
    value: str
    optional: bool = False


def writes_v1(limits: CgroupLimits) -> list[Write]:
    """The values of a version 1 group, in an order that a group with tasks accepts too (old limits may be lower)."""
    memory = str(limits.memory) if limits.memory else "-1"
    swap = str(limits.memory_and_swap) if limits.memory_and_swap else "-1"
    return [
        Write("memory", "memory.memsw.limit_in_bytes", "-1", optional=True),  # never below the plain limit
        Write("memory", "memory.limit_in_bytes", memory),
        Write("memory", "memory.memsw.limit_in_bytes", swap, optional=True),
        Write("memory", "memory.soft_limit_in_bytes", str(limits.memory_soft or -1), optional=True),
        Write("cpu", "cpu.shares", str(max(2, CPU_SHARES_PER_CPU * limits.cpus)), optional=True),
        Write("pids", "pids.max", str(limits.processes or UNLIMITED), optional=True),
    ]


def writes_v2(limits: CgroupLimits) -> list[Write]:
    """The values of a version 2 group.

    What version 1 calls a soft limit is protection here: where the machine lacks memory, jobs that have more than that
    give way first.
    """
    swap = UNLIMITED
    if limits.memory_and_swap:
        swap = str(max(0, limits.memory_and_swap - limits.memory))
    return [
        Write("", "memory.max", str(limits.memory or UNLIMITED)),
        Write("", "memory.high", UNLIMITED, optional=True),
        Write("", "memory.low", str(limits.memory_low or limits.memory_soft), optional=True),
        Write("", "memory.swap.max", swap, optional=True),
        Write("", "memory.oom.group", "1", optional=True),
        Write("", "cpu.weight", str(max(1, min(V2_WEIGHT_MAX, CPU_SHARES_PER_CPU * limits.cpus))), optional=True),
        Write("", "pids.max", str(limits.processes or UNLIMITED), optional=True),
    ]


def oom_kills(text: str) -> int:
    """How many processes the kernel has killed for want of memory: `memory.oom_control` (1) or `memory.events` (2)."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0


def disk_traffic(text: str) -> DiskTraffic:
    """What `io.stat` (version 2) says of all disks together: `8:0 rbytes=1 wbytes=2 rios=3 wios=4 ...`."""
    sums = dict.fromkeys(("rbytes", "wbytes", "rios", "wios"), 0)
    for word in text.split():
        name, _, value = word.partition("=")
        if name in sums and value.isdigit():
            sums[name] += int(value)
    return DiskTraffic(*sums.values())


def field_of(text: str, name: str) -> int:
    """One number of a `name value` file such as memory.stat or cpu.stat; 0 when it is not there."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


@dataclass(frozen=True)
class Trees:
    """Where control groups are mounted: per controller (version 1), or one tree (version 2)."""

    version: int  # 0: none
    mounts: tuple[tuple[str, str], ...] = ()  # controller ("" for version 2) and mount point
    controllers: frozenset[str] = frozenset()
    """Which controllers a job's group has, where that was found out."""

    def mount(self, controller: str) -> str | None:
        """The mount point of a controller's tree."""
        for name, path in self.mounts:
            if name == controller:
                return path
        return None


def find_trees(mountinfo: Iterable[str]) -> Trees:
    """The trees of a machine that limit memory, by its `/proc/self/mountinfo`; version 0 when there are none."""
    return next(iter(all_trees(mountinfo)), Trees(0))


def all_trees(mountinfo: Iterable[str]) -> list[Trees]:
    """The same and what else there is, for a process that may not use the first.

    A later mount over the same point hides an earlier one.
    """
    v1: dict[str, str] = {}
    v2: str | None = None
    for controllers, point in _mounts(mountinfo):
        if controllers is None:
            v2 = point
        else:
            v1.update({name: point for name in controllers if name in CONTROLLERS_V1})
    found = [Trees(1, tuple(v1.items()))] if v1 else []
    if v2 is not None:
        found.insert(1 if "memory" in v1 else 0, Trees(2, (("", v2),)))
    return found


def _mounts(mountinfo: Iterable[str]) -> Iterator[tuple[list[str] | None, str]]:
    """Each mounted tree: its options, controllers among them (None: version 2), and where."""
    for line in mountinfo:
        left, _, right = line.partition(" - ")
        words, kind = left.split(), right.split()
        if len(words) >= 5 and len(kind) >= 3 and kind[0] in ("cgroup", "cgroup2"):
            yield (kind[2].split(",") if kind[0] == "cgroup" else None), as_path(words[4])
