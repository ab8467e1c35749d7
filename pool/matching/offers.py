"""The slots as the negotiator knows them: the last ad of each, less what was handed out since.

A claim id that was handed out is not offered again until it is clear what became of it: it vanished from the slot's ad
(it was used, or withdrawn), the schedd returned it or is gone, or MATCH_TIMEOUT has passed. What a handed-out match
takes of a partitionable slot is taken off until then too, whatever ads the startd sends meanwhile.

Source: HTCondor manual, "Configuration Macros" (MATCH_TIMEOUT, CLAIM_PARTITIONABLE_LEFTOVERS) and
"Machine ClassAd Attributes".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pool.accounting.accounts import SubmitterUse, weight_of
from pool.base.errors import UserError
from pool.base.words import split_list
from pool.classad import ClassAd, Expr, expr
from pool.classad.syntax.parse import literal_of
from pool.matching.holders import SlotHolders
from pool.slots.provision.inventory import attribute_of
from pool.slots.provision.pieces import choose
from pool.slots.provision.resources import AMOUNT_MAX, NONE, STANDARD, Amount, Amounts

Pieces = Mapping[str, Sequence[str]]
"""Ids of pieces by custom resource."""
HELD_STATES: Final = frozenset({"Claimed", "Preempting"})


@dataclass(frozen=True, slots=True)
class Offer:
    """A slot that may be matched: its ad as it would be now, and the claim ids that are left."""

    name: str
    ad: ClassAd
    claim_ids: tuple[str, ...]
    address: str
    partitionable: bool
    claimed: bool
    may_rank_higher: bool = True
    """Whether its owner may rank a job higher than the claim that has it."""


@dataclass(frozen=True, slots=True)
class HandedOut:
    """A match that a schedd was given, and of which nothing has been heard yet."""

    claim_id: str
    slot: str
    schedd: str
    taken: Amounts | None
    at: float
    pieces: Pieces = field(default_factory=dict)
    """Which pieces of custom resources it will get, as far as that was looked at."""
    room: tuple[str, ...] = ()
    """Claim ids of the dynamic slots that end for it."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """What the collector said last."""

    ad: ClassAd
    claim_ids: tuple[str, ...]
    holder: str
    """Who has it; empty when nobody has."""
    weight: float


class Offers:
    """All slots; `current` is what a cycle may hand out."""

    def __init__(self) -> None:
        self._weigh: Callable[[ClassAd], float] = weight_of
        self._counts: Expr | None = None
        self.discounts_suspended = False
        """NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES: a slot is not charged for while the job in it is suspended."""
        self._slots: dict[str, _Slot] = {}
        self._offers: dict[str, Offer | None] = {}
        self._handed: dict[str, HandedOut] = {}
        self._by_slot: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    # ---- what the collector says

    def put(self, ad: ClassAd, private: ClassAd | None) -> None:
        """A slot is new or different."""
        self.put_with(ad, claim_ids_of(private))

    def put_with(self, ad: ClassAd, ids: tuple[str, ...]) -> None:
        """The same, of which these are the claim ids."""
        name = ad.eval_str("Name", "")
        is_held = ad.eval_str("State") in HELD_STATES and not ad.eval_bool("PartitionableSlot", False)
        self._slots[name] = _Slot(ad, ids, holder_of(ad) if is_held else "", self._weigh(ad))
        for claim_id in self._by_slot.get(name, set()) - set(ids):
            self._settle(claim_id)
        self._offers.pop(name, None)

    def remove(self, name: str) -> None:
        """A slot is gone."""
        self._slots.pop(name, None)
        self._offers.pop(name, None)
        for claim_id in list(self._by_slot.get(name, ())):
            self._settle(claim_id)

    def clear(self) -> None:
        """The collector was lost: everything will be said anew. What was handed out stays so."""
        self._slots.clear()
        self._offers.clear()

    def weigh_by(self, weigh: Callable[[ClassAd], float], counts: Expr | None) -> None:
        """What slots weigh from now on, and which of them count for the size of the pool; None: all."""
        self._counts = counts
        if weigh is not self._weigh:
            self._weigh = weigh
            self._slots = {name: replace(slot, weight=weigh(slot.ad)) for name, slot in self._slots.items()}

    # ---- what became of matches

    def hand_out(self, match: HandedOut) -> None:
        """A schedd is offered this match."""
        self._handed[match.claim_id] = match
        self._by_slot.setdefault(match.slot, set()).add(match.claim_id)
        self._offers.pop(match.slot, None)

    def give_back(self, claim_ids: Iterable[str], schedd: str) -> int:
        """The schedd does not use them; how many of them it had."""
        mine = [i for i in claim_ids if i in self._handed and self._handed[i].schedd == schedd]
        for claim_id in mine:
            for one in (claim_id, *self._handed[claim_id].room):
                if one in self._handed:
                    self._settle(one)
        return len(mine)

    def schedd_gone(self, schedd: str) -> int:
        """Nothing that this schedd was handed will be used any more."""
        return self.give_back([i for i, handed in self._handed.items() if handed.schedd == schedd], schedd)

    def expire(self, now: float, timeout_s: float) -> int:
        """Stop waiting for what was handed out too long ago."""
        old = [i for i, handed in self._handed.items() if handed.at + timeout_s <= now]
        for claim_id in old:
            self._settle(claim_id)
        return len(old)

    def next_expiry(self, timeout_s: float) -> float | None:
        """When `expire` has something to do; they were handed out in order."""
        first = next(iter(self._handed.values()), None)
        return None if first is None else first.at + timeout_s

    # ---- what a cycle needs

    def current(self) -> list[Offer]:
        """Every slot that has a claim id to hand out."""
        return [offer for offer in self._all() if offer.claim_ids]

    def partitionable(self) -> list[Offer]:
        """Every partitionable slot, full ones too."""
        return [offer for offer in self._all() if offer.partitionable]

    def _all(self) -> list[Offer]:
        for name in self._slots.keys() - self._offers.keys():
            self._offers[name] = self._offer(name)
        return [offer for name in self._slots if (offer := self._offers[name]) is not None]

    def ad(self, name: str) -> ClassAd | None:
        """The ad of a slot as it was heard last."""
        slot = self._slots.get(name)
        return None if slot is None else slot.ad

    def ads(self) -> list[ClassAd]:
        """The slots' ads as they were heard."""
        return [slot.ad for slot in self._slots.values()]

    def use(self, holders: SlotHolders) -> dict[str, SubmitterUse]:
        """What each submitter holds, where slots' ads and schedds agree."""
        held: dict[str, SubmitterUse] = {}
        for name, slot in self._slots.items():
            if slot.holder and holders.confirms(name, slot.holder) and not self._is_free_of_charge(slot):
                held[slot.holder] = held.get(slot.holder, SubmitterUse()) + SubmitterUse(1, slot.weight)
        return held

    def not_charged(self, holders: SlotHolders) -> Iterator[tuple[str, SubmitterUse]]:
        """What submitters hold and are not charged for: each such slot."""
        for name, slot in self._slots.items():
            if slot.holder and self._is_free_of_charge(slot) and holders.confirms(name, slot.holder):
                yield slot.holder, SubmitterUse(1, slot.weight)

    def _is_free_of_charge(self, slot: _Slot) -> bool:
        return self.discounts_suspended and slot.ad.eval_str("Activity") == "Suspended"

    def counts(self) -> tuple[int, int]:
        """How many slots there are, and how many of them nobody has."""
        return len(self._slots), sum(not slot.holder for slot in self._slots.values())

    def held(self) -> Iterator[tuple[str, ClassAd]]:
        """The slots that somebody has, by name."""
        return ((name, slot.ad) for name, slot in self._slots.items() if slot.holder)

    def held_weight(self, name: str, holder: str) -> float | None:
        """What a slot weighs; None when this submitter does not have it."""
        slot = self._slots.get(name)
        return slot.weight if slot is not None and slot.holder == holder else None

    def weight(self) -> float:
        """What all slots that count for the size of the pool weigh."""
        wanted = self._counts
        slots = self._slots.values()
        return sum(slot.weight for slot in slots if wanted is None or wanted.eval(slot.ad) is True)

    # ---- inside

    def _settle(self, claim_id: str) -> None:
        handed = self._handed.pop(claim_id)
        ids = self._by_slot[handed.slot]
        ids.discard(claim_id)
        if not ids:
            del self._by_slot[handed.slot]
        self._offers.pop(handed.slot, None)

    def _offer(self, name: str) -> Offer | None:
        slot = self._slots[name]
        out = self._by_slot.get(name, set())
        left = tuple(claim_id for claim_id in slot.claim_ids if claim_id not in out)
        address = slot.ad.eval_str("MyAddress") or slot.ad.eval_str("StartdIpAddr") or ""
        partitionable = bool(slot.ad.eval_bool("PartitionableSlot", False))
        if not address or not (left or partitionable):
            return None
        ad = slot.ad
        if out and partitionable:
            handed = [self._handed[claim_id] for claim_id in out]
            taken = sum((one.taken for one in handed if one.taken is not None), start=NONE)
            ad = less(ad, taken, pieces=together(one.pieces for one in handed))
        claimed = slot.ad.eval_str("State") in HELD_STATES
        return Offer(name, ad, left, address, partitionable, claimed, not claimed or may_rank_higher(slot.ad))


