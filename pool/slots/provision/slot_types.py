"""From SLOT_TYPE_<N> and its friends to the slots of a machine.

A slot type says how much of each resource one slot of it has (`sizes.py`), NUM_SLOTS_TYPE_<N> how many slots there are
of it. Without any NUM_SLOTS_TYPE_<N> the machine is NUM_SLOTS (1) equal partitionable slots. What does not fit follows
SLOT_CONFIG_FAILURE_MODE: the slots that fit are made, or none, or the startd gives up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

from pool.base.errors import ClassAdError, ConfigError
from pool.base.words import truth_word
from pool.classad import expr
from pool.slots.provision.divide import Divider, broken_reason
from pool.slots.provision.shape import Hardware, Layout, SlotKind, SlotSpec, SlotType
from pool.slots.provision.sizes import Auto, SizeShare, TypeSizes, parse_sizes

__all__ = [
    "SLOTS_MAX",
    "Auto",
    "FailureMode",
    "Hardware",
    "Layout",
    "SizeShare",
    "SlotKind",
    "SlotSpec",
    "SlotType",
    "TypeSizes",
    "failure_mode",
    "layout",
    "parse_sizes",
    "slot_types",
]

SLOTS_MAX: Final = 10_000

Get = Callable[[str], str | None]
Where = Callable[[str], str]


class FailureMode(StrEnum):
    """What to do about slots that cannot be had: SLOT_CONFIG_FAILURE_MODE."""

    CONTINUE = "CONTINUE"
    CLEAR = "CLEAR"
    ABORT = "ABORT"


_KNOB = re.compile(r"NUM_SLOTS_TYPE_(\d+)\Z", re.IGNORECASE)


def layout(
    names: Iterable[str],
    get: Get,
    hardware: Hardware,
    disk_of: Callable[[int], str] = lambda _: "",
    where: Where = lambda _: "",
) -> Layout:
    """Divide `hardware` as the configuration says. `disk_of` tells the file system of a slot's execute directory,
    `where` the place at which a knob was set."""
    mode = failure_mode(get)
    types, broken = slot_types(names, get, hardware, where)
    made = Divider(hardware, disk_of).divide(types)
    made = Layout(made.slots, dict(sorted({**made.broken, **broken}.items())))
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


def slot_types(
    names: Iterable[str], get: Get, hardware: Hardware, where: Where = lambda _: ""
) -> tuple[list[SlotType], dict[int, str]]:
    """The types of which there shall be slots, by number; and those that cannot be read, with the reason."""
    customs = {custom.name.lower(): custom.name for custom in hardware.customs}
    numbers = sorted({int(found[1]) for name in names if (found := _KNOB.match(name)) and int(found[1]) > 0})
    most = _count("MAX_SLOT_TYPES", get("MAX_SLOT_TYPES") or "10")
    types: list[SlotType] = []
    broken: dict[int, str] = {}
    for number in numbers:
        try:
            if number > most:
                raise ConfigError(f"NUM_SLOTS_TYPE_{number}: MAX_SLOT_TYPES is {most}")
            types.append(_read_type(number, get, customs, where))
        except ConfigError as error:
            broken[number] = broken_reason(number, _with_place(str(error), where(f"SLOT_TYPE_{number}")))
    if numbers:
        return [one for one in types if one.count], broken
    count = min(_count("NUM_SLOTS", get("NUM_SLOTS") or "1"), hardware.cpus)
    if not count:
        return [], {}
    sizes = parse_sizes("SLOT_TYPE_0", get("SLOT_TYPE_0") or "auto", customs)
    return [SlotType(0, _kind(0, get, default=True), count, sizes, f"NUM_SLOTS = {count}")], {}


def _read_type(number: int, get: Get, customs: Mapping[str, str], where: Where) -> SlotType:
    knob = f"SLOT_TYPE_{number}"
    count = _count(f"NUM_SLOTS_TYPE_{number}", get(f"NUM_SLOTS_TYPE_{number}") or "0")
    text = get(knob) or "auto"
    said = _with_place(f"{knob} = {', '.join(text.split(chr(10))).strip()}", where(knob))
    return SlotType(number, _kind(number, get, default=False), count, parse_sizes(knob, text, customs), said)


def _with_place(said: str, place: str) -> str:
    return f"{said}; {place}" if place else said


def _kind(number: int, get: Get, *, default: bool) -> SlotKind:
    text = get(f"SLOT_TYPE_{number}_PARTITIONABLE") or str(default)
    return SlotKind.PARTITIONABLE if truth_word(text) else SlotKind.STATIC


def _count(knob: str, text: str) -> int:
    try:
        count = expr(text).eval()  # a number, or as in `2*$(DETECTED_CORES)`
    except ClassAdError:
        count = None
    if isinstance(count, bool) or not isinstance(count, int):
        raise ConfigError(f"{knob} = {text} is not a whole number") from None
    if not 0 <= count <= SLOTS_MAX:
        raise ConfigError(f"{knob} = {text} is out of range", expected=f"0 to {SLOTS_MAX}")
    return count
