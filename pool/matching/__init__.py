"""One negotiation: who gets which slots, what it costs them, and why the others got none."""

from pool.matching.accounting import Account, Accountant, Factors, Use
from pool.matching.candidates import Order
from pool.matching.cycle import Matched, Plan, Rejected, Request, Settings, Snapshot, negotiate, shares
from pool.matching.holders import Holders
from pool.matching.offers import HandedOut, Offer, Offers
from pool.matching.preempt import PreemptionPolicy

__all__ = [
    "Account",
    "Accountant",
    "Factors",
    "HandedOut",
    "Holders",
    "Matched",
    "Offer",
    "Offers",
    "Order",
    "Plan",
    "PreemptionPolicy",
    "Rejected",
    "Request",
    "Settings",
    "Snapshot",
    "Use",
    "negotiate",
    "shares",
]
