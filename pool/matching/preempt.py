"""Who may be moved aside for a better match.

A slot that somebody holds is a candidate when its owner ranks the new job higher than the one that runs (RANK against
CurrentRank), or when he ranks it no lower, the submitter's priority is better by MARGIN, and PREEMPTION_REQUIREMENTS
holds, which it does not by default. A slot whose job still has retirement time left is spared, unless
NEGOTIATOR_CONSIDER_EARLY_PREEMPTION. Where a better claim waits for a slot already, it is that claim which has to be
beaten, by RANK or by priority. PREEMPTION_REQUIREMENTS and PREEMPTION_RANK see of both sides what `Parties` knows:
priorities, what each holds by weight, groups and their quotas; of the slot's holder also under which group he was
given it, as the slot's ad says.

Source: HTCondor manual, "Configuration for Central Managers" (the attributes that PREEMPTION_REQUIREMENTS sees).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from pool.accounting.accounts import PRIORITY_MIN
from pool.classad import ClassAd, Expr, Value, rank
from pool.classad.syntax.parse import literal_of
from pool.matching.offers import Offer, next_holder_of, rank_to_beat


class Preempts(IntEnum):
    """Whom a match moves aside; the greater is preferred among otherwise equal candidates."""

    BY_PRIORITY = 0
    BY_RANK = 1
    NOBODY = 2


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """The negotiator's knobs: NEGOTIATOR_CONSIDER_[EARLY_]PREEMPTION, PREEMPTION_REQUIREMENTS, PREEMPTION_RANK."""

    consider: bool = True
    early: bool = False
    requirements: Expr | None = None
    rank: Expr | None = None
    stable: bool = True
    """PREEMPTION_REQUIREMENTS_STABLE and PREEMPTION_RANK_STABLE: they are judged once for jobs that look alike."""
    together: bool = False
    """ALLOW_PSLOT_PREEMPTION: dynamic slots are not preempted one by one, but as many as a job needs (see `room`)."""

    @property
    def by_priority(self) -> bool:
        """Whether a better priority can ever suffice."""
        return self.consider and self.requirements is not None and literal_of(self.requirements.node) is not False


class Parties(Protocol):
    """What is known of those who hold slots and of those who want them."""

    def priority(self, submitter: str) -> float | None:
        """The effective priority; None of somebody unknown."""

    def attributes(self, submitter: str, prefix: str) -> dict[str, Value]:
        """What PREEMPTION_REQUIREMENTS and PREEMPTION_RANK see of a submitter, with `Submitter` or `Remote` before."""


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom candidates are sought."""

    job: ClassAd
    submitter: str
    parties: Parties
    now: float

    @property
    def priority(self) -> float:
        """The effective priority."""
        known = self.parties.priority(self.submitter)
        return PRIORITY_MIN if known is None else known


MARGIN: Final = 1.2
"""By how much a priority has to be better, so that two jobs do not take turns in a slot as often as there are cycles.

Who holds a slot grows worse and who waits grows better: as soon as they have changed places by this much, and not by
any, the slot changes hands again. It is the factor of HTCondor's examples of PREEMPTION_REQUIREMENTS.
"""
LOWEST: Final = -sys.float_info.max
"""What a rank of the negotiator's own is that is no number: such slots come last, as in HTCondor."""


def number_of(ranked: object) -> float:
    """A rank of the negotiator's own (NEGOTIATOR_PRE_JOB_RANK, PREEMPTION_RANK and so on) as a number."""
    return float(ranked) if isinstance(ranked, int | float) else LOWEST


def may_be_preempted(slot: Offer, policy: PreemptionPolicy) -> bool:
    """Whether there can be a job for which the holder of this slot has to go; it costs no evaluation."""
    return policy.consider and (policy.by_priority or slot.may_rank_higher)


def retirement_left(slot: ClassAd, job: ClassAd, now: float) -> float:
    """How long the slot's job may still run before it can be moved."""
    said = slot.eval_float("RetirementTimeRemaining")
    if said is not None:
        return max(0.0, said - (now - slot.eval_float("MyCurrentTime", now)))
    promised = slot.eval_float("MaxJobRetirementTime", 0.0, job) or 0.0
    began = slot.eval_float("JobStart") or slot.eval_float("EnteredCurrentActivity") or now
    return max(0.0, promised - (now - began))


def preempts(slot: ClassAd, asker: Asker, policy: PreemptionPolicy) -> tuple[Preempts, float] | None:
    """Why a held slot may be matched with this job all the same, and its PREEMPTION_RANK; None when it may not."""
    found = judge(slot, asker, policy)
    return None if isinstance(found, str) else found


def judge(slot: ClassAd, asker: Asker, policy: PreemptionPolicy) -> tuple[Preempts, float] | str:
    """The same, or why it may not."""
    why = standing(slot, asker, policy)
    if isinstance(why, str):
        return why
    holder, present = next_holder_of(slot), rank_to_beat(slot)
    ours = ClassAd(asker.parties.attributes(asker.submitter, "Submitter"), parent=asker.job)
    other = ClassAd({**asker.parties.attributes(holder, "Remote"), "CurrentRank": present}, parent=slot)
    if why is Preempts.BY_PRIORITY:
        assert policy.requirements is not None
        if policy.requirements.eval(other, ours) is not True:
            return "PREEMPTION_REQUIREMENTS does not hold"
    ordered = policy.rank.eval(other, ours) if policy.rank is not None else 0.0
    return why, number_of(ordered)


READ_OF_HOLDERS: Final = ("CurrentRank", "PreemptingRank", "PreemptingUser", "Rank", "RemoteOwner", "RemoteUser")
READ_OF_RETIREMENT: Final = (
    *("EnteredCurrentActivity", "JobStart", "MaxJobRetirementTime", "MyCurrentTime", "RetirementTimeRemaining"),
)


def standing(slot: ClassAd, asker: Asker, policy: PreemptionPolicy) -> Preempts | str:
    """By what the holder may have to go, if PREEMPTION_REQUIREMENTS agrees, or why he may not.

    It reads READ_OF_HOLDERS of the slot and, unless preemption is early, READ_OF_RETIREMENT.
    """
    if not policy.consider:
        return "NEGOTIATOR_CONSIDER_PREEMPTION is false"
    if not policy.early and retirement_left(slot, asker.job, asker.now) > 0:
        return "the jobs have retirement time left (MaxJobRetirementTime)"
    ranked, present = rank(slot, asker.job), rank_to_beat(slot)
    if ranked > present:
        return Preempts.BY_RANK
    held_by = asker.parties.priority(next_holder_of(slot))
    if policy.by_priority and ranked == present and held_by is not None and asker.priority * MARGIN < held_by:
        return Preempts.BY_PRIORITY
    return _spared(policy, ranked < present)


def _spared(policy: PreemptionPolicy, is_ranked_lower: bool) -> str:
    if is_ranked_lower:
        return "the slots' Rank prefers the jobs that run"
    if not policy.by_priority:
        return "PREEMPTION_REQUIREMENTS is false, and the slots' Rank is not higher"
    return f"the priority of those who hold them is not worse by a factor of {MARGIN:g}"
