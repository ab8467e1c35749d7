"""How a job takes a slot: as it is, a piece of a partitionable one, or one that others have to make room for.

A taking is proposed first, and done when nothing bounds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pool.accounting.limits import NONE, Limits, limits_of
from pool.classad import ClassAd
from pool.matching.candidates import Working
from pool.matching.offers import Pieces, free_of, less, next_holder_of, piece, pieces_of_match, together
from pool.matching.preempt import Preempts
from pool.matching.room import Family, Room
from pool.matching.snapshot import JobRequest, Matched
from pool.slots.provision.carve import Rounding, fit_request
from pool.slots.provision.consumption import has_policy
from pool.slots.provision.resources import Amounts

Weigh = Callable[[ClassAd], float]


@dataclass(frozen=True, slots=True)
class Taking:
    """A proposed match: who holds slots that end for it, and what it leaves of a partitionable slot."""

    matched: Matched
    holders: tuple[ClassAd, ...] = ()
    why: Preempts = Preempts.NOBODY
    left: ClassAd | None = None
    free: Amounts | None = None
    gone: Pieces = field(default_factory=dict)

    def given_back(self, weigh: Weigh, belongs: Callable[[str], bool]) -> float:
        """The weight of the slots that end for it, of those submitters who belong."""
        return sum(weigh(slot) for slot in self.holders if belongs(next_holder_of(slot)))


def whole(request: JobRequest, slot: Working, weigh: Weigh, why: Preempts) -> Taking:
    """The slot as it is."""
    offer = slot.offer
    matched = Matched(
        request, offer.name, slot.claim_ids[0], offer.address, slot.ad, weigh(slot.ad), limits=_limits(request, slot.ad)
    )
    return Taking(matched, (slot.ad,) if offer.claimed else (), why)


def carved(request: JobRequest, slot: Working, weigh: Weigh, rounding: Rounding) -> Taking:
    """A piece of a partitionable slot; UserError where the slot's expressions promised more than there is."""
    offer = slot.offer
    free = slot.free if slot.free is not None else free_of(slot.ad)
    taken = fit_request(request.ad, slot.ad, free, rounding)
    pieces = pieces_of_match(request.ad, slot.ad, taken)
    gone = together((slot.gone, pieces)) if pieces else slot.gone
    left = less(offer.ad, taken, free, gone)
    ad = piece(offer.ad, taken, pieces)
    # Under the owner's consumption policy, what the match costs is by how much less the slot weighs.
    weight = max(0.0, weigh(slot.ad) - weigh(left)) if has_policy(slot.ad) else weigh(ad)
    matched = Matched(
        request, offer.name, slot.claim_ids[0], offer.address, ad, weight, taken, pieces, limits=_limits(request, ad)
    )
    return Taking(matched, left=left, free=free - taken, gone=gone)


def with_room(request: JobRequest, family: Family, room: Room, weigh: Weigh, rounding: Rounding) -> Taking:
    """A piece of a partitionable slot when some of its dynamic slots have ended; UserError where that is too little."""
    taken = fit_request(request.ad, room.ad, free_of(room.ad), rounding)
    pieces = pieces_of_match(request.ad, room.ad, taken)
    ad = piece(room.ad, taken, pieces)
    (claim_id, *_), parent = room.ends[0].claim_ids, family.parent
    matched = Matched(
        request, parent.name, claim_id, parent.address, ad, weigh(ad), taken, pieces, room.ends, _limits(request, ad)
    )
    return Taking(matched, tuple(one.ad for one in room.ends), room.why)


def is_left(slot: ClassAd, request: JobRequest) -> bool:
    """Whether the cycle may give away what is left of a partitionable slot of which the request gets a part.

    A consumption policy divides the slot by itself, and the cycle with it.
    """
    wanted = request.leftovers and slot.eval_bool("ClaimPartitionableLeftovers", True)
    return bool(wanted) or has_policy(slot)


def _limits(request: JobRequest, ad: ClassAd) -> Limits:
    return limits_of(request.ad, ad) if "ConcurrencyLimits" in request.ad else NONE
