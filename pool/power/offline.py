"""The ad that stands for a slot while its machine sleeps, and what a collector notes in it of the jobs that want it.

Source: HTCondor's manual, "Keeping a ClassAd for a Hibernating Machine"; "Machine ClassAd Attributes"
(MachineLastMatchTime, Offline).
"""

from __future__ import annotations

from typing import Any, Final

from pool.classad import ClassAd
from pool.power.states import SleepState

IDLE_FOR_EVER: Final = 2147483647
"""What HTCondor writes of a keyboard that nobody can have touched."""
LAST_MATCH: Final = "MachineLastMatchTime"
NOTED: Final = (LAST_MATCH, "MachineMatchCount", "OfflineMatches")
"""What is noted of an offline slot, and stays when its ad is given anew."""


def is_offline(ad: ClassAd) -> bool:
    """Whether the ad is of a machine that is not there, and may be woken."""
    return ad.eval_bool("Offline") is True


def offline_ad(slot: ClassAd, state: SleepState) -> ClassAd:
    """The slot's ad for the time of this sleep: free and idle, as a job would find it."""
    asleep: dict[str, Any] = {
        "Offline": True,
        "HibernationLevel": state.value,
        "HibernationState": state.name,
        "State": "Unclaimed",
        "Activity": "Idle",
        "EnteredCurrentState": 0,
        "EnteredCurrentActivity": 0,
        **dict.fromkeys(("LoadAvg", "CondorLoadAvg", "TotalLoadAvg", "TotalCondorLoadAvg"), 0.0),
        "CpuIsBusy": False,
        "CpuBusyTime": 0,
        "KeyboardIdle": IDLE_FOR_EVER,
        "ConsoleIdle": IDLE_FOR_EVER,
    }
    return ClassAd(asleep, parent=slot).flat()


def noted(before: ClassAd) -> dict[str, Any]:
    """What stays of an offline ad when another takes its place."""
    return {name: before[name] for name in before if name in NOTED or name.endswith(f"_{LAST_MATCH}")}


def first_slot(name: str) -> str:
    """The slot whose ad shows when each of its machine was wanted: `slot3@host` is of `slot1@host`.

    Empty where the name has no number, or is that of the first slot.
    """
    own, at, host = name.partition("@")
    prefix = own.rstrip("0123456789_").rstrip("0123456789_")
    first = f"{prefix}1{at}{host}"
    return first if own != prefix and first != name else ""
