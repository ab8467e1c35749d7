"""Whose the machine's load is: the pool's jobs', by the processor time that they take, or its owner's.

The kernel's load average counts who runs or wants to. Jobs have that part of it which their processor time is of all
processor time, averaged over the minute that the kernel averages over; so a job that starts, or has more threads than
there are cores, never looks like an owner at work. The rest is the owner's, and goes to slots as
`ResMgr::assign_load_to_slots` of HTCondor has it: idle cores take it first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pool.slots.state_machine import State

AVERAGED_S: Final = 60.0
"""The kernel's time constant for the first of its three averages."""
NEGLIGIBLE: Final = 0.05
"""Load beyond idle cores that is too little for a dynamic slot to see."""


@dataclass(frozen=True)
class Cores:
    """How many cores somebody keeps busy: as of the last look, and averaged as the kernel averages load."""

    now: float = 0.0
    average: float = 0.0

    def after(self, elapsed_s: float, used_s: float) -> Cores:
        """When `used_s` more processor seconds were taken in that time."""
        if elapsed_s <= 0:
            return self
        # Never negative: processor time that is read process by process shrinks when one of them has ended.
        now, kept = max(0.0, used_s) / elapsed_s, math.exp(-elapsed_s / AVERAGED_S)
        return Cores(now, self.average * kept + now * (1 - kept))


def jobs_share(load: float, mine: Cores, jobs: float, busy: float) -> float:
    """The load that `mine` makes, given the averages of all jobs and of the whole machine."""
    return load * mine.average / max(jobs, busy) if mine.average > 0 else 0.0


@dataclass(frozen=True)
class LoadedSlot:
    """A slot of the configuration, and its dynamic slots, as the owner's load finds them."""

    name: str
    cpus: float
    idle_cpus: float
    state: State
    children: Sequence[tuple[str, float]] = ()
    """Names and cpus."""


def assign_owner_load(load: float, places: Sequence[LoadedSlot]) -> dict[str, float]:
    """The owner's load for each slot: slots without a job take it first, each at most its cpus; what there is beyond
    the idle cores of a partitionable slot goes to its dynamic slots in order."""
    shares: dict[str, float] = {}
    for place in _emptiest_first(places):
        part = min(load, place.cpus)
        load -= part
        for name, cpus in place.children:
            beyond = part - place.idle_cpus
            shares[name] = min(beyond, cpus) if beyond > NEGLIGIBLE else 0.0
            part -= shares[name]
        shares[place.name] = part
    return shares


def _emptiest_first(places: Iterable[LoadedSlot]) -> list[LoadedSlot]:
    order = {State.OWNER: 0, State.UNCLAIMED: 1}
    return sorted(places, key=lambda place: order.get(place.state, 2))
