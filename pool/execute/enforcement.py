"""How a machine holds jobs to their limits, as its ads, its log and `pool up` say it.

A control group holds a job to its memory, its share of the processors and its number of processes. Where none can be
had the starter looks at a job's memory again and again, and the other two are not enforced.
"""

from __future__ import annotations

from collections.abc import Mapping

CGROUP, POLLING, NONE = "cgroup", "polling", "none"
MEMORY, CPUS, PROCESSES = "MemoryEnforcement", "CpusEnforcement", "ProcessesEnforcement"
ATTRIBUTES = (MEMORY, CPUS, PROCESSES)

_WEAKER = {
    (MEMORY, POLLING): "their memory is looked at every JOB_MEMORY_POLLING_INTERVAL instead",
    (MEMORY, NONE): "their memory is not limited (CGROUP_MEMORY_LIMIT_POLICY)",
    (CPUS, NONE): "they share the processors as they like",
    (PROCESSES, NONE): "JOB_PROCESSES_MAX does not hold",
}


def enforcement(controllers: frozenset[str], *, limits_memory: bool) -> dict[str, str]:
    """The attributes of a machine whose jobs' groups have these controllers, where its policy limits memory or not."""
    memory = (CGROUP if "memory" in controllers else POLLING) if limits_memory else NONE
    return {
        MEMORY: memory,
        CPUS: CGROUP if "cpu" in controllers else NONE,
        PROCESSES: CGROUP if "pids" in controllers else NONE,
    }


def said(how: Mapping[str, object]) -> str:
    """What is weaker than a control group would have it, in a sentence; empty: nothing is."""
    weaker = [_WEAKER[name, str(how[name])] for name in ATTRIBUTES if (name, str(how.get(name))) in _WEAKER]
    if not weaker:
        return ""
    return f"Not all limits of jobs are enforced by control groups: {'; '.join(weaker)}"
