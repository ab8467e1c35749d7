"""What a program says that takes stock of a custom resource: MACHINE_RESOURCE_INVENTORY_<name>.

DetectedGPUs="GPU-a0223334, GPU-b1223334"     the ids, or how many there are
OfflineGPUs="GPU-b1223334"                    those of them that are out of use
Common=[ Capability=8.0; ]                    properties of all
GPU_a0223334=[ id="GPU-a0223334"; ... ]       properties of one, under its id as an attribute name

Every other line is an attribute of the whole machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pool.base.errors import ClassAdError, ConfigError
from pool.base.words import split_list
from pool.classad import ClassAd, Expr, expr
from pool.slots.provision.resources import Amount, exact

_LINE = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*(.*?)\s*\Z")


@dataclass(frozen=True, slots=True)
class Inventory:
    """What there is of one resource."""

    count: Amount = 0
    ids: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    properties: Mapping[str, ClassAd] = field(default_factory=dict)
    facts: Mapping[str, Expr] = field(default_factory=dict)
    said: str | None = None


def attribute_of(one: str) -> str:
    """An id as the name of an attribute: GPU-a0223334 is GPU_a0223334."""
    return re.sub(r"\W", "_", one)


def read_inventory(name: str, printed: str) -> Inventory:
    """What the program of resource `name` printed; ConfigError names the line that cannot be read."""
    values: dict[str, tuple[str, Expr]] = {}
    for number, line in enumerate(printed.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(("#", "-")):
            continue
        found = _LINE.match(line)
        if found is None:
            raise _wrong(name, number, line, "expected ATTRIBUTE = VALUE")
        try:
            values[found[1].lower()] = found[1], expr(found[2])
        except ClassAdError as error:
            raise _wrong(name, number, line, error.message) from None
    detected = values.pop(f"detected{name.lower()}", None)
    if detected is None:
        raise ConfigError(
            f"MACHINE_RESOURCE_INVENTORY_{name}: its program printed no Detected{name}",
            expected=f'Detected{name} = 4, or Detected{name} = "id, id"',
        )
    offline = values.pop(f"offline{name.lower()}", None)
    ids, count, said = _detected(name, detected[1])
    return Inventory(
        count=count,
        ids=ids,
        offline=tuple(_words(offline[1].eval())) if offline is not None else (),
        properties=_properties(ids, values),
        facts=dict(values.values()),
        said=said,
    )


def _detected(name: str, said: Expr) -> tuple[tuple[str, ...], Amount, str | None]:
    value = said.eval()
    if isinstance(value, str):
        return tuple(_words(value)), 0, value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(
            f"MACHINE_RESOURCE_INVENTORY_{name}: Detected{name} = {said} is neither an amount nor a string of ids"
        )
    return (), exact(value), None


def _properties(ids: tuple[str, ...], values: dict[str, tuple[str, Expr]]) -> dict[str, ClassAd]:
    """The ad of each piece; what is used for it is taken out of `values`."""
    common = _taken_ad(values, "common")
    made: dict[str, ClassAd] = {}
    for one in dict.fromkeys(ids):
        own = _taken_ad(values, attribute_of(one).lower())
        if own is None and common is None:
            continue
        ad = ClassAd({"Id": one})
        for part in (common, own):
            if part is not None:
                for key in part:
                    ad[key] = part[key]
        ad["Id"] = one
        made[one] = ad
    return made


def _taken_ad(values: dict[str, tuple[str, Expr]], key: str) -> ClassAd | None:
    found = values.get(key)
    value = found[1].eval() if found is not None else None
    if not isinstance(value, ClassAd):
        return None
    del values[key]
    return value


def _words(value: object) -> list[str]:
    return split_list(value) if isinstance(value, str) else []


def _wrong(name: str, number: int, line: str, why: str) -> ConfigError:
    return ConfigError(
        f"MACHINE_RESOURCE_INVENTORY_{name}: line {number} of what its program printed, {line.strip()[:80]!r}: {why}"
    )
