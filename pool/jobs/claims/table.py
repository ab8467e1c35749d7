"""What a claim may come to next: every move is a row of MOVES, and nothing else moves one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pool.jobs.claims.events import (
    EndedThere,
    Event,
    Frozen,
    GivenUp,
    Granted,
    Held,
    JobGiven,
    JobOver,
    LinkLost,
    NotHeld,
    OfJob,
    Refused,
    ReleaseLost,
    StarterGone,
    Unneeded,
    Unreached,
    Vacating,
)
from pool.jobs.claims.states import Busy, ClaimLife, Ended, Idle, Over, Releasing, Requesting, State


class Effect(StrEnum):
    """What the schedd must do because of a move."""

    KEEP = "write the claim down, and keep it alive"
    WITHDRAW = "tell the startd that the slot is not wanted any more"
    RELEASE = "tell the startd that the slot is given back"
    PASS_ON = "tell the execution"
    FORGET = "forget the claim"


class Given(StrEnum):
    """What a move may depend on besides state and event."""

    GOOD = "another job may have the slot"
    CURRENT = "the present execution is meant"
    HERE = "the startd can be reached"
    UNTOLD = "the startd may not have been told"
    LEASE_OVER = "it has not heard of its schedd for a lease"


_HOLDS: Final[Mapping[Given, Callable[[ClaimLife, Event, float], bool]]] = MappingProxyType(
    {
        Given.GOOD: lambda life, _, now: life.takes_jobs,
        Given.CURRENT: lambda life, event, now: (
            isinstance(life.state, Busy)
            and (
                (isinstance(event, OfJob) and event.activation in ("", life.state.activation))
                or (isinstance(event, Held) and event.ran == life.state.activation)
            )
        ),
        Given.HERE: lambda life, _, now: life.is_here,
        Given.UNTOLD: lambda life, _, now: isinstance(life.state, Releasing) and not life.state.told,
        Given.LEASE_OVER: lambda life, _, now: now >= life.renewed_at + life.lease_s,
    }
)


@dataclass(frozen=True, slots=True)
class Move:
    """One row: from these states, at these events, to that state (None: the same), with these effects, if `given`."""

    start: tuple[type[State], ...]
    events: tuple[type[Event], ...]
    end: type[State] | None
    effects: tuple[Effect, ...] = ()
    given: Given | None = None


_F: Final = Effect
_ASKED_FOR, _IDLE, _BUSY, _ENDED, _LEAVES = (Requesting,), (Idle,), (Busy,), (Ended,), (Releasing,)
_UNUSED: Final = (Idle, Releasing)
_OURS: Final = (Requesting, Idle, Busy)
_GOOD, _CURRENT, _HERE = Given.GOOD, Given.CURRENT, Given.HERE
_UNTOLD, _LEASE_OVER = Given.UNTOLD, Given.LEASE_OVER

# fmt: off
MOVES: Final[tuple[Move, ...]] = (
    #    from        event                              to          what the schedd does    only if
    Move(_ASKED_FOR, (Granted,),                        Idle,       (_F.KEEP,)),
    Move(_ASKED_FOR, (Refused, EndedThere),             Over,       (_F.FORGET,)),
    Move(_ASKED_FOR, (Unneeded,),                       None,       (_F.WITHDRAW,)),

    Move(_IDLE,      (JobGiven,),                       Busy,       (),                     _GOOD),
    Move(_BUSY,      (Vacating, Frozen, StarterGone),   None,       (_F.PASS_ON,),          _CURRENT),
    Move(_BUSY,      (Held,),                           None,       (_F.PASS_ON,),          _CURRENT),
    Move(_BUSY,      (JobOver,),                        Idle),

    Move(_BUSY,      (EndedThere, NotHeld),             Ended,      (_F.PASS_ON,)),
    Move(_BUSY,      (Unreached,),                      Ended,      (_F.PASS_ON,),          _LEASE_OVER),
    Move(_BUSY,      (LinkLost, Unreached),             None,       (_F.PASS_ON,)),
    Move(_ENDED,     (Unneeded, GivenUp),               Over,       (_F.FORGET,)),

    Move(_IDLE,      (Unneeded,),                       Releasing,  (_F.RELEASE,),          _HERE),
    Move(_IDLE,      (Unneeded,),                       Releasing),
    Move(_OURS,      (GivenUp,),                        Releasing,  (_F.RELEASE,),          _HERE),
    Move(_OURS,      (GivenUp,),                        Releasing),
    Move(_LEAVES,    (ReleaseLost, LinkLost),           Releasing),
    Move(_LEAVES,    (Held,),                           Releasing,  (_F.RELEASE,),          _UNTOLD),
    Move(_UNUSED,    (EndedThere, NotHeld),             Over,       (_F.FORGET,)),
    Move(_UNUSED,    (Unreached,),                      Over,       (_F.FORGET,),           _LEASE_OVER),
)
# fmt: on


def _by_key() -> dict[tuple[type[State], type[Event]], tuple[Move, ...]]:
    keys = {(start, event) for move in MOVES for start in move.start for event in move.events}
    return {key: tuple(move for move in MOVES if key[0] in move.start and key[1] in move.events) for key in keys}


_TABLE: Final = _by_key()


def find(life: ClaimLife, event: Event, now: float) -> Move | None:
    """The row that this event takes here; None when there is none."""
    for move in _TABLE.get((type(life.state), type(event)), ()):
        if move.given is None or _HOLDS[move.given](life, event, now):
            return move
    return None
