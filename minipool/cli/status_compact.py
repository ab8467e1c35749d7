"""One line for each machine: a partitionable slot with its dynamic slots, or the static slots together."""

from __future__ import annotations

from collections.abc import Sequence

from minipool.cli.status_views import activity_code
from pool.classad import ClassAd


def rolled_up(ads: Sequence[ClassAd]) -> tuple[list[ClassAd], list[ClassAd]]:
    """An ad for each machine's line, and the slots that the totals count."""
    machines: dict[str, list[ClassAd]] = {}
    for ad in ads:
        machines.setdefault(ad.eval_str("Machine", ad.eval_str("Name", "")), []).append(ad)
    lines = [line for slots in machines.values() for line in _lines(slots)]
    counted = [ad for ad in ads if not (ad.eval_bool("PartitionableSlot") and ad.eval_int("Cpus", 1) <= 0)]
    return lines, counted


def _lines(slots: Sequence[ClassAd]) -> list[ClassAd]:
    wholes = [ad for ad in slots if ad.eval_bool("PartitionableSlot")]
    if not wholes:
        return [_static(slots)]
    lines = []
    for whole in wholes:
        number = whole.eval_int("SlotID", 1)
        parts = [ad for ad in slots if ad.eval_bool("DynamicSlot") and ad.eval_int("SlotID", number) == number]
        line = whole.copy()
        line["SlotCount"] = len(parts)
        busy = parts if whole.eval_int("Cpus", 1) <= 0 and parts else [whole, *parts]
        line["ActivityCode"] = _code(busy)
        if parts:
            line["MaxSlotMemory"] = max(ad.eval_int("Memory", 0) for ad in parts)
        line["RecentJobStarts"] = whole.eval_int("RecentJobStarts", 0)
        lines.append(line)
    return lines


def _static(slots: Sequence[ClassAd]) -> ClassAd:
    line = slots[0].copy()
    line["SlotCount"] = len(slots)
    for name in ("Cpus", "Memory"):
        line[f"TotalSlot{name}"] = sum(ad.eval_int(f"TotalSlot{name}", 0) or ad.eval_int(name, 0) for ad in slots)
        line[name] = sum(ad.eval_int(name, 0) for ad in slots if ad.eval_str("State") == "Unclaimed")
    line["ActivityCode"] = _code(slots)
    line["MaxSlotMemory"] = max(ad.eval_int("Memory", 0) for ad in slots)
    line["RecentJobStarts"] = sum(ad.eval_int("RecentJobStarts", 0) for ad in slots)
    return line


def _code(slots: Sequence[ClassAd]) -> str:
    """State and activity that all slots share; `#` for differing activities, `**` for differing states."""
    codes = {activity_code(ad) or "~~" for ad in slots}
    if len(codes) == 1:
        return codes.pop()
    states = {code[0] for code in codes}
    return f"{states.pop()}#" if len(states) == 1 else "**"
