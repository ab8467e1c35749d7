"""What an administrator changes in a machine's ads by condor_update_machine_ad, until the startd starts again.

Changing HasVM takes the virtual machine universe off, with a reason, or brings it back.
"""

from __future__ import annotations

from typing import Any, Final

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.execute.vm import taken_off

FIXED: Final = frozenset(
    name.lower()
    for name in (
        "Name", "Machine", "MyAddress", "MyType", "SlotID", "State", "Activity", "ClaimId", "ClaimIds", "Capability",
        "PublicClaimId", "SlotType", "PartitionableSlot", "DynamicSlot", "Requirements",
    )
)  # fmt: skip
"""What slots are, and cannot be made into by a tool."""

OFFLINE: Final = ("OfflineUniverses", "VMOfflineTime", "VMOfflineReason")


def overridden(before: dict[str, Any], update: ClassAd, *, now: float) -> dict[str, Any]:
    """The overrides after `update`; UserError when it touches what a slot is."""
    fixed = [name for name in update if name.lower() in FIXED]
    if fixed:
        raise UserError(f"{', '.join(fixed)} cannot be changed", expected="attributes that describe the machine")
    made = {name: value for name, value in before.items() if name.lower() not in {one.lower() for one in update}}
    made.update(update.items())
    has_vm = update.eval("HasVM") if "HasVM" in update else None
    if has_vm is True:
        made = {name: value for name, value in made.items() if name not in OFFLINE}
    elif has_vm is False:
        made.update(taken_off(update.eval_str("VMOfflineReason") or "condor_update_machine_ad", now))
    return made
