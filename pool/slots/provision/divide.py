"""Divides a machine among its slots: first what slot types name, then the rest among those that said auto.

Cores, memory and swap are the machine's; disk is that of the file system which holds a slot's execute directory. Of a
custom resource whose pieces have names each slot gets certain pieces; those that are particular choose first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from pool.classad import Expr
from pool.slots.provision.pieces import answers, take_distinct
from pool.slots.provision.resources import CPUS, DISK, MEMORY, STANDARD, SWAP, Amount, Amounts
from pool.slots.provision.shape import Hardware, Layout, SlotSpec, SlotType
from pool.slots.provision.sizes import Auto, Least, Size, SizeShare


class _NotEnough(Exception):
    """There is too little of a resource; the text says how much of what."""


class _Part:
    """A slot in the making."""

    def __init__(self, slot_type: SlotType, slot_id: int, explicit: dict[str, Amount]) -> None:
        self.type, self.slot_id, self.explicit = slot_type, slot_id, explicit
        self.amounts = Amounts()
        self.ids: dict[str, tuple[str, ...]] = {}


class Divider:
    """One division; `disk_of` tells the file system of a slot's execute directory."""

    def __init__(self, hardware: Hardware, disk_of: Callable[[int], str]) -> None:
        self._hardware, self._disk_of = hardware, disk_of
        self._customs = {custom.name: custom for custom in hardware.customs}
        self._resources = [*STANDARD, *self._customs]
        self._left: dict[tuple[str, str], Amount] = {}
        self._autos: dict[tuple[str, str], int] = {}
        self._takers: dict[tuple[str, str], list[int]] = {}
        self._ids = {name: list(custom.usable_ids) for name, custom in self._customs.items()}

    def divide(self, types: Sequence[SlotType]) -> Layout:
        """The slots, numbered from 1, and for each type that could not be had in full why."""
        broken: dict[int, str] = {}
        parts = self._explicit_parts(types, broken)
        whole = [part for part in parts if self._complete(part, broken)]
        slots = [
            SlotSpec(
                part.slot_id,
                part.type.number,
                part.type.kind,
                part.amounts,
                self._disk_of(part.slot_id),
                {name: part.ids[name] for name in self._customs if name in part.ids},
            )
            for part in whole
        ]
        return Layout(tuple(slots), broken)

    def _explicit_parts(self, types: Sequence[SlotType], broken: dict[int, str]) -> list[_Part]:
        parts: list[_Part] = []
        for slot_type in types:
            for made in range(slot_type.count):
                slot_id = len(parts) + 1
                try:
                    explicit = self._take(slot_type, slot_id)
                except _NotEnough as short:
                    broken[slot_type.number] = _reason(slot_type, f"only {made} of {slot_type.count}: {short}")
                    break
                parts.append(_Part(slot_type, slot_id, explicit))
        return self._with_chosen_pieces(parts, broken)

    def _with_chosen_pieces(self, parts: list[_Part], broken: dict[int, str]) -> list[_Part]:
        """Hand out the pieces that slot types ask for by a constraint, before others take them."""
        kept = []
        for part in parts:
            try:
                for name, which in part.type.sizes.which.items():
                    if name in part.explicit:
                        part.ids[name] = self._pick(name, part.explicit[name], which)
            except _NotEnough as short:
                broken.setdefault(part.type.number, _reason(part.type, str(short)))
                continue
            kept.append(part)
        return kept

    def _complete(self, part: _Part, broken: dict[int, str]) -> bool:
        try:
            part.amounts = self._share_rest(part)
            for name, custom in self._customs.items():
                if custom.ids and name not in part.ids:
                    part.ids[name] = self._pick(name, part.amounts.of(name), None)
        except _NotEnough as short:
            broken.setdefault(part.type.number, _reason(part.type, f"not all {part.type.count}: {short}"))
            return False
        return True

    def _take(self, slot_type: SlotType, slot_id: int) -> dict[str, Amount]:
        """The explicit sizes of one more slot, taken from what is left."""
        wanted: dict[str, Amount] = {}
        for name in self._resources:
            size = slot_type.sizes.of(name)
            if isinstance(size, Auto):
                continue
            wanted[name] = self._amount(name, size, slot_id)
            left, total = self._remaining(name, slot_id), self._total(name, slot_id)
            if wanted[name] > left:
                taken = total - left
                sums = f"{taken} + {wanted[name]} = {taken + wanted[name]}, and there are {total}"
                raise _NotEnough(f"not enough {name}: {sums}{self._taken_by_others(name, slot_type, slot_id)}")
        for name in self._resources:
            key = self._key(name, slot_id)
            if name in wanted:
                self._left[key] = self._remaining(name, slot_id) - wanted[name]
                self._takers.setdefault(key, []).append(slot_type.number)
            else:
                self._autos[key] = self._autos.get(key, 0) + 1
        return wanted

    def _taken_by_others(self, name: str, slot_type: SlotType, slot_id: int) -> str:
        others = sorted({*self._takers.get(self._key(name, slot_id), ())} - {slot_type.number})
        return f"; taken by {', '.join(f'SLOT_TYPE_{number}' for number in others)}" if others else ""

    def _amount(self, name: str, size: Size, slot_id: int) -> Amount:
        """A size as an amount: whole units, and never less than one core."""
        assert not isinstance(size, Auto)
        if isinstance(size, Least):
            return 1 if name in (CPUS, MEMORY) else 0
        much = self._total(name, slot_id) * size.of_all if isinstance(size, SizeShare) else size
        # A share of a small machine rounds to no core at all, and a slot has one at least.
        if name == CPUS:
            return max(1, math.floor(much)) if much or not isinstance(size, SizeShare) else 0
        return math.floor(much) if isinstance(size, SizeShare) or name in STANDARD else much

    def _share_rest(self, part: _Part) -> Amounts:
        amounts: dict[str, Amount] = dict(part.explicit)
        for name in self._resources:
            if name in amounts:
                continue
            key = self._key(name, part.slot_id)
            each = Fraction(self._remaining(name, part.slot_id)) / self._autos[key]
            if name in self._customs:  # whole pieces, the first slots get what does not divide
                amounts[name] = math.ceil(each)
                self._left[key] = self._remaining(name, part.slot_id) - amounts[name]
                self._autos[key] -= 1
                continue
            amounts[name] = math.floor(each)
            if amounts[name] < 1 and name in (CPUS, MEMORY):
                left, slots = self._remaining(name, part.slot_id), self._autos[key]
                raise _NotEnough(f"not enough {name}: {left} left for {slots} slots that say auto")
        return Amounts({name: amounts[name] for name in self._resources})

    def _pick(self, name: str, much: Amount, which: Expr | None) -> tuple[str, ...]:
        custom, free = self._customs[name], self._ids[name]
        allowed = [one for one in free if which is None or answers(which, custom.piece(one))]
        count = math.ceil(much)
        if count > len(allowed):
            suiting = f" with {which}" if which is not None else ""
            raise _NotEnough(f"not enough {name}: {count} wanted, and {len(allowed)} are left{suiting}")
        picked = take_distinct(allowed, count)
        for one in picked:
            free.remove(one)
        return picked

    def _key(self, name: str, slot_id: int) -> tuple[str, str]:
        return name, self._disk_of(slot_id) if name == DISK else ""

    def _total(self, name: str, slot_id: int) -> Amount:
        hardware = self._hardware
        if name in self._customs:
            return self._customs[name].usable
        if name == DISK:
            return hardware.disks.get(self._disk_of(slot_id), 0)
        return {CPUS: hardware.cpus, MEMORY: hardware.memory, SWAP: hardware.swap}[name]

    def _remaining(self, name: str, slot_id: int) -> Amount:
        return self._left.get(self._key(name, slot_id), self._total(name, slot_id))


def _reason(slot_type: SlotType, why: str) -> str:
    return broken_reason(slot_type.number, f"{why} ({slot_type.said})" if slot_type.said else why)


def broken_reason(number: int, why: str) -> str:
    """What the daemon's ad and log say of a slot type that could not be had."""
    return f"Could not create required number of type{number} slots ({why})"
