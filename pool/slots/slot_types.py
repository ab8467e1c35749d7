"""From SLOT_TYPE_<N> and its friends to the slots of a machine.

A slot type says how much of each resource one slot of it has: `25%`, `1/4`, or a list such as
`cpus=2, ram=128, disk=auto, 50%`, where a bare value stands for what is not listed. What is `auto` shares evenly what
the explicit amounts leave. Without any NUM_SLOTS_TYPE_<N> the machine is NUM_SLOTS (1) equal partitionable slots.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Final

from pool.errors import ConfigError
from pool.slots.custom import Custom
from pool.slots.resources import CPUS, DISK, MEMORY, STANDARD, SWAP, Amount, Amounts, exact

SLOTS_MAX: Final = 10_000

Get = Callable[[str], str | None]


class Auto(Enum):
    """An even share of what is left."""

    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the whole: 1/4, 25%."""

    of_all: Fraction


Size = Auto | Share | int | Fraction
"""How much of a resource a slot type takes."""


class SlotKind(StrEnum):
    """How a slot is used; the values are those of the ad's `SlotType`."""

    PARTITIONABLE = "Partitionable"
    DYNAMIC = "Dynamic"
    STATIC = "Static"


class FailureMode(StrEnum):
    """What to do about slots that cannot be had: SLOT_CONFIG_FAILURE_MODE."""

    CONTINUE = "CONTINUE"
    CLEAR = "CLEAR"
    ABORT = "ABORT"


@dataclass(frozen=True)
class Hardware:
    """What there is to divide. `disks` maps an execute directory's file system to its free KiB."""

    cpus: int
    memory: int
    swap: int
    disks: Mapping[str, int]
    customs: Sequence[Custom] = ()


@dataclass(frozen=True)
class SlotType:
    """What one slot of a type takes: by resource, or `rest`; `which` limits the ids of a custom resource."""

    number: int
    kind: SlotKind
    count: int
    sizes: Mapping[str, Size]
    rest: Size = Auto.AUTO
    which: Mapping[str, str] = field(default_factory=dict)

    def size(self, resource: str) -> Size:
        """How much of `resource` one slot takes."""
        return self.sizes.get(resource, self.rest)


@dataclass(frozen=True)
class SlotSpec:
    """A slot to be: its number and type, all that it has, and which pieces of custom resources are its own."""

    slot_id: int
    type_id: int
    kind: SlotKind
    amounts: Amounts
    disk: str
    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """The slots of a machine, and for each type that could not be had in full, why."""

    slots: tuple[SlotSpec, ...]
    broken: Mapping[int, str] = field(default_factory=dict)


_KNOB = re.compile(r"NUM_SLOTS_TYPE_(\d+)\Z", re.IGNORECASE)
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%\Z")
_FRACTION = re.compile(r"(\d+)\s*/\s*(\d+)\Z")
_NUMBER = re.compile(r"\d+(?:\.\d+)?\Z")
_BY_LETTER: Final = {"c": CPUS, "r": MEMORY, "m": MEMORY, "d": DISK, "s": SWAP, "v": SWAP}


def layout(names: Iterable[str], get: Get, hardware: Hardware, disk_of: Callable[[int], str] = lambda _: "") -> Layout:
    """Divide `hardware` as the configuration says. `disk_of` tells the file system of a slot's execute directory."""
    mode = failure_mode(get)
    types = slot_types(names, get, hardware)
    made = _Divider(hardware, disk_of).divide(types)
    if not made.broken or mode is FailureMode.CONTINUE:
        return made
    if mode is FailureMode.CLEAR:
        return Layout((), made.broken)
    raise ConfigError(f"the slots do not fit this machine: {'; '.join(made.broken.values())}")


def failure_mode(get: Get) -> FailureMode:
    """SLOT_CONFIG_FAILURE_MODE; CONTINUE unless it says otherwise."""
    text = (get("SLOT_CONFIG_FAILURE_MODE") or "CONTINUE").strip().upper()
    try:
        return FailureMode(text)
    except ValueError:
        raise ConfigError(
            f"SLOT_CONFIG_FAILURE_MODE = {text} is unknown", expected="CONTINUE, CLEAR or ABORT"
        ) from None


