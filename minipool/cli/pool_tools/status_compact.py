"""One line for each machine: a partitionable slot with its dynamic slots, or the static slots together."""

from __future__ import annotations

from collections.abc import Sequence

from minipool.cli.output.print_as import activity_code
from pool.classad import UNDEFINED, ClassAd

_BUSY = ("Matched", "Claimed", "Preempting")


def rolled_up(ads: Sequence[ClassAd]) -> list[ClassAd]:
    """An ad for each machine's line: slots of one type together, what partitionable ones have carved included."""
    lines: dict[tuple[str, int], ClassAd] = {}
    for ad in ads:
        if ad.eval_bool("DynamicSlot") and not ad.eval_bool("PartitionableSlot"):
            continue
        key = ad.eval_str("Machine", ad.eval_str("Name", "")), ad.eval_int("SlotTypeID", 0)
        line = _line(ad)
        if key in lines:
            _fold(lines[key], line)
        else:
            lines[key] = line
    return list(lines.values())


def _line(slot: ClassAd) -> ClassAd:
    line = slot.copy()
    whole = bool(slot.eval_bool("PartitionableSlot"))
    line["ActivityCode"] = _code(slot) if whole else activity_code(slot) or ""
    line["Whole"] = whole
    line["Busy"] = slot.eval_str("State") in _BUSY and not whole
    if whole:
        line["SlotCount"] = slot.eval("NumDynamicSlots")
        memory = _children(slot, "Memory")
        sizes = [size for size in memory if isinstance(size, int | float)]
        line["MaxSlotMemory"] = max(sizes) if sizes else UNDEFINED
    else:
        line["SlotCount"] = 1
        line["MaxSlotMemory"] = slot.eval("Memory")
        if line["Busy"]:
            # The columns are headed FreCpu and FreGb: a busy static slot has nothing free.
            line["Cpus"], line["Memory"] = 0, 0
    return line


def _fold(into: ClassAd, line: ClassAd) -> None:
    """A further slot of the same type on the same machine."""
    for name in ("SlotCount", "RecentJobStarts"):
        into[name] = into.eval_int(name, 0) + line.eval_int(name, 0)
    if line.eval_bool("Whole") or not line.eval_bool("Busy"):
        for name in ("Cpus", "Memory"):
            into[name] = into.eval_int(name, 0) + line.eval_int(name, 0)
    into["MaxSlotMemory"] = max(into.eval_int("MaxSlotMemory", 0), line.eval_int("MaxSlotMemory", 0))
    one, other = into.eval_str("ActivityCode", "").ljust(2), line.eval_str("ActivityCode", "").ljust(2)
    into["ActivityCode"] = "".join(a if a == b else "*" for a, b in zip(one, other, strict=False))


def _children(slot: ClassAd, name: str) -> list[object]:
    found = slot.eval(f"Child{name}")
    return list(found) if isinstance(found, list) else []


def _consensus(values: Sequence[object], winner: str) -> str:
    """What all agree on, or `#`; one that is on its way out decides for all. Empty without values."""
    found: str | None = None
    for value in values:
        if not isinstance(value, str):
            continue
        if value == winner:
            return value
        found = value if found in (None, value) else "#"
    return found or ""


def _code(slot: ClassAd) -> str:
    """State and activity of a partitionable slot and its dynamic slots together."""
    own = (activity_code(slot) or "  ").ljust(2)
    state = _consensus(_children(slot, "State"), "Preempting")
    activity = _consensus(_children(slot, "Activity"), "Vacating")
    both = ClassAd({"State": state, "Activity": activity})
    theirs = (activity_code(both) or "  ").ljust(2)
    child_state = "#" if state == "#" else theirs[0]
    child_activity = "#" if activity == "#" else theirs[1]
    first, second = own[0], own[1]
    # A partitionable slot that has given everything away is what its children are (the rules are condor_status's, in
    # prettyPrint.cpp).
    if own == "Ui" and slot.eval_float("Cpus", 1.0) < 0.1:
        first, second = child_state, child_activity
    elif first == "D" and child_state == "C":
        first = child_state
    first = child_state if child_state == "P" else first
    second = child_activity if child_activity == "v" else second
    if state and first != child_state:
        first = "*"
    if activity and second != child_activity:
        second = "*"
    return first + second
