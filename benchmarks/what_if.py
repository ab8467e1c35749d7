"""How long a recorded history takes: 100,000 jobs of 20 users, of 16 kinds, on 50 machines of 32 cores.

WHAT_IF_JOBS scales it down. The pool has less room than the jobs want, so that most of them wait. Seconds of this
process's processor, which is what the run takes on a machine that does nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from random import Random
from typing import Final

from benchmarks.measure import Figure
from pool.config import load_config
from pool.simulate.engine import simulate
from pool.simulate.machines import read_machines
from pool.simulate.policy import Policy
from pool.simulate.workload import read_workload

JOBS: Final = int(os.environ.get("WHAT_IF_JOBS", "100000"))
MACHINES: Final = 50
UNREAD: Final = "".join(f'Attr{number} = "some text {number}"\n' for number in range(60))
"""What a job's ad has besides, and nobody reads."""


def figures() -> Iterator[Figure]:
    """The suite."""
    text = "".join(_jobs(Random(1))).splitlines(keepends=True)
    slots = read_machines("".join(_machines()).splitlines(), file="machines")
    how = f"{JOBS} jobs of 20 users and 16 kinds on {MACHINES} machines of 32 cores, in one process"
    began = time.process_time()
    workload = read_workload(lambda: text, file="history", reads=["RequestCpus", "RequestMemory"])
    read = time.process_time()
    outcome = simulate(workload, slots, Policy.read(load_config([], environ={}, subsystem="NEGOTIATOR")))
    done = time.process_time()
    yield Figure("a history is read", read - began, "s", how)
    yield Figure("and run through a pool", done - read, "s", f"{how}: {outcome.cycles} cycles", "60 s together")


def _jobs(rng: Random) -> Iterator[str]:
    at = 1_700_000_000.0
    for number in range(JOBS):
        at += rng.expovariate(1 / 4.5)
        user, memory = f"user{rng.randrange(20)}", rng.choice((512, 1024, 2048, 4096))
        cpus = rng.choice((1, 1, 1, 2, 4, 8))
        yield (
            f'ClusterId = {number}\nProcId = 0\nUser = "{user}@here"\nOwner = "{user}"\nQDate = {int(at)}\n'
            f"JobUniverse = 5\nJobPrio = 0\nRequestCpus = {cpus}\nRequestMemory = {memory}\n"
            f"RequestDisk = 1024\nRemoteWallClockTime = {rng.expovariate(1 / 3600):.1f}\n"
            "Requirements = TARGET.Cpus >= RequestCpus && TARGET.Memory >= RequestMemory\n"
            f"{UNREAD}*** Offset = 0\n"
        )


def _machines() -> Iterator[str]:
    for number in range(MACHINES):
        yield (
            f'Name = "slot1@m{number}"\nMachine = "m{number}"\nMyAddress = "<10.0.0.{number}:9618>"\n'
            "PartitionableSlot = true\nCpus = 32\nMemory = 131072\nDisk = 100000000\nTotalSlotCpus = 32\n"
            'MachineResources = "Cpus Memory Disk Swap"\nSlotWeight = Cpus\nStart = true\n'
            "Requirements = START && TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory\n\n"
        )
