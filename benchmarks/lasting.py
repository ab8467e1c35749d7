"""What has been: a pool that has run 40,000 jobs beside a new one.

Everything that a daemon keeps of jobs that are over shall be bounded, and cost nothing later. So a pool runs jobs of
/bin/true, a batch of a quarter after another, and each daemon's own memory is looked at between batches: the first
fill what is bounded, and what they then still grow by, they would grow by for ever. At the end a new pool is started
beside it, and both run small batches by turns: the CPU of a job here and there. LASTING_JOBS scales it down.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from statistics import median
from typing import Final

from benchmarks.measure import Figure, cpu_seconds, own_bytes
from benchmarks.pool_run import SETTLE_S, Bench, _until_many_ended, bench

JOBS: Final = int(os.environ.get("LASTING_JOBS", "40000"))
BATCHES: Final = 4
ROUNDS, AT_ONCE = 7, max(10, min(300, JOBS // 40))
"""How often the two pools are compared, and with how many jobs."""
WARM_UP: Final = 2 * AT_ONCE
AT_ONCE_MAX: Final = 1000
PER: Final = 10_000
DAEMONS: Final = ("collector", "negotiator", "schedd", "startd")
KNOBS: Final = {"NUM_CPUS": "8"}


def figures() -> Iterator[Figure]:
    """The suite."""
    with bench(KNOBS) as old:
        memory = [_memory(old)]
        for _ in range(BATCHES):
            _run(old, JOBS // BATCHES)
            memory.append(_memory(old))
        yield from _growth(memory)
        with bench(KNOBS) as new:
            _run(new, WARM_UP)
            yield from _beside(old, new)


def _run(pool: Bench, count: int) -> None:
    """Run so many jobs, in clusters that end one after another, each with a log of its own."""
    for size in [AT_ONCE_MAX] * (count // AT_ONCE_MAX) + [count % AT_ONCE_MAX]:
        if size:
            description, log = pool.jobs_file("lasting", count=size, transfer=False)
            pool.submit(description)
            _until_many_ended(log, size)
            log.unlink()


def _memory(pool: Bench) -> dict[str, int]:
    """What each daemon has of its own, in bytes; file agents together."""
    time.sleep(SETTLE_S)
    found = {name: own_bytes(pool.pid_of(name)) for name in DAEMONS}
    agents = [process.pid for process in pool.daemons() if process.name().startswith("condor_agent")]
    return {"master": own_bytes(pool.root), **found, "file agent": sum(map(own_bytes, agents))}


def _growth(memory: list[dict[str, int]]) -> Iterator[Figure]:
    """How much each still grew after the first half, when what is bounded is full."""
    count, half = JOBS // BATCHES, BATCHES // 2
    for name in memory[-1]:
        had = [found.get(name, 0) / 1e6 for found in memory]
        grown = (memory[-1][name] - memory[half].get(name, 0)) / (count * (BATCHES - half)) * PER
        how = f"from {count * half} to {JOBS} jobs; it had {', '.join(f'{megabytes:.1f}' for megabytes in had)} MB"
        yield Figure(f"growth for 10,000 jobs, {name}", grown / 1e3, "kB", how, "<= 100")


def _beside(old: Bench, new: Bench) -> Iterator[Figure]:
    """What a job costs in both, asked by turns."""
    ratios, costs = [], []
    for _ in range(ROUNDS):
        here, there = _cost(old), _cost(new)
        ratios.append(here / there)
        costs.append(here)
    how = f"median of {ROUNDS} batches of {AT_ONCE} jobs in a pool that has run {JOBS}"
    yield Figure("CPU for each job, after many", median(costs) * 1e3, "ms", how)
    how = f"that, by a new pool's, asked by turns; median of ratios from {min(ratios):.2f} to {max(ratios):.2f}"
    yield Figure("the same beside a new pool's", median(ratios), "", how, "<= 1.05")


def _cost(pool: Bench) -> float:
    """CPU seconds of one job, of all of the pool's processes."""
    before = cpu_seconds(pool.root)
    _run(pool, AT_ONCE)
    return (cpu_seconds(pool.root) - before) / AT_ONCE
