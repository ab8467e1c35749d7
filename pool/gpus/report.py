"""The devices as text: ClassAd attributes for the startd, or configuration for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pool.gpus.device import Device, Fact, Megahertz
from pool.slots.provision.inventory import attribute_of


@dataclass(frozen=True)
class ReportOptions:
    """What shall be shown, and how."""

    properties: bool = False
    extra: bool = False
    dynamic: bool = False
    nested: bool = True
    mixed: bool = False
    tag: str = "GPUs"
    prefix: str = ""
    """Of ids by index and of attributes that all devices share; empty for that of the kind of devices."""
    style: str = "short"
    config: bool = False
    repeat: int = 1
    divide: bool = False
    packed: bool = False
    cron: bool = False
    only: tuple[str, ...] = ()
    """Devices, by index or id, to which the report is limited; none for all."""


def report(devices: Sequence[Device], wanted: ReportOptions) -> list[str]:
    """The lines of the report."""
    shown = [device for device in devices if not wanted.only or _is_meant(device, wanted)]
    ids = [device.ident(wanted.style, wanted.prefix) for device in shown]
    lines = [] if wanted.cron else [_detected(ids, wanted)]
    if wanted.config:
        lines.append(f"NUM_DETECTED_{wanted.tag}={len(_repeated(ids, wanted))}")
    if shown and (wanted.properties or wanted.extra or wanted.dynamic):
        lines += _properties(dict(zip(ids, shown, strict=True)), wanted)
    return lines


def _is_meant(device: Device, wanted: ReportOptions) -> bool:
    names = {str(device.index), f"{wanted.prefix}{device.index}", device.ident("short", wanted.prefix)}
    if device.uuid:
        names |= {device.uuid, f"GPU-{device.uuid}"}
    return any(one in names for one in wanted.only)


def _repeated(ids: Sequence[str], wanted: ReportOptions) -> list[str]:
    if wanted.packed:
        return [one for one in ids for _ in range(wanted.repeat)]
    return list(ids) * wanted.repeat


def _detected(ids: Sequence[str], wanted: ReportOptions) -> str:
    listed = ", ".join(_repeated(ids, wanted))
    if not listed:
        return f"Detected{wanted.tag}=0"
    return f"Detected{wanted.tag}={listed}" if wanted.config else f'Detected{wanted.tag}="{listed}"'


def _properties(devices: Mapping[str, Device], wanted: ReportOptions) -> list[str]:
    """What all have in common once, and then what is each one's own."""
    tables: dict[str, dict[str, Fact]] = {}
    for one, device in devices.items():
        tables[one] = {**device.properties, **(device.extra if wanted.extra else {})}
    common: dict[str, Fact] = {}
    first = next(iter(tables.values()))
    # What all share is told once: a slot's ad holds it for any of its GPUs.
    if not wanted.mixed:
        common = {
            name: fact
            for name, fact in first.items()
            if all(table.get(name) == fact for table in tables.values()) and not _is_divided(name, wanted)
        }
    for one, device in devices.items():
        own = {name: fact for name, fact in tables[one].items() if name not in common}
        memory = own.get("GlobalMemoryMb")
        if wanted.divide and wanted.repeat > 1 and isinstance(memory, int):
            # Several jobs share the device: each is promised its part, and the whole is told beside it.
            own |= {"DeviceMemoryMb": memory, "GlobalMemoryMb": memory // wanted.repeat}
        # Never common, though they may be equal at the moment: they change while the devices work.
        tables[one] = own | (dict(device.dynamic) if wanted.dynamic else {})
    return _nested(common, tables) if wanted.nested else _flat(common, tables, wanted)


def _is_divided(name: str, wanted: ReportOptions) -> bool:
    return wanted.divide and wanted.repeat > 1 and name == "GlobalMemoryMb"


def _nested(common: Mapping[str, Fact], tables: Mapping[str, Mapping[str, Fact]]) -> list[str]:
    lines = [f"Common=[ {_ad(common)}]"] if common else []
    return lines + [f'{attribute_of(one)}=[ id="{one}"; {_ad(table)}]' for one, table in tables.items()]


def _ad(table: Mapping[str, Fact]) -> str:
    return "".join(f"{name}={_written(table[name])}; " for name in sorted(table, key=str.lower))


def _flat(common: Mapping[str, Fact], tables: Mapping[str, Mapping[str, Fact]], wanted: ReportOptions) -> list[str]:
    lines = [f"{wanted.prefix}{name}={_written(common[name])}" for name in sorted(common, key=str.lower)]
    for one, table in tables.items():
        own = sorted(table, key=str.lower)
        lines += [f"{attribute_of(one)}{name}={_written(table[name])}" for name in own]
    return lines


def _written(fact: Fact) -> str:
    if isinstance(fact, bool):
        return str(fact).lower()
    if isinstance(fact, str):
        return '"' + fact.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{fact:.2f}" if isinstance(fact, Megahertz) else str(fact)
