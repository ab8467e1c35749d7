"""Power states of a machine, as ACPI numbers them, and what its slots have to say of them.

Each slot votes with its HIBERNATE. One that says NONE, or says nothing that is a state, keeps the machine awake; where
all want it to sleep, the deepest state that one of them named counts. A slot that is claimed, or about to be, says NONE
whatever its HIBERNATE is: a machine never sleeps on a job.

Source: HTCondor's manual, "Startd Daemon Configuration Options" (HIBERNATE) and "Power Management".
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final

from pool.base.words import split_list
from pool.slots.state_machine import State


class SleepState(IntEnum):
    """NONE: awake. S1 to S3 keep the memory powered, S4 has it on disk, S5 is off."""

    NONE = 0
    S1 = 1
    S2 = 2
    S3 = 3
    S4 = 4
    S5 = 5


_OTHER_NAMES: Final = {
    "STANDBY": SleepState.S1,
    "SLEEP": SleepState.S1,
    "RAM": SleepState.S3,
    "MEM": SleepState.S3,
    "SUSPEND": SleepState.S3,
    "DISK": SleepState.S4,
    "HIBERNATE": SleepState.S4,
    "SHUTDOWN": SleepState.S5,
    "OFF": SleepState.S5,
}
NAMES: Final = {
    **{state.name: state for state in SleepState},
    **{str(state.value): state for state in SleepState},
    **_OTHER_NAMES,
}
"""What HIBERNATE may say, in capitals."""
_TAKEN: Final = frozenset({State.MATCHED, State.CLAIMED, State.PREEMPTING})


def state_of(value: Any) -> SleepState:
    """The state that an expression's value names, by a word or a number; NONE where it names none."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return NAMES.get(value.strip().upper(), SleepState.NONE) if isinstance(value, str) else SleepState.NONE


def states_of(listed: str) -> frozenset[SleepState]:
    """The states that a list names."""
    return frozenset(map(state_of, split_list(listed))) - {SleepState.NONE}


def vote(slot: State, wanted: Any) -> SleepState:
    """What a slot in this state has to say, whose HIBERNATE has this value."""
    return SleepState.NONE if slot in _TAKEN else state_of(wanted)


def agreed(votes: Iterable[SleepState]) -> SleepState:
    """What becomes of the machine; NONE where there is no slot."""
    found = set(votes)
    return SleepState.NONE if SleepState.NONE in found else max(found, default=SleepState.NONE)


def objection(state: SleepState, supported: frozenset[SleepState], *, wakeable: bool, override: bool) -> str:
    """Why the machine cannot go into the state that its slots agree on; empty: it can."""
    if state not in supported:
        names = ", ".join(one.name for one in sorted(supported)) or "none"
        return f"this machine cannot go into {state.name} (it has {names})"
    if not (wakeable or override):
        return (
            "no packet would wake this machine: its network interface has wake-on-LAN neither on nor ready"
            " (HIBERNATION_OVERRIDE_WOL lets it sleep all the same)"
        )
    return ""


def sleep_attributes(state: SleepState, supported: frozenset[SleepState]) -> dict[str, Any]:
    """What the machine's ads say of its state, and of those that it has."""
    return {
        "HibernationLevel": state.value,
        "HibernationState": state.name,
        "HibernationSupportedStates": ",".join(one.name for one in sorted(supported)),
        "CanHibernate": bool(supported),
    }
