"""The slots of a simulated pool: as ads show them, and empty.

A partitionable slot has again what its dynamic slots had taken; these, and whoever held a slot, are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pool.base.errors import UserError
from pool.classad import ClassAd, expr
from pool.matching.offers import Offer, Pieces, free_of, piece
from pool.simulate.records import Record, records
from pool.slots.provision.carve import Holding, carvable, carve, give_back
from pool.slots.provision.inventory import attribute_of
from pool.slots.provision.resources import STANDARD, Amounts

State = tuple[object, ...]
"""What of a slot changes, as a key: what is left, and of which pieces."""
_HELD = ("RemoteOwner", "RemoteUser", "AccountingGroup", "JobId", "ClientMachine", "PreemptingUser", "PreemptingRank")


@dataclass(slots=True)
class Machine:
    """A slot that a startd would have at its start, and what is left of it."""

    name: str
    base: ClassAd
    partitionable: bool
    whole: Amounts
    left: Holding
    taken: bool = False
    _offer: Offer | None = None
    _state: State | None = None
    _looked: bool = False

    def state(self) -> State | None:
        """What is left of it for jobs, None if nothing. Two equal ones of a machine have equal ads."""
        if not self._looked:
            self._looked, self._state = True, None
            if self._is_offered():
                amounts, ids = self.left.amounts, self.left.ids
                self._state = tuple([amounts[name] for name in amounts]) + tuple(ids.values())
        return self._state

    def offer(self) -> Offer:
        """What a cycle may hand out of it."""
        if self._offer is None:
            address = self.base.eval_str("MyAddress") or self.base.eval_str("StartdIpAddr", "")
            self._offer = Offer(self.name, self.ad(), self._claim_ids(), address, self.partitionable, claimed=False)
        return self._offer

    def ad(self) -> ClassAd:
        """As the collector would show it now."""
        if not self.partitionable:
            return ClassAd({"State": "Claimed" if self.taken else "Unclaimed"}, parent=self.base)
        return piece(self.base, self.left.amounts, self.left.ids) if self.left.amounts != self.whole else self.base

    def _is_offered(self) -> bool:
        return carvable(self.left.amounts) > 0 if self.partitionable else not self.taken

    def _claim_ids(self) -> tuple[str, ...]:
        """For as many jobs as it may be matched with, at most."""
        count = carvable(self.left.amounts) if self.partitionable else int(not self.taken)
        return tuple([f"{self.name}#{number}" for number in range(count)])

    def take(self, wanted: Amounts | None, job: ClassAd) -> Holding | None:
        """Have the slot, or a dynamic slot of the wanted size; UserError where there is too little."""
        self._offer, self._looked = None, False
        if wanted is None:
            self.taken = True
            return None
        child, self.left = carve(self.left, wanted, self.whole, job, self._properties())
        return child

    def free(self, child: Holding | None) -> None:
        """A job has left its slot."""
        self._offer, self._looked = None, False
        if child is None:
            self.taken = False
        else:
            self.left = give_back(self.left, child)

    def _properties(self) -> dict[str, dict[str, ClassAd]]:
        found: dict[str, dict[str, ClassAd]] = {}
        for name, ids in self.left.ids.items():
            ads = {one: self.base.eval(f"{name}_{attribute_of(one)}") for one in ids}
            found[name] = {one: ad for one, ad in ads.items() if isinstance(ad, ClassAd)}
        return found


def read_machines(lines: Iterable[str], *, file: str) -> list[Machine]:
    """The slots of a file of machine ads. UserError with the place of what is wrong."""
    found: dict[str, Machine] = {}
    for record in records(lines, file):
        # What it has belongs to its partitionable slot again.
        if record.texts.get("dynamicslot", "").lower() == "true":
            continue
        machine = _machine(record)
        if machine.name in found:
            raise record.error(f"there are two slots {machine.name}", "Name")
        found[machine.name] = machine
    if not found:
        raise UserError(f"{file}: no slot in it", expected="what `condor_status -long` prints")
    return list(found.values())


def _machine(record: Record) -> Machine:
    ad, name = record.ad(), record.string("Name")
    if not name:
        raise record.error("the ad has no Name", expected="a slot's ad")
    if not ad.eval_float("Cpus", ad.eval_float("TotalSlotCpus", 0.0)):
        raise record.error(f"{name} has no Cpus", "Cpus", expected="a slot's ad")
    for held in _HELD:
        ad.pop(held, None)
    ad["State"], ad["Activity"], ad["CurrentRank"] = "Unclaimed", "Idle", 0.0
    # Nobody will be called there, but a slot without an address is never offered.
    if not (ad.eval_str("MyAddress") or ad.eval_str("StartdIpAddr")):
        ad["MyAddress"] = ad.eval_str("Machine") or name
    partitionable = bool(ad.eval_bool("PartitionableSlot", False))
    ids: Pieces = _make_whole(ad) if partitionable else {}
    amounts = free_of(ad)
    return Machine(name, ad, partitionable, amounts, Holding(amounts, {key: tuple(one) for key, one in ids.items()}))


def _make_whole(ad: ClassAd) -> dict[str, tuple[str, ...]]:
    """Give a partitionable slot back what its dynamic slots have; and the pieces of its custom resources."""
    ids: dict[str, tuple[str, ...]] = {}
    for name in free_of(ad):
        # At the moment of the record jobs may have had a part of it.
        if (total := ad.eval_float(f"TotalSlot{name}")) is not None:
            ad[name] = int(total) if float(total).is_integer() else total
        assigned = ad.eval_str(f"Assigned{name}", "")
        if name not in STANDARD and assigned and f"Available{name}" in ad:
            ids[name] = tuple(one.strip() for one in assigned.split(","))
            listed = ", ".join(f"{name}_{attribute_of(one)}" for one in ids[name])
            ad[f"Available{name}"] = expr(f"{{ {listed} }}")
    return ids
