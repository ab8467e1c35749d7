"""How many processes and threads a job may have at a time: JOB_PROCESSES_MAX, and never all that the machine has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from daemons.host.child_settings import StarterSettings
from pool.classad import ClassAd, expr
from pool.execute.cgroup import processes_limit

_MACHINE: Final = ("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max")


def processes_of(settings: StarterSettings, slot: ClassAd, job: ClassAd) -> int:
    """This job's limit; 0: none."""
    wanted = expr(settings.processes_max).eval(slot, job)
    return processes_limit(
        int(wanted) if isinstance(wanted, int | float) else 0,
        cpus=max(1, slot.eval_int("Cpus") or 1),
        machine_cpus=slot.eval_int("TotalCpus") or 1,
        machine=machine_processes(),
    )


@cache
def machine_processes() -> int:
    """How many this machine can have at a time; asked before the first fork, for all starters."""
    # Of the two limits the smaller one is met first.
    return min(int(Path(file).read_text()) for file in _MACHINE)
