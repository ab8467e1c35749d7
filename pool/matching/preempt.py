"""Who may be moved aside for a better match.

A slot that somebody holds is a candidate when its owner ranks the new job higher than the one that runs (RANK against
CurrentRank), or when the submitter's priority is better and PREEMPTION_REQUIREMENTS holds, which it does not by
default. A slot whose job still has retirement time left is spared, unless NEGOTIATOR_CONSIDER_EARLY_PREEMPTION.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pool.classad import ClassAd, Expr, rank
from pool.matching.offers import holder_of


class Preempts(IntEnum):
    """Whom a match moves aside; the greater is preferred among otherwise equal candidates."""

    BY_PRIORITY = 0
    BY_RANK = 1
    NOBODY = 2


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """The negotiator's PREEMPTION_REQUIREMENTS and PREEMPTION_RANK, and NEGOTIATOR_CONSIDER_[EARLY_]PREEMPTION."""

    consider: bool = True
    early: bool = False
    requirements: Expr | None = None
    rank: Expr | None = None


def retirement_left(slot: ClassAd, job: ClassAd, now: float) -> float:
    """How long the slot's job may still run before it can be moved."""
    said = slot.eval_float("RetirementTimeRemaining")
    if said is not None:
        return max(0.0, said - (now - slot.eval_float("MyCurrentTime", now)))
    promised = slot.eval_float("MaxJobRetirementTime", 0.0, job) or 0.0
    began = slot.eval_float("JobStart") or slot.eval_float("EnteredCurrentActivity") or now
    return max(0.0, promised - (now - began))


def preempts(
    slot: ClassAd, job: ClassAd, priority: float, policy: PreemptionPolicy, *, now: float, priority_of: dict[str, float]
) -> Preempts | None:
    """Why a held slot may be matched with this job all the same; None when it may not."""
    if not policy.consider:
        return None
    if not policy.early and retirement_left(slot, job, now) > 0:
        return None
    if rank(slot, job) > (slot.eval_float("CurrentRank", 0.0) or 0.0):
        return Preempts.BY_RANK
    if policy.requirements is None:
        return None
    held_by = priority_of.get(holder_of(slot))
    if held_by is None or priority >= held_by:
        return None
    mine = ClassAd({"SubmitterUserPrio": priority}, parent=job)
    theirs = ClassAd({"RemoteUserPrio": held_by}, parent=slot)
    return Preempts.BY_PRIORITY if policy.requirements.eval(theirs, mine) is True else None
