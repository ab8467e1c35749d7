"""One negotiation: who gets which slots, what it costs them, and why the others got none."""

from pool.matching.candidates import RankOrder
from pool.matching.cycle import negotiate, shares
from pool.matching.holders import SlotHolders
from pool.matching.offers import HandedOut, Offer, Offers
from pool.matching.preempt import PreemptionPolicy
from pool.matching.snapshot import CyclePlan, CycleSettings, JobRequest, Matched, Rejected, Snapshot, Standing

__all__ = [
    "CyclePlan",
    "CycleSettings",
    "HandedOut",
    "JobRequest",
    "Matched",
    "Offer",
    "Offers",
    "PreemptionPolicy",
    "RankOrder",
    "Rejected",
    "SlotHolders",
    "Snapshot",
    "Standing",
    "negotiate",
    "shares",
]
