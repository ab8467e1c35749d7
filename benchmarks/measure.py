"""What the benchmarks read off the machine: CPU and memory of a tree of processes, and percentiles."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable
from typing import NamedTuple

import psutil

TICKS = os.sysconf("SC_CLK_TCK")


class Figure(NamedTuple):
    """One measured number: what it is, its unit, how it was taken, and what was aimed at (empty: nothing)."""

    name: str
    value: float
    unit: str
    how: str
    aim: str = ""


def tree(root: int) -> list[psutil.Process]:
    """A process and all its descendants."""
    top = psutil.Process(root)
    return [top, *top.children(recursive=True)]


def cpu_seconds(root: int) -> float:
    """CPU that the tree has used, with that of the children it has reaped."""
    total = 0
    for process in tree(root):
        try:
            with open(f"/proc/{process.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])  # utime stime cutime cstime
    return total / TICKS


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    """Proportional memory of the processes: shared pages count by their share."""
    total = 0
    for process in processes:
        try:
            with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
                lines = [line for line in file if line.startswith("Pss:")]
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines) * 1024
    return total


def own_bytes(pid: int) -> int:
    """The memory of a process that is no file's: what it has changed or made since it was forked."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Anonymous:"))


def p50(values: list[float]) -> float:
    """The median."""
    return statistics.median(values)


def p99(values: list[float]) -> float:
    """The value that one in a hundred exceeds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