def slot_types(names: Iterable[str], get: Get, hardware: Hardware) -> list[SlotType]:
    """The types of which there shall be slots, by number."""
    customs = {custom.name.lower(): custom.name for custom in hardware.customs}
    numbers = sorted({int(found[1]) for name in names if (found := _KNOB.match(name)) and int(found[1]) > 0})
    types = [_read_type(number, get, customs) for number in numbers]
    types = [one for one in types if one.count]
    if numbers:
        return types
    count = min(_count("NUM_SLOTS", get("NUM_SLOTS") or "1"), hardware.cpus)
    sizes, rest, which = parse_slot_type("SLOT_TYPE_0", get("SLOT_TYPE_0") or "auto", customs)
    return [SlotType(0, _kind(0, get, default=True), count, sizes, rest, which)] if count else []


def parse_slot_type(
    knob: str, text: str, customs: Mapping[str, str] | None = None
) -> tuple[dict[str, Size], Size, dict[str, str]]:
    """What a SLOT_TYPE_<N> says: sizes by resource, the size of the rest, and constraints on ids."""
    sizes: dict[str, Size] = {}
    which: dict[str, str] = {}
    rest: Size = Auto.AUTO
    for part in (piece.strip() for piece in re.split(r"[,\n]", text)):
        if not part:
            continue
        name, equals, value = part.partition("=")
        if not equals:
            rest = _size(knob, part)
            if isinstance(rest, int | Fraction):
                raise ConfigError(f"{knob} = {text.strip()}: {part} of what?", expected="NAME=NUMBER, 1/4, 25% or auto")
            continue
        resource = _resource(knob, name.strip(), customs or {})
        value, colon, constraint = value.partition(":")
        sizes[resource] = _size(knob, value.strip())
        if colon:
            which[resource] = constraint.strip()
    return sizes, rest, which


def _read_type(number: int, get: Get, customs: Mapping[str, str]) -> SlotType:
    knob = f"SLOT_TYPE_{number}"
    count = _count(f"NUM_SLOTS_TYPE_{number}", get(f"NUM_SLOTS_TYPE_{number}") or "0")
    sizes, rest, which = parse_slot_type(knob, get(knob) or "auto", customs)
    return SlotType(number, _kind(number, get, default=False), count, sizes, rest, which)


def _kind(number: int, get: Get, *, default: bool) -> SlotKind:
    text = (get(f"SLOT_TYPE_{number}_PARTITIONABLE") or str(default)).strip().lower()
    return SlotKind.PARTITIONABLE if text in ("true", "t", "yes", "1") else SlotKind.STATIC


