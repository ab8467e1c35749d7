"""Whose the load is, and which slots see the owner's."""

from __future__ import annotations

import math

import pytest

from pool.slots.load import AVERAGED_S, Cores, LoadedSlot, assign_owner_load, jobs_share
from pool.slots.state_machine import State

TICK_S = 5.0


def kernel(load: float, running: float) -> float:
    """The load average after one more of the kernel's looks."""
    kept = math.exp(-TICK_S / AVERAGED_S)
    return load * kept + running * (1 - kept)


@pytest.mark.parametrize(("threads", "cpus"), [(1, 4), (4, 4), (64, 4), (64, 64)])
def test_a_job_is_never_its_own_owner(threads: int, cpus: int) -> None:
    """As it starts, runs with more threads than there are cores, and after its end."""
    job = busy = Cores()
    load = 0.0
    for tick in range(60):
        running = threads if tick < 30 else 0
        load = kernel(load, running)
        used_s = min(running, cpus) * TICK_S
        job, busy = job.after(TICK_S, used_s), busy.after(TICK_S, used_s)
        assert load - jobs_share(load, job, job.average, busy.average) == pytest.approx(0.0, abs=1e-9)


def test_an_owner_is_seen_beside_a_job_in_proportion() -> None:
    job = busy = Cores()
    for _ in range(60):
        job, busy = job.after(TICK_S, TICK_S), busy.after(TICK_S, 3 * TICK_S)
    assert jobs_share(6.0, job, job.average, busy.average) == pytest.approx(2.0, abs=0.05)


def test_without_jobs_all_load_is_the_owners() -> None:
    assert jobs_share(3.0, Cores(), 0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (1.0, {"slot1": 1.0, "slot1_1": 0.0, "slot1_2": 0.0}),
        (2.5, {"slot1": 2.0, "slot1_1": 0.5, "slot1_2": 0.0}),
        (2.04, {"slot1": 2.04, "slot1_1": 0.0, "slot1_2": 0.0}),
        (3.5, {"slot1": 2.0, "slot1_1": 1.0, "slot1_2": 0.5}),
        (9.0, {"slot1": 2.0, "slot1_1": 1.0, "slot1_2": 1.0}),
    ],
)
def test_load_beyond_idle_cores_goes_to_dynamic_slots(load: float, expected: dict[str, float]) -> None:
    slot = LoadedSlot("slot1", 4.0, 2.0, State.UNCLAIMED, [("slot1_1", 1.0), ("slot1_2", 1.0)])
    assert assign_owner_load(load, [slot]) == pytest.approx(expected)


def test_slots_without_jobs_take_the_load_first() -> None:
    places = [
        LoadedSlot("slot1", 1.0, 1.0, State.CLAIMED),
        LoadedSlot("slot2", 1.0, 1.0, State.UNCLAIMED),
        LoadedSlot("slot3", 1.0, 1.0, State.OWNER),
    ]
    assert assign_owner_load(2.5, places) == {"slot1": 0.5, "slot2": 1.0, "slot3": 1.0}
