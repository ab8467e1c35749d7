"""What a startd's word about a claim means, and what the execution there hears of that and of the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pool.classad import ClassAd
from pool.jobs.changes import End, StopReason
from pool.jobs.claims.events import (
    EndedThere,
    Event,
    Frozen,
    Held,
    LinkLost,
    NotHeld,
    StarterGone,
    Unreached,
    Vacating,
)
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import vacate_code
from pool.jobs.vocabulary.states import JobEvent, allowed
from protocol.messages.offers import ClaimChange, ClaimChanged

if TYPE_CHECKING:
    from daemons.schedd.core.core import Core
    from daemons.schedd.execution.shadow import Shadow

LEASE_OVER: Final = "Job disconnected too long: JobLeaseDuration expired"


def said(message: ClaimChanged) -> Event:
    """What has happened, by a startd's word."""
    change, reason = message.change, message.reason
    match change:
        case ClaimChange.VACATING:
            return Vacating(message.activation, reason, message.hold_code, message.hold_subcode)
        case ClaimChange.RELEASED:
            return EndedThere(reason)
        case ClaimChange.STARTER_GONE:
            return StarterGone(message.activation, reason)
    return Frozen(message.activation, suspended=change is ClaimChange.SUSPENDED)


def pass_on(core: Core, shadow: Shadow, event: Event) -> None:
    """Tell the execution what has happened to its claim."""
    match event:
        case Vacating(reason=reason, hold_code=hold_code, hold_subcode=hold_subcode):
            shadow.vacated(StopReason(reason, vacate_code(reason)))
            if hold_code and allowed(shadow.job.status, JobEvent.HOLD):
                core.hold(shadow.job, reason, hold_code, hold_subcode)
        case EndedThere(reason=reason):
            why = StopReason(reason, vacate_code(reason))
            shadow.nothing_runs(End(Ending.EVICTED, ClassAd(), reason), why)
        case Frozen(suspended=suspended):
            shadow.frozen(suspended)
        case StarterGone(reason=reason):
            shadow.nothing_runs(End(Ending.FAILED, ClassAd(), reason or "The starter ended without a report"))
        case LinkLost(reason=reason):
            shadow.slot_lost(reason)
        case Held(activation=activation, known=known):
            shadow.slot_came_back(activation, known)
        case NotHeld(reason=reason):
            shadow.is_lost(reason)
        case Unreached():
            shadow.slot_away() if shadow.claim.life.is_held else shadow.is_lost(LEASE_OVER)