def _count(knob: str, text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ConfigError(f"{knob} = {text} is not a whole number") from None
    if not 0 <= count <= SLOTS_MAX:
        raise ConfigError(f"{knob} = {text} is out of range", expected=f"0 to {SLOTS_MAX}")
    return count


def _resource(knob: str, name: str, customs: Mapping[str, str]) -> str:
    custom = customs.get(name.lower())
    if custom is not None:
        return custom
    standard = _BY_LETTER.get(name[:1].lower())
    if standard is None:
        raise ConfigError(
            f"{knob} has an unknown resource {name!r}", expected="cpus, memory, disk, swap or a custom one"
        )
    return standard


def _size(knob: str, text: str) -> Size:
    if text.lower() == "auto":
        return Auto.AUTO
    share: Fraction | None = None
    if found := _PERCENT.match(text):
        share = Fraction(found[1]) / 100
    elif (found := _FRACTION.match(text)) and int(found[2]):
        share = Fraction(int(found[1]), int(found[2]))
    if share is not None:
        if share > 1:
            raise ConfigError(f"{knob}: {text} is more than all there is")
        return Share(share)
    if _NUMBER.match(text):
        return exact(text)
    raise ConfigError(f"{knob}: {text!r} is no size", expected="a number, 1/4, 25% or auto")


class _Divider:
    """Takes what the explicit sizes want, slot after slot, then divides the rest among those that said auto."""

    def __init__(self, hardware: Hardware, disk_of: Callable[[int], str]) -> None:
        self._hardware, self._disk_of = hardware, disk_of
        self._customs = {custom.name: custom for custom in hardware.customs}
        self._resources = [*STANDARD, *self._customs]
        self._left: dict[tuple[str, str], Amount] = {}
        self._autos: dict[tuple[str, str], int] = {}
        self._ids = {name: list(custom.usable_ids) for name, custom in self._customs.items()}

    def divide(self, types: Sequence[SlotType]) -> Layout:
        taken: list[tuple[SlotType, int, dict[str, Amount]]] = []
        broken: dict[int, str] = {}
        slot_id = 0
        for slot_type in types:
            for made in range(slot_type.count):
                explicit = self._take(slot_type, slot_id + 1)
                if isinstance(explicit, str):
                    broken[slot_type.number] = _reason(slot_type, made, explicit)
                    break
                slot_id += 1
                taken.append((slot_type, slot_id, explicit))
        slots = []
        for slot_type, number, explicit in taken:
            amounts = self._share_rest(slot_type, number, explicit)
            if isinstance(amounts, str):
                broken.setdefault(slot_type.number, _reason(slot_type, None, amounts))
                continue
            ids = self._pick(slot_type, amounts)
            if isinstance(ids, str):
                broken.setdefault(slot_type.number, _reason(slot_type, None, ids))
                continue
            slots.append(SlotSpec(number, slot_type.number, slot_type.kind, amounts, self._disk_of(number), ids))
        return Layout(tuple(slots), broken)

    def _take(self, slot_type: SlotType, slot_id: int) -> dict[str, Amount] | str:
        """The explicit sizes of one more slot, taken from what is left; or the resource that there is too little of."""
        wanted: dict[str, Amount] = {}
        for name in self._resources:
            size = slot_type.size(name)
            if isinstance(size, Auto):
                continue
            wanted[name] = math.floor(self._total(name, slot_id) * size.of_all) if isinstance(size, Share) else size
            if isinstance(size, Share) and name == CPUS and size.of_all:
                wanted[name] = max(1, wanted[name])
            if wanted[name] > self._remaining(name, slot_id):
                return name
        for name in self._resources:
            key = self._key(name, slot_id)
            if name in wanted:
                self._left[key] = self._remaining(name, slot_id) - wanted[name]
            else:
                self._autos[key] = self._autos.get(key, 0) + 1
        return wanted

    def _share_rest(self, slot_type: SlotType, slot_id: int, explicit: Mapping[str, Amount]) -> Amounts | str:
        amounts: dict[str, Amount] = dict(explicit)
        for name in self._resources:
            if name in amounts:
                continue
            key = self._key(name, slot_id)
            each = Fraction(self._remaining(name, slot_id)) / self._autos[key]
            if name in self._customs:  # whole pieces, the first slots get what does not divide
                amounts[name] = math.ceil(each)
                self._left[key] = self._remaining(name, slot_id) - amounts[name]
                self._autos[key] -= 1
                continue
            amounts[name] = math.floor(each)
            if amounts[name] < 1 and name in (CPUS, MEMORY):
                return name
        return Amounts({name: amounts[name] for name in self._resources})

    def _pick(self, slot_type: SlotType, amounts: Amounts) -> dict[str, tuple[str, ...]] | str:
        picked: dict[str, tuple[str, ...]] = {}
        for name, custom in self._customs.items():
            if not custom.ids:
                continue
            allowed = [one for one in self._ids[name] if _may_have(one, slot_type.which.get(name))]
            count = int(amounts.of(name))
            if count > len(allowed):
                return name
            picked[name] = tuple(allowed[:count])
            self._ids[name] = [one for one in self._ids[name] if one not in picked[name]]
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


def _may_have(one: str, constraint: str | None) -> bool:
    """A constraint that is a string names the piece; nothing is known of a piece that an expression could ask for."""
    return constraint is None or constraint.strip('"') == one


def _reason(slot_type: SlotType, made: int | None, resource: str) -> str:
    could = f"only {made} of {slot_type.count}" if made is not None else f"not all {slot_type.count}"
    number = slot_type.number
    return f"Could not create required number of type{number} slots ({could}: not enough {resource})"
