"""Room for jobs that no slot has room for: dynamic slots that end together, for one slot out of what they leave.

With ALLOW_PSLOT_PREEMPTION a partitionable slot is looked at together with its dynamic slots. Those whose jobs have to
make way for the job, by the rules of `preempt`, are added to it, the least ranked first, until the job fits; those that
it fits without after all are left alone. GPUs and other custom resources count as cores do, with what is known of each
piece. No job is moved whose retirement is not over, and none for a second job while one waits for room in the same
partitionable slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pool.classad import ClassAd, is_match
from pool.matching.offers import Offer, Pieces, available, free_of, more, together
from pool.matching.preempt import Asker, PreemptionPolicy, Preempts, preempts
from pool.slots.provision.resources import NONE, STANDARD, Amounts


@dataclass(frozen=True, slots=True)
class Family:
    """A partitionable slot and those of its dynamic slots that may have to end."""

    parent: Offer
    children: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """Which dynamic slots have to end, and the partitionable slot's ad when they have."""

    ends: tuple[Offer, ...]
    ad: ClassAd
    why: Preempts


@dataclass(frozen=True, slots=True)
class _End:
    """A dynamic slot that may end: by what right, and what that frees."""

    slot: Offer
    why: Preempts
    frees: Amounts
    pieces: Pieces


def is_dynamic(offer: Offer) -> bool:
    """Whether somebody's dynamic slot is offered."""
    return offer.claimed and offer.ad.eval_bool("DynamicSlot", False)


def families(parents: Iterable[Offer], slots: Iterable[Offer]) -> list[Family]:
    """The partitionable slots with the dynamic slots among `slots` that were carved out of them."""
    known = {slot.name: slot for slot in slots if is_dynamic(slot)}
    found: list[Family] = []
    for parent in parents:
        if "PreemptingUser" in parent.ad:
            continue
        names = parent.ad.eval("ChildName")
        named = [str(name) for name in names] if isinstance(names, list) else []
        children = tuple(known[name] for name in named if name in known)
        if children:
            found.append(Family(parent, children))
    return found


def find_room(asker: Asker, ad: ClassAd, children: Sequence[Offer], policy: PreemptionPolicy) -> Room | None:
    """What has to end for the job to fit into the partitionable slot with this ad; None when nothing suffices."""
    gentle = replace(policy, early=False)
    ends: list[_End] = []
    for child in sorted(children, key=lambda child: child.ad.eval_float("CurrentRank", 0.0) or 0.0):
        if child.ad.eval_str("State") != "Claimed" or (found := preempts(child.ad, asker, gentle)) is None:
            continue
        given = free_of(child.ad)
        pieces = {name: tuple(available(child.ad, name)) for name in given if name not in STANDARD}
        ends.append(_End(child, found[0], given, {name: ids for name, ids in pieces.items() if ids}))
        if is_match(asker.job, _roomy(ad, ends)):
            return _without_the_needless(asker.job, ad, ends)
    return None


def _roomy(ad: ClassAd, ends: Iterable[_End]) -> ClassAd:
    return more(ad, sum((one.frees for one in ends), start=NONE), together(one.pieces for one in ends))


def _without_the_needless(job: ClassAd, ad: ClassAd, ends: list[_End]) -> Room:
    """Just what the job needs of these, with which it fits: the best ranked are let off first. The last is needed."""
    for one in reversed(ends[:-1]):
        others = [other for other in ends if other is not one]
        if is_match(job, _roomy(ad, others)):
            ends = others
    return Room(tuple(one.slot for one in ends), _roomy(ad, ends), min(one.why for one in ends))
