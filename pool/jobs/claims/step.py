"""What an event makes of a claim: `step` takes the row of the table, and notes what is learnt.

Messages may be lost, repeated and late, so an event for which there is no row changes nothing but what is known.
"""

from __future__ import annotations

from dataclasses import replace

from pool.jobs.claims.events import (
    Asked,
    Event,
    GivenUp,
    Granted,
    Held,
    JobGiven,
    JobOver,
    LinkLost,
    NotStarted,
    ReleaseLost,
    Renewed,
    Spoiled,
    Spoken,
    Started,
    Vacating,
)
from pool.jobs.claims.states import Busy, ClaimLife, Ended, Idle, Over, Releasing, Requesting, State
from pool.jobs.claims.table import Effect, find


def step(life: ClaimLife, event: Event, *, now: float) -> tuple[ClaimLife, tuple[Effect, ...]]:
    """The claim after `event`; what must be done, in order."""
    if life.is_over:
        return life, ()
    move, known = find(life, event, now), _learn(life, event, now)
    if move is None:
        return known, ()
    if move.end is not None:
        known = replace(known, state=_enter(move.end, known, event))
    return known, move.effects


def taken_up(activation: str, *, lease_s: float, renewed_at: float, runs: bool) -> ClaimLife:
    """A claim of an earlier life of the schedd, which is to be asked after.

    `runs`: it has the job of this execution; else it is given back, and the execution has not reported (empty: none).
    """
    state: State = Busy(activation, asked=True) if runs else Releasing(told=False)
    return ClaimLife(lease_s, renewed_at, state, is_here=False, unreported="" if runs else activation)


# ---- inside


def _enter(end: type[State], life: ClaimLife, event: Event) -> State:
    """The state that a move leads to."""
    if end is Busy:
        assert isinstance(event, JobGiven)
        return Busy(event.activation)
    if end is Releasing:
        was = life.state if isinstance(life.state, Releasing) else Releasing()
        return Releasing(
            was.fast or isinstance(event, GivenUp), told=life.is_here and not isinstance(event, ReleaseLost)
        )
    return _PLAIN[end]


_PLAIN: dict[type[State], State] = {one: one() for one in (Requesting, Idle, Ended, Over)}


def _learn(life: ClaimLife, event: Event, now: float) -> ClaimLife:
    """What is known of the claim after an event, besides its state."""
    match event:
        case Granted(lease_s=lease_s):
            lease_s = min(life.lease_s, lease_s) if lease_s > 0 else life.lease_s  # the job's is the longest
            return replace(life, lease_s=lease_s, renewed_at=now)
        case JobGiven(lease_s=lease_s):  # the longer of the two, until the startd says which of them it goes by
            return replace(life, lease_s=max(life.lease_s, lease_s))
        case Started(lease_s=lease_s) if lease_s > 0:
            return replace(life, lease_s=lease_s)
        case Renewed() | Spoken():
            return replace(life, renewed_at=now)
        case Held():
            return replace(life, renewed_at=now, is_here=True)
        case LinkLost():
            return replace(life, is_here=False)
        case Spoiled() | Vacating():
            return replace(life, takes_jobs=False)
        case Asked() if isinstance(life.state, Busy):
            return replace(life, state=replace(life.state, asked=True))
        case NotStarted() if isinstance(life.state, Busy):
            return replace(life, state=replace(life.state, asked=False))
        case GivenUp():
            return replace(life, unreported=_may_run(life))
        case JobOver(reported=reported, slot_is_good=is_good):
            unreported = "" if reported else _may_run(life)
            return replace(life, unreported=unreported, takes_jobs=life.takes_jobs and is_good)
    return life


def _may_run(life: ClaimLife) -> str:
    """What may have been started there last, and has not reported."""
    state = life.state
    return state.activation if isinstance(state, Busy) and state.asked else life.unreported
