"""Custom resources of a machine: MACHINE_RESOURCE_<name>, an amount or a list of the things themselves.

MACHINE_RESOURCE_Cogs = 16             sixteen, all alike
MACHINE_RESOURCE_GPUs = CUDA0 CUDA1    two, and a slot is told which it has (AssignedGPUs)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pool.errors import ConfigError
from pool.slots.resources import Amount, exact

_KNOB = re.compile(r"MACHINE_RESOURCE_(?!NAMES$|INVENTORY_)(\w+)\Z", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(\.\d+)?\Z")


@dataclass(frozen=True, slots=True)
class Custom:
    """One kind of custom resource: how much there is, and the ids when its pieces have names."""

    name: str
    total: Amount
    ids: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()

    @property
    def usable(self) -> Amount:
        """What slots may be given: all but what is offline."""
        return self.total - len(self.offline)

    @property
    def usable_ids(self) -> tuple[str, ...]:
        """The ids that slots may be given."""
        return tuple(one for one in self.ids if one not in self.offline)


def custom_resources(
    names: Iterable[str], get: Callable[[str], str | None], inventories: Mapping[str, str] | None = None
) -> list[Custom]:
    """The custom resources that the configuration names, in order of name.

    `inventories` maps a resource to what its MACHINE_RESOURCE_INVENTORY_<name> script printed.
    """
    found = {match[1].lower(): match[1] for name in names if (match := _KNOB.match(name))}
    texts = {key: (name, get(f"MACHINE_RESOURCE_{name}") or "") for key, name in found.items()}
    for name, printed in (inventories or {}).items():
        texts[name.lower()] = (name, _inventory(name, printed))
    if (chosen := get("MACHINE_RESOURCE_NAMES")) is not None:
        wanted = {word.lower() for word in _words(chosen)}
        texts = {key: value for key, value in texts.items() if key in wanted}
    return [_custom(name, text, get) for _, (name, text) in sorted(texts.items()) if text.strip()]


def _custom(name: str, text: str, get: Callable[[str], str | None]) -> Custom:
    words = _words(text)
    if len(words) == 1 and _NUMBER.match(words[0]):
        return Custom(name, exact(words[0]))
    if len(set(words)) != len(words):
        raise ConfigError(f"MACHINE_RESOURCE_{name} = {text}: an id is there twice", expected="different ids")
    offline = tuple(one for one in _words(get(f"OFFLINE_MACHINE_RESOURCE_{name}") or "") if one in words)
    return Custom(name, len(words), tuple(words), offline)


def _inventory(name: str, printed: str) -> str:
    """What a script's `Detected<name> = ...` line says: an amount, or ids in one quoted, comma-separated string."""
    line = re.compile(rf"\s*Detected{re.escape(name)}\s*=\s*(.*?)\s*\Z", re.IGNORECASE)
    for text in printed.splitlines():
        if found := line.match(text):
            return found[1].strip('"')
    return ""


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", text.strip().strip('"')) if word]
