"""What an execution may come to next: every move is a row of MOVES, and nothing else moves one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pool.jobs.execution.events import (
    CannotStart,
    ClaimLost,
    Event,
    Executing,
    NoReport,
    NothingRuns,
    NotTold,
    PatienceOver,
    PolicyDue,
    Prepared,
    Reported,
    Said,
    Silence,
    SlotRunsIt,
    SlotRunsNothing,
    Started,
    StarterHere,
    Stop,
    Turn,
    UpToDate,
    Vacated,
)
from pool.jobs.execution.states import Disconnected, Execution, Known, Leaving, Over, Running, Starting, State
from pool.jobs.vocabulary.endings import Ending


class Effect(StrEnum):
    """What the schedd must do because of a move."""

    ASK = "ask the startd to start it"
    COUNT_START = "count the start"
    NOTE = "note what was said"
    ASK_POLICY = "ask its periodic policy"
    LOG_AWAY = "log that it is disconnected"
    LOG_BACK = "log that it is reconnected, if it was disconnected"
    TELL = "tell the startd that it shall leave"
    GIVE_SLOT_UP = "give the slot up"
    CONCLUDE = "conclude it"


class Given(StrEnum):
    """What a move may depend on besides state and event."""

    UNASKED = "the startd has not been asked"
    IN_DOUBT = "it may have been asked in vain"
    UNCOUNTED = "its start was not counted"
    EXITED_UNCOUNTED = "the program has run, and its start was not counted"
    UNTOLD = "it was not told"
    HARDER = "it was not told, or not so hard"


_HOLDS: Final[Mapping[Given, Callable[[Execution, Event], bool]]] = MappingProxyType(
    {
        Given.UNASKED: lambda one, _: one.known is Known.UNASKED,
        Given.IN_DOUBT: lambda one, event: (
            one.known is Known.IN_DOUBT and isinstance(event, SlotRunsNothing) and event.known is Known.IN_DOUBT
        ),
        Given.UNCOUNTED: lambda one, _: not one.counted,
        Given.EXITED_UNCOUNTED: lambda one, event: (
            not one.counted and isinstance(event, Reported) and event.end.ending is Ending.EXITED
        ),
        Given.UNTOLD: lambda one, _: not one.is_told,
        Given.HARDER: lambda one, event: isinstance(event, Stop) and one.heeds(fast=event.fast),
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
_STARTING, _RUNNING, _DISCONNECTED, _LEAVES = (Starting,), (Running,), (Disconnected,), (Leaving,)
_GOES: Final = (Running, Disconnected)
_BEGUN: Final = (Running, Disconnected, Leaving)
_ALIVE: Final = (Starting, Running, Disconnected, Leaving)
_UNASKED, _IN_DOUBT, _UNCOUNTED = Given.UNASKED, Given.IN_DOUBT, Given.UNCOUNTED
_HAS_RUN, _UNTOLD, _HARDER = Given.EXITED_UNCOUNTED, Given.UNTOLD, Given.HARDER

# fmt: off
MOVES: Final[tuple[Move, ...]] = (
    #    from           event                                to             what the schedd does           only if
    Move(_STARTING,     (Prepared,),                         Starting,      (_F.ASK,),                     _UNASKED),
    Move(_STARTING,     (UpToDate,),                         Over,          (_F.CONCLUDE,),                _UNASKED),
    Move(_STARTING,     (Stop, NothingRuns),                 Over,          (_F.CONCLUDE,),                _UNASKED),
    Move(_STARTING,     (Started, StarterHere, SlotRunsIt),  Running),
    Move(_STARTING,     (Executing,),                        Running,       (_F.COUNT_START,),             _UNCOUNTED),
    Move(_STARTING,     (Silence,),                          Disconnected,  (_F.LOG_AWAY,)),
    Move(_STARTING,     (Stop,),                             Leaving),
    Move(_ALIVE,        (CannotStart,),                      Over,          (_F.CONCLUDE,)),
    Move(_ALIVE,        (SlotRunsNothing,),                  Over,          (_F.CONCLUDE,),                _IN_DOUBT),

    Move(_BEGUN,        (Executing,),                        None,          (_F.COUNT_START,),             _UNCOUNTED),
    Move(_ALIVE,        (Said,),                             None,          (_F.NOTE,)),
    Move(_ALIVE,        (PolicyDue,),                        None,          (_F.ASK_POLICY,)),
    Move(_RUNNING,      (Silence,),                          Disconnected,  (_F.LOG_AWAY,)),
    Move(_DISCONNECTED, (StarterHere,),                      Running,       (_F.LOG_BACK,)),

    Move(_GOES,         (Stop,),                             Leaving),
    Move(_ALIVE,        (Vacated,),                          Leaving),
    Move(_LEAVES,       (Stop,),                             Leaving,       (),                            _HARDER),
    Move(_LEAVES,       (Turn,),                             Leaving,       (_F.TELL,)),
    Move(_LEAVES,       (NotTold,),                          Leaving),
    Move(_LEAVES,       (Silence,),                          None,          (_F.LOG_AWAY,),                _UNTOLD),
    Move(_LEAVES,       (StarterHere,),                      None,          (_F.LOG_BACK,)),

    Move(_ALIVE,        (Reported,),                         Over,          (_F.COUNT_START, _F.CONCLUDE), _HAS_RUN),
    Move(_ALIVE,        (Reported, NoReport, ClaimLost),     Over,          (_F.CONCLUDE,)),
    Move(_LEAVES,       (PatienceOver,),                     Over,          (_F.GIVE_SLOT_UP, _F.CONCLUDE)),
)
# fmt: on


def _by_key() -> dict[tuple[type[State], type[Event]], tuple[Move, ...]]:
    keys = {(start, event) for move in MOVES for start in move.start for event in move.events}
    return {key: tuple(move for move in MOVES if key[0] in move.start and key[1] in move.events) for key in keys}


_TABLE: Final = _by_key()


def find(one: Execution, event: Event) -> Move | None:
    """The row that this event takes here; None when there is none."""
    for move in _TABLE.get((type(one.state), type(event)), ()):
        if move.given is None or _HOLDS[move.given](one, event):
            return move
    return None
