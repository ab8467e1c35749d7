"""Why a job has to leave its slot, and how: what the slot remembers of it, and the event that makes it so.

Nothing here moves a slot: whoever calls hands the event to the loop.
"""

from __future__ import annotations

import math
from typing import Final

from daemons.startd.slots.slot import Slot
from pool.slots.state_machine import Activity, Event, EvictionCause, State, can, leave
from protocol.messages.common import StopHow

WHY_DRAIN: Final = "the machine is draining"
WHY_PREEMPT: Final = "PREEMPT expression evaluated to True"
WHY_RANK: Final = "Preempted for a higher Ranked job"
WHY_PRIORITY: Final = "Preempted for a Priority user"
WHY_RELEASED: Final = "the schedd released the claim"


def give_up(slot: Slot, reason: str, how: StopHow, *, retire: bool = False, by_holder: bool = False) -> Event | None:
    """The slot is taken from its claim for good; what happens to it now, if anything does at once.

    `retire` grants the job its retirement, PEACEFUL all its time. The owner's policy says when that is over, so it is
    to be asked then.
    """
    if slot.claim is None:
        return None
    if by_holder and slot.pending is not None and slot.state.leaving is EvictionCause.BETTER_CLAIM:
        # It is needed no more: the better claim that waits for it need not wait for retirement.
        slot.retirement_cap = 0.0
        return _if_can(slot, Event.KILL) if how is StopHow.FAST else None
    slot.state = leave(slot.state, EvictionCause.FOR_GOOD)
    refuse_pending(slot, reason)
    slot.why = slot.why or reason
    if how is StopHow.FAST:
        slot.retirement_cap = 0.0
        return _if_can(slot, Event.KILL)
    if how is StopHow.PEACEFUL and slot.busy and not by_holder:  # a schedd cannot grant itself more time
        slot.retirement_cap = math.inf
        return _if_can(slot, Event.PREEMPT)
    if slot.state.state is not State.CLAIMED:
        return None
    slot.retirement_cap = None if retire or how is StopHow.PEACEFUL else 0.0
    if slot.busy:
        return _if_can(slot, Event.PREEMPT)
    return _if_can(slot, Event.RELEASE if by_holder else Event.VACATE)


def make_room(slot: Slot, *, ranked: bool) -> Event | None:
    """A better claim waits for this slot, which the owner ranks higher or no lower; what happens to it now."""
    slot.state = leave(slot.state, EvictionCause.BETTER_CLAIM)
    slot.why = WHY_RANK if ranked else WHY_PRIORITY
    return _if_can(slot, Event.PREEMPT if slot.busy else Event.VACATE)


def stays_after_all(slot: Slot) -> Event | None:
    """What the job was to leave for is gone: it goes on, unless it was asked to leave already."""
    if can(slot.state, Event.PREEMPTION_OVER):
        slot.why = ""
        return Event.PREEMPTION_OVER
    if slot.state.where == (State.CLAIMED, Activity.SUSPENDED):
        slot.why, slot.state = "", leave(slot.state, EvictionCause.NO)
    elif slot.state.leaving is EvictionCause.BETTER_CLAIM:
        slot.state = leave(slot.state, EvictionCause.FOR_GOOD)
    return None


def refuse_pending(slot: Slot, reason: str) -> None:
    """The claim that waits for the slot does not get it."""
    if slot.pending is not None:
        slot.pending.settle(False, reason)
        slot.pending = None


def _if_can(slot: Slot, event: Event) -> Event | None:
    return event if can(slot.state, event) else None
