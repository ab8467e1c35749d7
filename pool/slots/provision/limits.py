"""How much of the hardware this process may use: its cpu affinity, and the cgroups that it lives in.

Standard library only: the configuration asks this as well (`$(DETECTED_CPUS_LIMIT)`), also in tools.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def cpus_allowed(*, proc: Path = PROC, cgroups: Path = CGROUPS, affinity: int | None = None) -> int:
    """Cores that this process may use: no more than its affinity and no more than the quota of its cgroups."""
    cores = affinity if affinity is not None else len(os.sched_getaffinity(0))
    quota = min(_quotas(proc, cgroups), default=math.inf)
    return max(1, min(cores, math.ceil(quota) if math.isfinite(quota) else cores))


def memory_allowed(physical: int, *, proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Bytes of memory that this process may use, of `physical` bytes that there are."""
    return min([physical, *(limit for limit in _memory_limits(proc, cgroups) if limit > 0)])


def _quotas(proc: Path, cgroups: Path) -> Iterator[float]:
    for directory in _directories("cpu", proc, cgroups):
        words = _words(directory / "cpu.max")  # version 2
        if len(words) == 2 and words[0] != "max":
            yield int(words[0]) / int(words[1])
        quota, period = _words(directory / "cpu.cfs_quota_us"), _words(directory / "cpu.cfs_period_us")  # version 1
        if quota and period and int(quota[0]) > 0:
            yield int(quota[0]) / int(period[0])


def _memory_limits(proc: Path, cgroups: Path) -> Iterator[int]:
    for directory in _directories("memory", proc, cgroups):
        for name in ("memory.max", "memory.limit_in_bytes"):
            words = _words(directory / name)
            if words and words[0] != "max":
                yield int(words[0])


def _directories(controller: str, proc: Path, cgroups: Path) -> Iterator[Path]:
    """This process's cgroup of a controller, and those above it, wherever they are mounted."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            roots = [cgroups, cgroups / "unified"]
        elif controller in names.split(","):
            roots = [cgroups / controller, cgroups / names]
        else:
            continue
        inside = Path(path.lstrip("/"))
        for root in roots:
            # Every level counts: a container's limit is often set above the group that the process is in.
            for part in (inside, *inside.parents):
                if ".." not in part.parts and (root / part).is_dir():
                    yield root / part


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