def holder_of(slot: ClassAd) -> str:
    """The submitter who has the slot; empty when nobody has."""
    owner, user = slot.eval_str("RemoteOwner", ""), slot.eval_str("RemoteUser", "")
    return owner if "@" in owner or not user else user


def next_holder_of(slot: ClassAd) -> str:
    """The submitter whose better claim waits for the slot; where none does, who has it."""
    return slot.eval_str("PreemptingUser") or holder_of(slot)


def may_rank_higher(slot: ClassAd) -> bool:
    """Whether its owner may rank a job higher than the claim that has the slot."""
    ranked = slot.get("Rank")
    if isinstance(ranked, Expr):
        ranked = literal_of(ranked.node)
        if ranked is None:
            return True
    return isinstance(ranked, int | float) and ranked > rank_to_beat(slot)


def rank_to_beat(slot: ClassAd) -> float:
    """How its owner ranks the claim that has the slot, or the better one that waits for it."""
    waits = slot.eval_float("PreemptingRank")
    return (slot.eval_float("CurrentRank", 0.0) or 0.0) if waits is None else waits


def claim_ids_of(private: ClassAd | None) -> tuple[str, ...]:
    """The claim ids in a slot's private half: ClaimIds, each for one dynamic slot, or the one ClaimId."""
    if private is None:
        return ()
    listed = private.eval("ClaimIds")
    if isinstance(listed, list):
        return tuple(str(item) for item in listed)
    one = private.eval_str("ClaimId")
    return (one,) if one else ()


