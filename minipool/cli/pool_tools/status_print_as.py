"""The functions that PRINTAS may name in tables of condor_status alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from minipool.cli.output import print_as
from minipool.cli.output.mask import MISSING, Column, PrintAs
from pool.classad import UNDEFINED, ClassAd


def _slot_letter(of_static: str) -> Callable[[Any, ClassAd, Column], Any]:
    def render(value: Any, _: ClassAd, __: Column) -> Any:
        kind = value if isinstance(value, str) else ""
        return {"Static": of_static, "Partitionable": " ", "Dynamic": "d" if of_static == "s" else "D"}.get(
            kind, kind[:1]
        )

    return render


def _dynamic_slots(value: Any, ad: ClassAd, _: Column) -> Any:
    return 1 if value is UNDEFINED and "DynamicSlot" not in ad else value


def gpus(ad: ClassAd) -> list[ClassAd]:
    """What is known of each of the slot's GPUs, where that is more than their names."""
    known = ad.eval("AvailableGPUs")
    return [one for one in known if isinstance(one, ClassAd)] if isinstance(known, list) else []


def _range_of(name: str, show: Callable[[float, float], str]) -> Callable[[Any, ClassAd, Column], Any]:
    def render(_: Any, ad: ClassAd, column: Column) -> Any:
        amounts = [amount for one in gpus(ad) if (amount := one.eval_float(name)) is not None]
        return show(min(amounts), max(amounts)).rjust(column.width) if amounts and max(amounts) > 0 else MISSING

    return render


def _capability(least: float, most: float) -> str:
    return f"{least:.1f} to {most:.1f}" if least < most else f"{most:.1f}"


def _memory(least: float, most: float) -> str:
    least, most = least / 1024, most / 1024
    return f"{least:.1f} to {most:.1f} GB" if least < most else f"{most:.1f} GB"


def _device_names(_: Any, ad: ClassAd, __: Column) -> Any:
    names = sorted({name for one in gpus(ad) if (name := one.eval_str("DeviceName"))})
    return ",".join(names) if names else MISSING


def _properties(_: Any, ad: ClassAd, column: Column) -> Any:
    parts = [render(None, ad, column) for render in (_device_names, *_RANGES)]
    return ", ".join(part.strip() for part in parts if isinstance(part, str))


def _total_gpus(_: Any, ad: ClassAd, column: Column) -> Any:
    assigned = ad.eval_str("AssignedGPUs")
    if assigned is None:
        return MISSING
    ids = [one.lower() for one in print_as.members(assigned) or []]
    offline = [one for one in print_as.members(ad.eval("OfflineGPUs")) or [] if str(one).lower() in ids]
    return (f"{len(ids):4d}-{len(offline)}" if offline else f"{len(ids):4d}").ljust(column.width)


def _broken_reasons(value: Any, ad: ClassAd, column: Column) -> Any:
    """A line for each thing that broke: what it is, and why."""
    if not isinstance(value, list):
        return MISSING
    stored = ad.get("BrokenReasons")
    names = stored if isinstance(stored, list) and len(stored) == len(value) else value
    lines = []
    for at, (name, reason) in enumerate(zip(names, value, strict=True), 1):
        if not isinstance(reason, str):
            continue
        # The expression names the resource that broke (SlotType1BrokenReason); its value is only the reason.
        text = getattr(name, "old_text", "")
        tag = text.partition("BrokenReason")[0] if "BrokenReason" in text else str(at)
        lines.append(f"{tag:<12.12} {reason}")
    return "\n".join(lines)


_RANGES: Final = (_range_of("Capability", _capability), _range_of("GlobalMemoryMB", _memory))
_NEEDS: Final = ("AssignedGPUs", "AvailableGPUs", "OfflineGPUs")
FUNCTIONS: Final[Mapping[str, PrintAs]] = {
    **print_as.FUNCTIONS,
    "BROKEN_REASONS_VECTOR": PrintAs("v", render=_broken_reasons, needs=("BrokenReasons", "BrokenSlots")),
    "GPUS_CAPS": PrintAs("v", render=_RANGES[0], needs=_NEEDS),
    "GPUS_MEM": PrintAs("v", render=_RANGES[1], needs=_NEEDS),
    "GPUS_NAMES": PrintAs("v", render=_device_names, needs=_NEEDS),
    "GPUS_PROPERTIES": PrintAs("v", render=_properties, needs=_NEEDS),
    "NUM_DSLOTS": PrintAs("v", render=_dynamic_slots, printf="%4d", needs=("DynamicSlot",)),
    "SLOT_COUNT_TAG": PrintAs("v", render=_slot_letter("S")),
    "SLOT_TYPE_LETTER": PrintAs("v", render=_slot_letter("s")),
    "TOTAL_GPUS": PrintAs("v", render=_total_gpus, needs=("AssignedGPUs", "OfflineGPUs")),
}
