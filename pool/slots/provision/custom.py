"""Custom resources of a machine: MACHINE_RESOURCE_<name>, an amount or a list of the things themselves.

MACHINE_RESOURCE_Cogs = 16             sixteen, all alike
MACHINE_RESOURCE_GPUs = CUDA0 CUDA1    two, and a slot is told which it has (AssignedGPUs)

MACHINE_RESOURCE_INVENTORY_<name> is a program that prints this instead (`inventory.py`), with properties of each piece
where it knows some. An id that is there twice is one thing that two slots may share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pool.base.errors import ConfigError
from pool.classad import ClassAd, Expr
from pool.slots.provision.inventory import Inventory, attribute_of
from pool.slots.provision.resources import Amount, exact

_KNOB = re.compile(r"MACHINE_RESOURCE_(?!NAMES$|INVENTORY_)(\w+)\Z", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(\.\d+)?\Z")


@dataclass(frozen=True, slots=True)
class Custom:
    """One kind of custom resource: how much there is, and the ids when its pieces have names."""

    name: str
    total: Amount
    ids: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    properties: Mapping[str, ClassAd] = field(default_factory=dict)
    """What is known of a piece, by its id."""
    facts: Mapping[str, Expr] = field(default_factory=dict)
    """What its inventory says of the machine as a whole."""
    said: str | None = None
    """The list of ids as the inventory wrote it."""

    @property
    def usable(self) -> Amount:
        """What slots may be given: all but what is offline."""
        return len(self.usable_ids) if self.ids else self.total

    @property
    def usable_ids(self) -> tuple[str, ...]:
        """The ids that slots may be given."""
        return tuple(one for one in self.ids if one not in self.offline)

    def with_offline(self, offline: Iterable[str]) -> Custom:
        """The same resource while other pieces are out of use."""
        return Custom(self.name, self.total, self.ids, tuple(offline), self.properties, self.facts, self.said)

    def piece(self, one: str) -> ClassAd:
        """What is known of a piece: its Id at least."""
        return self.properties.get(one) or ClassAd({"Id": one})

    def piece_name(self, one: str) -> str:
        """The attribute that a piece's ad has in the slot's: GPUs_GPU_a0223334."""
        return f"{self.name}_{attribute_of(one)}"


def custom_resources(
    names: Iterable[str], get: Callable[[str], str | None], inventories: Mapping[str, Inventory] | None = None
) -> list[Custom]:
    """The custom resources that the configuration names, in order of name.

    `inventories` maps a resource to what its MACHINE_RESOURCE_INVENTORY_<name> program said.
    """
    found = {match[1].lower(): match[1] for name in names if (match := _KNOB.match(name))}
    made: dict[str, Custom] = {}
    for key, name in found.items():
        text = get(f"MACHINE_RESOURCE_{name}") or ""
        if text.strip():
            made[key] = _configured(name, text, get)
    for name, inventory in (inventories or {}).items():
        made[name.lower()] = _taken(name, inventory, get)
    if chosen := get("MACHINE_RESOURCE_NAMES"):
        wanted = {word.lower() for word in words(chosen)}
        made = {key: custom for key, custom in made.items() if key in wanted}
    return [made[key] for key in sorted(made)]


def offline_ids(custom: Custom, get: Callable[[str], str | None]) -> tuple[str, ...]:
    """The pieces that OFFLINE_MACHINE_RESOURCE_<name> takes out of use; ids that do not exist are ignored."""
    listed = words(get(f"OFFLINE_MACHINE_RESOURCE_{custom.name}") or "")
    return tuple(one for one in dict.fromkeys(listed) if one in custom.ids)


def _configured(name: str, text: str, get: Callable[[str], str | None]) -> Custom:
    listed = words(text)
    if len(listed) == 1 and _NUMBER.match(listed[0]):
        return Custom(name, exact(listed[0]))
    twice = [one for one, count in Counter(listed).items() if count > 1]
    if twice:
        raise ConfigError(f"MACHINE_RESOURCE_{name} = {text}: {twice[0]} is there twice", expected="different ids")
    custom = Custom(name, len(listed), tuple(listed))
    return custom.with_offline(offline_ids(custom, get))


def _taken(name: str, inventory: Inventory, get: Callable[[str], str | None]) -> Custom:
    ids = inventory.ids
    custom = Custom(
        name,
        len(ids) if ids else inventory.count,
        ids,
        properties=inventory.properties,
        facts=inventory.facts,
        said=inventory.said,
    )
    offline = tuple(one for one in inventory.offline if one in ids)
    return custom.with_offline(offline or offline_ids(custom, get))


def words(text: str) -> list[str]:
    """Words between blanks or commas, perhaps in one pair of quotes."""
    return [word for word in re.split(r"[\s,]+", text.strip().strip('"')) if word]
