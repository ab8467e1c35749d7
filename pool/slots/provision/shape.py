"""What dividing a machine is about: its hardware, slot types, and the slots to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pool.slots.provision.custom import Custom
from pool.slots.provision.resources import Amounts
from pool.slots.provision.sizes import TypeSizes


class SlotKind(StrEnum):
    """How a slot is used; the values are those of the ad's `SlotType`."""

    PARTITIONABLE = "Partitionable"
    DYNAMIC = "Dynamic"
    STATIC = "Static"


@dataclass(frozen=True)
class Hardware:
    """What there is to divide. `disks`: free KiB by execute file system; `volumes`: how large each is."""

    cpus: int
    memory: int
    swap: int
    disks: Mapping[str, int]
    customs: Sequence[Custom] = ()
    volumes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SlotType:
    """What one slot of a type takes, and how many there shall be; `said` is its text and where that was written."""

    number: int
    kind: SlotKind
    count: int
    sizes: TypeSizes
    said: str = ""


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