def free_of(slot: ClassAd) -> Amounts:
    """What a partitionable slot's ad says it has left, custom resources included."""
    names = [*STANDARD]
    for name in split_list(slot.eval_str("MachineResources", "")):
        if name.lower() not in ("cpus", "memory", "disk", "swap", "virtualmemory"):
            names.append(name)
    amounts: dict[str, float] = {}
    for name in names:
        value = slot.eval(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value < AMOUNT_MAX:
            amounts[name] = max(0, value)
    return Amounts(amounts)


def less(slot: ClassAd, taken: Amounts, free: Amounts | None = None, pieces: Pieces | None = None) -> ClassAd:
    """A partitionable slot's ad after `taken` was carved from it; `free` is what it had, where that is known."""
    free = free_of(slot) if free is None else free
    left: dict[str, object] = {name: _number(max(0, free.of(name) - taken.of(name))) for name in taken if name in free}
    for name, gone in (pieces or {}).items():
        left[f"Available{name}"] = _listed(name, [one for one in available(slot, name) if one not in gone])
    return ClassAd(left, parent=slot)


def more(slot: ClassAd, gained: Amounts, pieces: Pieces) -> ClassAd:
    """A partitionable slot's ad when it has got this back."""
    free = free_of(slot)
    has: dict[str, object] = {name: _number(free.of(name) + much) for name, much in gained.items()}
    for name, back in pieces.items():
        has[f"Available{name}"] = _listed(name, dict.fromkeys((*available(slot, name), *back)))
    return ClassAd(has, parent=slot)


def piece(slot: ClassAd, taken: Amounts, pieces: Pieces | None = None) -> ClassAd:
    """The dynamic slot that the startd would carve, as far as the negotiator knows."""
    own: dict[str, object] = {name: _number(amount) for name, amount in taken.items()}
    for name, given in (pieces or {}).items():
        own[f"Assigned{name}"] = ",".join(given)
        own[f"Available{name}"] = _listed(name, given)
    if not isinstance(slot.get("SlotWeight"), Expr):
        own["SlotWeight"] = own.get("Cpus", 1)
    return ClassAd(own, parent=slot)


def available(slot: ClassAd, name: str) -> dict[str, ClassAd]:
    """The pieces of a custom resource that a slot has left, by id."""
    found: dict[str, ClassAd] = {}
    listed = slot.eval(f"Available{name}")
    for ad in listed if isinstance(listed, list) else ():
        one = ad.eval_str("Id") if isinstance(ad, ClassAd) else None
        if isinstance(ad, ClassAd) and one is not None:
            found[one] = ad
    return found


def pieces_of_match(job: ClassAd, slot: ClassAd, taken: Amounts) -> dict[str, tuple[str, ...]]:
    """Which pieces of the slot's custom resources the job will be given; UserError when too few suit it."""
    given: dict[str, tuple[str, ...]] = {}
    for name, amount in taken.items():
        if name in STANDARD or not amount or f"Available{name}" not in slot:
            continue
        known = available(slot, name)
        chosen = choose(name, list(known), math.ceil(amount), job, known)
        if chosen is not None:
            given[name] = chosen
        elif f"Require{name}" in job:
            raise UserError(f"too few {name} that the job takes")
    return given


def together(parts: Iterable[Pieces]) -> dict[str, tuple[str, ...]]:
    """All that several matches were given."""
    all_pieces: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for name, ids in part.items():
            all_pieces[name] = all_pieces.get(name, ()) + tuple(ids)
    return all_pieces


def _listed(name: str, ids: Iterable[str]) -> Expr:
    return expr(f"{{ {', '.join(f'{name}_{attribute_of(one)}' for one in ids)} }}")


def _number(amount: Amount) -> int | float:
    return amount if isinstance(amount, int) else float(amount)
