"""What to do after a look at the pool: which drains to call off, which machines to drain, and why no others.

Source: HTCondor's defrag.cpp, whose order this is: first drains are called off, and then others begun, the machines
with the highest rank first, and of equals any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pool.defrag.policy import DefragPolicy
from pool.defrag.rate import Due
from pool.defrag.survey import SeenSlot, Survey

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True)
class DefragPlan:
    """`candidates` are tried in their order, until `wanted` of them drain; `why` says why none is."""

    cancel: tuple[SeenSlot, ...]
    candidates: tuple[SeenSlot, ...]
    wanted: int
    why: str = ""


def decide(survey: Survey, policy: DefragPolicy, due: Due, rng: Random) -> DefragPlan:
    """The plan for what was seen, where so many machines are due."""
    cancel = _ordered((slot for slot in survey.slots if slot.to_cancel), rng)
    if why := _objection(survey, policy, due):
        return DefragPlan(cancel, (), 0, why)
    left_alone = survey.whole | {slot.startd for slot in cancel}
    found = _ordered((slot for slot in survey.slots if slot.drainable and slot.startd not in left_alone), rng)
    # Never more at once than are allowed: HTCondor asks only whether one more may begin, and then begins all.
    room = policy.draining_max - len(survey.draining) if policy.draining_max >= 0 else due.count
    return DefragPlan(cancel, found, min(due.count, room), "" if found else "no machine meets DEFRAG_REQUIREMENTS")


def _ordered(slots: Iterable[SeenSlot], rng: Random) -> tuple[SeenSlot, ...]:
    """Their machines, each by its best slot, those of the highest rank first."""
    found = list(slots)
    rng.shuffle(found)
    found.sort(key=lambda slot: -slot.rank)
    by_startd: dict[str, SeenSlot] = {}
    for slot in found:
        by_startd.setdefault(slot.startd, slot)
    return tuple(by_startd.values())


def _objection(survey: Survey, policy: DefragPolicy, due: Due) -> str:
    """Why no machine is to be drained now; empty when nothing is against it."""
    if policy.machines_per_hour <= 0:
        return "DEFRAG_DRAINING_MACHINES_PER_HOUR is 0"
    if due.count <= 0:
        return f"{due.exact:.3f} machines are due in the next {policy.interval_s:g} s"
    draining, whole = len(survey.draining), len(survey.whole)
    if 0 <= policy.draining_max <= draining:
        return f"{draining} machines are draining, and DEFRAG_MAX_CONCURRENT_DRAINING is {policy.draining_max}"
    if 0 <= policy.whole_max <= whole:
        return f"{whole} machines are whole, and DEFRAG_MAX_WHOLE_MACHINES is {policy.whole_max}"
    return ""
