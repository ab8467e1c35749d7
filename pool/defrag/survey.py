"""What a look at the pool has shown: its partitionable slots as the policy sees them, and what draining has cost.

A startd is one machine, whichever of its partitionable slots has told something of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from pool.classad import ClassAd, Expr, expr
from pool.classad.values.truth import is_true
from pool.defrag.policy import DefragPolicy
from pool.slots.drain import HowFast

_SLOTS: Final = "PartitionableSlot && Offline =!= true"
_COSTS: Final = (
    "SlotID == 1 && DynamicSlot =!= true"
    " && (TotalMachineDrainingUnclaimedTime =!= undefined || TotalMachineDrainingBadput =!= undefined)"
)
ASKED_FOR: Final = f"({_SLOTS}) || ({_COSTS})"
"""The slots that a survey wants to see."""
SLOTS: Final = expr(_SLOTS)
COSTS: Final = expr(_COSTS)

NEGLIGIBLE_S: Final = 1200
BADPUT_GROWTH: Final = 1.25
"""How much later, and dearer, draining may have become since the ad was made; HTCondor's figures (defrag.cpp)."""


@dataclass(frozen=True, slots=True)
class SeenSlot:
    """A partitionable slot that is not offline, and what the policy says of it."""

    name: str
    startd: str
    address: str
    mine: bool
    """No drain is known, or it is this daemon's."""
    draining: bool
    drain_id: str
    whole: bool
    to_cancel: bool
    drainable: bool
    rank: float
    completion_at: int
    badput: int
    """When draining would be over as the policy has it done, and the seconds of cores that it would cost."""
    check: str
    """What must still be true of the machine when it hears that it shall drain."""


@dataclass
class Survey:
    """Filled with `add`, ad by ad, so that no more than one need be kept."""

    slots: list[SeenSlot] = field(default_factory=list)
    _badput: float = 0.0
    _unclaimed: float = 0.0
    _cpus: int = 0

    def add(self, ad: ClassAd, policy: DefragPolicy, now: float) -> None:
        """Another slot's ad; one of no interest is left out."""
        if is_true(SLOTS.eval(ad)):
            self.slots.append(look_at(ad, policy, now))
        if is_true(COSTS.eval(ad)):
            self._add_cost(ad)

    def _add_cost(self, ad: ClassAd) -> None:
        began, heard = ad.eval_int("DaemonStartTime", 0), ad.eval_int("LastHeardFrom", 0)
        if 0 < began < heard:
            self._badput += ad.eval_int("TotalMachineDrainingBadput", 0) / (heard - began)
            self._unclaimed += ad.eval_int("TotalMachineDrainingUnclaimedTime", 0) / (heard - began)
            self._cpus += ad.eval_int("TotalCpus", 0)

    @property
    def draining(self) -> frozenset[str]:
        """The startds that this daemon has drain."""
        return self._startds(lambda slot: slot.draining and slot.mine)

    @property
    def whole(self) -> frozenset[str]:
        """The startds that are whole machines, and that nobody else has drain."""
        return self._startds(lambda slot: slot.whole and slot.mine)

    def _startds(self, which: Callable[[SeenSlot], bool]) -> frozenset[str]:
        return frozenset(slot.startd for slot in self.slots if which(slot))

    @property
    def badput(self) -> float:
        """The part of the time of all cores that jobs have lost by draining, since their startds began."""
        return self._badput / self._cpus if self._cpus else 0.0

    @property
    def unclaimed(self) -> float:
        """The part of that time in which cores were free and closed to all, for their machine was draining."""
        return self._unclaimed / self._cpus if self._cpus else 0.0


def look_at(ad: ClassAd, policy: DefragPolicy, now: float) -> SeenSlot:
    """What the policy says of a partitionable slot."""
    name, reason = ad.eval_str("Name", ""), ad.eval_str("DrainReason")
    draining, mine = ad.eval_bool("Draining", False), reason is None or reason == policy.reason
    which = "Graceful" if policy.schedule is HowFast.GRACEFUL else "Quick"
    completion, badput = f"ExpectedMachine{which}DrainingCompletion", f"ExpectedMachine{which}DrainingBadput"
    completion_at = max(ad.eval_int(completion, 0), int(now))  # the ad of an idle machine may be older than that
    lost = ad.eval_int(badput, 0)
    most = int(BADPUT_GROWTH * lost) + NEGLIGIBLE_S
    return SeenSlot(
        name=name,
        startd=name.partition("@")[2] or name,
        address=ad.eval_str("MyAddress", ""),
        mine=mine,
        draining=draining,
        drain_id=ad.eval_str("DrainingRequestId", ""),
        whole=is_true(policy.whole.eval(ad)),
        to_cancel=draining and mine and is_true(policy.cancel.eval(ad)),
        drainable=not draining and (policy.requirements is None or is_true(policy.requirements.eval(ad))),
        rank=_rank(policy.rank, ad),
        completion_at=completion_at,
        badput=lost,
        check=f"{completion} <= {completion_at + NEGLIGIBLE_S} && {badput} <= {most}",
    )


def _rank(rank: Expr | None, ad: ClassAd) -> float:
    """What is no number counts as 0, as ranks do."""
    value = rank.eval(ad) if rank is not None else None
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0
