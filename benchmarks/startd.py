"""What the owner's policy costs: an hour of polling 200 claimed slots, and the evaluations of an expression."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trio
import trio.testing

from benchmarks.measure import Figure
from pool.classad import ClassAd
from pool.config import load_config
from pool.slots.policy import PolicyFacts, next_event, read_policy
from pool.slots.state_machine import Activity, SlotState, State

SLOTS = 200
POLLED_S = 300.0
EVALUATIONS = 20_000


def figures() -> Iterator[Figure]:
    """The suite."""
    used_s = trio.run(_polling, clock=trio.testing.MockClock(autojump_threshold=0))
    yield Figure(
        "startd CPU per claimed slot and hour of polling",
        used_s / SLOTS * 3600 / POLLED_S,
        "s",
        f"{SLOTS} dynamic slots with jobs, POLLING_INTERVAL 5, {POLLED_S:.0f} s on a virtual clock, times 12",
    )
    yield Figure("policy evaluations per second (Desktop)", _evaluations(), "1/s", "one busy slot, one core")


async def _polling() -> float:
    """CPU seconds that the startd uses while nothing happens but its polls."""
    from tests.daemons.startd.schedd import a_bench, a_job

    knobs = {"NUM_CPUS": str(SLOTS), "MEMORY": str(SLOTS * 256), "DISK": "10000000", "POLLING_INTERVAL": "5"}
    with tempfile.TemporaryDirectory() as directory:
        async with a_bench(Path(directory), **knobs) as bench, bench.schedd() as schedd:
            used: set[str] = set()
            while len(used) < SLOTS:
                for offer in await bench.offers():
                    if offer not in used and len(used) < SLOTS:
                        held = await schedd.claim(offer, a_job(), lease_s=1e7)
                        assert held.answer.granted, held.answer.reason
                        used.add(offer)
                        assert (await schedd.run(held)).started
                await trio.sleep(1)
            await trio.sleep(30)
            before = time.process_time()
            await trio.sleep(POLLED_S)
            return time.process_time() - before


def _evaluations() -> float:
    """How often per second the policy of a busy slot is asked."""
    with tempfile.NamedTemporaryFile("w", suffix=".config") as file:
        file.write("use POLICY : Desktop\n")
        file.flush()
        config = load_config([file.name], environ={})
    policy = read_policy(lambda name: config.expr(name) if config.raw(name) else None)
    now = int(time.time())
    ad = ClassAd({"KeyboardIdle": 5000, "LoadAvg": 0.1, "CondorLoadAvg": 0.0, "State": "Claimed", "Activity": "Busy",
                  "JobStart": now - 500, "EnteredCurrentActivity": now - 500, "CpuBusyValue": 0})  # fmt: skip
    ad = ClassAd({"SUSPEND": policy.expr("SUSPEND"), "WANT_SUSPEND": policy.expr("WANT_SUSPEND")}, parent=ad)
    job = ClassAd({"JobUniverse": 5, "ImageSize": 100})
    slot = SlotState(State.CLAIMED, Activity.BUSY)
    began = time.perf_counter()
    for _ in range(EVALUATIONS):
        next_event(policy, slot, ad, job, PolicyFacts())
    return EVALUATIONS / (time.perf_counter() - began)
