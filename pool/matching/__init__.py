"""One negotiation: who gets which slots, what it costs them, and why the others got none."""

from pool.matching.accounting import Accountant, Factors, SubmitterAccount, SubmitterUse
from pool.matching.candidates import RankOrder
from pool.matching.cycle import CyclePlan, CycleSettings, JobRequest, Matched, Rejected, Snapshot, negotiate, shares
from pool.matching.holders import SlotHolders
from pool.matching.offers import HandedOut, Offer, Offers
from pool.matching.preempt import PreemptionPolicy

__all__ = [
    "Accountant",
    "CyclePlan",
    "CycleSettings",
    "Factors",
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
    "SubmitterAccount",
    "SubmitterUse",
    "negotiate",
    "shares",
]
