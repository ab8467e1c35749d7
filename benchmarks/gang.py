"""From the submission of a parallel job of 16 nodes to event 001, when all of them run: `make bench ARGS=gang`.

The pool is idle before each; slots are carved, claimed and given a starter for every job anew. Beside it, one job of
one slot on the same pool: what sixteen nodes take more is the gathering.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure
from tests.whole.real_pool import RealPool, real_pool

NODES: Final = 16
JOBS: Final = 7
JOB: Final = """executable = /bin/sleep
arguments = 600
request_memory = 1
keep_claim_idle = 0
log = job.log
"""
GANG: Final = f"universe = parallel\nmachine_count = {NODES}\n"
HOW: Final = f"median of {JOBS}; condor_submit's own start is in it"
LOOK_S: Final = 0.002


def figures() -> Iterator[Figure]:
    """The median of each kind."""
    with real_pool(
        NUM_CPUS=NODES,
        SCHEDD_NAME="here@$(FULL_HOSTNAME)",
        DedicatedScheduler='"DedicatedScheduler@$(SCHEDD_NAME)"',
        ALL_DEBUG="D_ALWAYS",
    ) as pool:
        one = statistics.median(_start(pool, f"one{number}", JOB) for number in range(JOBS))
        all_of_them = statistics.median(_start(pool, f"gang{number}", GANG + JOB) for number in range(JOBS))
        yield Figure("from submit to start, one job", one, "s", HOW)
        yield Figure(f"from submit to the start of {NODES} nodes", all_of_them, "s", HOW)
        yield Figure(f"the same, by one job's start, for {NODES} nodes", all_of_them / one, "times", HOW)


def _start(pool: RealPool, name: str, job: str) -> float:
    place = pool.place(name)
    began = time.perf_counter()
    cluster = pool.submit(f"{job}queue\n", cwd=place)
    _until_started(place / "job.log")
    taken = time.perf_counter() - began
    pool.tool("condor_rm", str(cluster))
    pool.until(lambda: all(ad.eval_str("State") == "Unclaimed" for ad in pool.slots()), "all slots to be free")
    return taken


def _until_started(log: Path) -> None:
    while not log.exists() or "\n001 (" not in log.read_text():
        time.sleep(LOOK_S)
