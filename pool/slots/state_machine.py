"""What a slot may do next: every legal move is a row of MOVES, and nothing else moves a slot.

A slot is in a state (who has it) and an activity (what is happening there). Rows carry the numbers that HTCondor's
manual gives to its transitions. Where one event means several arrows one after another, `VIA` names the event that
comes first, so that the table stays the diagram. Two things are remembered besides state and activity: why the slot is
being taken away from its job (`EvictionCause`), because the way out of Retiring, Preempting and Backfill depends on it,
and how long each pair lasted, because the slot's ad says so.

Source: HTCondor's manual, "Configuration for Execution Points": "Machine States", "Machine Activities", "State and
Activity Transitions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pool.base.errors import PoolError


class State(StrEnum):
    """Who has the slot; the values are those of the ad's `State`."""

    OWNER = "Owner"
    UNCLAIMED = "Unclaimed"
    MATCHED = "Matched"
    CLAIMED = "Claimed"
    PREEMPTING = "Preempting"
    BACKFILL = "Backfill"
    DRAINED = "Drained"


class Activity(StrEnum):
    """What is happening in the slot; the values are those of the ad's `Activity`."""

    IDLE = "Idle"
    BENCHMARKING = "Benchmarking"
    BUSY = "Busy"
    SUSPENDED = "Suspended"
    RETIRING = "Retiring"
    VACATING = "Vacating"
    KILLING = "Killing"


class Event(StrEnum):
    """What can happen to a slot."""

    OWNER_LEFT = "IS_OWNER is no longer true"
    OWNER_BACK = "IS_OWNER is true"
    BENCHMARK = "RUNBENCHMARKS is true"
    BENCHMARKED = "benchmarks done"
    BACKFILL = "START_BACKFILL is true"
    MATCH = "the negotiator's notice of a match"
    MATCH_OVER = "MATCH_TIMEOUT, START locally false, failed claim, or condor_vacate"
    CLAIM = "claimed by a schedd"
    ACTIVATE = "claim activated"
    JOB_GONE = "the job is gone, or there was none"
    PREEMPT = "PREEMPT is true, a better match, or shutdown"
    PREEMPTION_OVER = "the preempting claim went away, or draining was cancelled"
    SUSPEND = "WANT_SUSPEND and SUSPEND are true"
    CONTINUE = "CONTINUE is true"
    RELEASE = "released by its schedd"
    VACATE = "retirement is over, WANT_VACATE is true"
    KILL = "KILL is true, vacating took too long, or WANT_VACATE is not true"
    CLIENT_STARTED = "backfill client runs"
    CLIENT_GONE = "backfill client is gone"
    EVICT_BACKFILL = "match, claim, EVICT_BACKFILL, condor_vacate, or shutdown"
    DRAIN = "draining begins"
    ALL_DRAINED = "every slot of the machine is drained"
    DRAIN_OVER = "draining finished or cancelled"


class Effect(StrEnum):
    """What the startd must do because of a move."""

    FORGET_MATCH = "offer another claim id"
    START_LEASE = "start the claim's lease"
    SUSPEND_JOB = "freeze the job"
    CONTINUE_JOB = "thaw the job"
    SOFT_KILL = "ask the job to leave"
    HARD_KILL = "end the job at once"
    END_CLAIM = "tell the schedd that the claim is gone"
    NEXT_CLAIM = "hand the slot to the claim that waited for it"
    RUN_BENCHMARKS = "run the benchmarks"
    START_CLIENT = "start the backfill client"
    KILL_CLIENT = "end the backfill client"
    NO_JOB = "there is no job to wait for: follow JOB_GONE"
    IF_LAST_DRAINED = "the last slot to get here: do what was to follow the drain"
    SETTLE = "look what the slot should be next, at once"


class EvictionCause(StrEnum):
    """Why the slot is being taken from its job, if it is."""

    NO = "no"
    BETTER_CLAIM = "a better match waits"
    DRAINING = "the machine drains gracefully"
    FOR_GOOD = "owner, command, release or shutdown"


Where = tuple[State, Activity]


@dataclass(frozen=True, slots=True)
class Move:
    """One arrow of the diagram; `given` limits it to some reasons for leaving (empty: any)."""

    number: int
    start: Where
    event: Event
    end: Where
    effects: tuple[Effect, ...] = ()
    given: tuple[EvictionCause, ...] = ()


class IllegalSlotMove(PoolError):
    """Nothing in the table moves a slot this way."""


_S, _A, _E, _F, _L = State, Activity, Event, Effect, EvictionCause
_OWNER = (_S.OWNER, _A.IDLE)
_UNCLAIMED = (_S.UNCLAIMED, _A.IDLE)
_BENCHMARKING = (_S.UNCLAIMED, _A.BENCHMARKING)
_MATCHED = (_S.MATCHED, _A.IDLE)
_CLAIMED = (_S.CLAIMED, _A.IDLE)
_BUSY = (_S.CLAIMED, _A.BUSY)
_SUSPENDED = (_S.CLAIMED, _A.SUSPENDED)
_RETIRING = (_S.CLAIMED, _A.RETIRING)
_VACATING = (_S.PREEMPTING, _A.VACATING)
_KILLING = (_S.PREEMPTING, _A.KILLING)
_BF_IDLE = (_S.BACKFILL, _A.IDLE)
_BF_BUSY = (_S.BACKFILL, _A.BUSY)
_BF_KILLING = (_S.BACKFILL, _A.KILLING)
_DRAINING = (_S.DRAINED, _A.RETIRING)
_DRAINED = (_S.DRAINED, _A.IDLE)
_KEPT, _BETTER, _GONE = (_L.NO,), (_L.BETTER_CLAIM,), (_L.NO, _L.DRAINING, _L.FOR_GOOD)
_UNDONE, _LEAVES = (_L.BETTER_CLAIM, _L.DRAINING), (_L.BETTER_CLAIM, _L.DRAINING, _L.FOR_GOOD)

# fmt: off
MOVES: Final[tuple[Move, ...]] = (
    #    no  from            event                to              what the startd does               only when leaving
    Move(1,  _OWNER,         _E.OWNER_LEFT,       _UNCLAIMED),
    Move(2,  _UNCLAIMED,     _E.OWNER_BACK,       _OWNER),
    Move(3,  _UNCLAIMED,     _E.BENCHMARK,        _BENCHMARKING,  (_F.RUN_BENCHMARKS,)),
    Move(4,  _BENCHMARKING,  _E.BENCHMARKED,      _UNCLAIMED),
    Move(5,  _UNCLAIMED,     _E.CLAIM,            _CLAIMED,       (_F.START_LEASE,)),
    Move(6,  _UNCLAIMED,     _E.MATCH,            _MATCHED),
    Move(7,  _UNCLAIMED,     _E.BACKFILL,         _BF_IDLE,       (_F.START_CLIENT,)),
    Move(8,  _MATCHED,       _E.MATCH_OVER,       _OWNER,         (_F.FORGET_MATCH, _F.SETTLE)),
    Move(9,  _MATCHED,       _E.CLAIM,            _CLAIMED,       (_F.START_LEASE,)),
    Move(10, _CLAIMED,       _E.RELEASE,          _VACATING,      (_F.NO_JOB,)),
    Move(10, _CLAIMED,       _E.VACATE,           _VACATING,      (_F.NO_JOB,)),
    Move(10, _CLAIMED,       _E.KILL,             _KILLING,       (_F.NO_JOB,)),
    Move(11, _CLAIMED,       _E.ACTIVATE,         _BUSY),
    Move(12, _BUSY,          _E.JOB_GONE,         _CLAIMED),
    Move(13, _BUSY,          _E.PREEMPT,          _RETIRING),
    Move(14, _BUSY,          _E.SUSPEND,          _SUSPENDED,     (_F.SUSPEND_JOB,)),
    Move(15, _SUSPENDED,     _E.CONTINUE,         _BUSY,          (_F.CONTINUE_JOB,),                 _KEPT),
    Move(16, _SUSPENDED,     _E.CONTINUE,         _RETIRING,      (_F.CONTINUE_JOB,),                 _LEAVES),
    Move(16, _SUSPENDED,     _E.PREEMPT,          _RETIRING,      (_F.CONTINUE_JOB,)),
    Move(17, _SUSPENDED,     _E.VACATE,           _VACATING,      (_F.CONTINUE_JOB, _F.SOFT_KILL)),
    Move(17, _SUSPENDED,     _E.KILL,             _KILLING,       (_F.HARD_KILL,)),
    Move(18, _RETIRING,      _E.VACATE,           _VACATING,      (_F.SOFT_KILL,)),
    Move(18, _RETIRING,      _E.KILL,             _KILLING,       (_F.HARD_KILL,)),
    Move(18, _RETIRING,      _E.JOB_GONE,         _VACATING,      (_F.NO_JOB,)),
    Move(19, _RETIRING,      _E.PREEMPTION_OVER,  _BUSY,          (),                                 _UNDONE),
    Move(20, _RETIRING,      _E.SUSPEND,          _SUSPENDED,     (_F.SUSPEND_JOB,)),
    Move(21, _VACATING,      _E.KILL,             _KILLING,       (_F.HARD_KILL,)),
    Move(22, _VACATING,      _E.JOB_GONE,         _OWNER,         (_F.END_CLAIM, _F.SETTLE),          _GONE),
    Move(23, _VACATING,      _E.JOB_GONE,         _CLAIMED,       (_F.END_CLAIM, _F.NEXT_CLAIM),      _BETTER),
    Move(24, _KILLING,       _E.JOB_GONE,         _CLAIMED,       (_F.END_CLAIM, _F.NEXT_CLAIM),      _BETTER),
    Move(25, _KILLING,       _E.JOB_GONE,         _OWNER,         (_F.END_CLAIM, _F.SETTLE),          _GONE),
    Move(26, _BF_IDLE,       _E.CLIENT_STARTED,   _BF_BUSY),
    Move(27, _BF_BUSY,       _E.CLIENT_GONE,      _BF_IDLE,       (_F.START_CLIENT,)),
    Move(28, _BF_BUSY,       _E.EVICT_BACKFILL,   _BF_KILLING,    (_F.KILL_CLIENT,)),
    Move(29, _BF_KILLING,    _E.CLIENT_GONE,      _BF_IDLE,       (_F.SETTLE,)),
    Move(30, _BF_IDLE,       _E.EVICT_BACKFILL,   _OWNER,         (_F.SETTLE,)),
    Move(31, _BF_IDLE,       _E.CLAIM,            _CLAIMED,       (_F.START_LEASE,)),
    Move(32, _BF_IDLE,       _E.MATCH,            _MATCHED),
    Move(33, _DRAINING,      _E.ALL_DRAINED,      _DRAINED,       (_F.IF_LAST_DRAINED,)),
    Move(34, _DRAINED,       _E.DRAIN_OVER,       _OWNER,         (_F.SETTLE,)),
    Move(35, _DRAINING,      _E.DRAIN_OVER,       _OWNER,         (_F.SETTLE,)),
    Move(36, _OWNER,         _E.DRAIN,            _DRAINING),
    Move(37, _UNCLAIMED,     _E.DRAIN,            _DRAINING),
)
# fmt: on

VIA: Final[Mapping[tuple[Where, Event], Event]] = MappingProxyType(
    {
        # Somebody wants a slot that benchmarks, or that its owner just left.
        **{(_BENCHMARKING, e): _E.BENCHMARKED for e in (_E.CLAIM, _E.MATCH, _E.OWNER_BACK, _E.DRAIN)},
        **{(_OWNER, e): _E.OWNER_LEFT for e in (_E.CLAIM, _E.MATCH)},
        (_MATCHED, _E.DRAIN): _E.MATCH_OVER,
        (_BF_IDLE, _E.DRAIN): _E.EVICT_BACKFILL,
        # Retirement was over before it began: release, lost lease, fast shutdown, condor_vacate.
        **{(_BUSY, e): _E.PREEMPT for e in (_E.VACATE, _E.KILL)},
        # The job ended while it was suspended.
        (_SUSPENDED, _E.JOB_GONE): _E.CONTINUE,
    }
)
"""Events that take another arrow first."""

_TABLE: Final[Mapping[tuple[State, Activity, Event], tuple[Move, ...]]] = {
    key: tuple(m for m in MOVES if (*m.start, m.event) == key) for key in {(*m.start, m.event) for m in MOVES}
}


@dataclass(frozen=True, slots=True)
class SlotState:
    """Where a slot is, since when (wall clock), and how long it spent where before."""

    state: State = State.OWNER
    activity: Activity = Activity.IDLE
    entered_state: float = 0.0
    entered_activity: float = 0.0
    leaving: EvictionCause = EvictionCause.NO
    spent: Mapping[Where, float] = field(default_factory=dict)

    @property
    def where(self) -> Where:
        """State and activity together."""
        return self.state, self.activity

    def totals(self, *, now: float) -> dict[Where, float]:
        """Seconds spent in each pair, the present one included."""
        totals = dict(self.spent)
        totals[self.where] = totals.get(self.where, 0.0) + max(0.0, now - self.entered_activity)
        return totals


def begin(*, now: float) -> SlotState:
    """A slot as a startd begins with it: in Owner/Idle."""
    return SlotState(entered_state=now, entered_activity=now)


def leave(slot: SlotState, why: EvictionCause) -> SlotState:
    """Note why the job must go; a slot that is lost for good is never lost for a better claim afterwards."""
    return slot if slot.leaving is EvictionCause.FOR_GOOD else replace(slot, leaving=why)


def can(slot: SlotState, event: Event) -> bool:
    """Whether `step` would move the slot."""
    return (slot.where, event) in VIA or _find(slot, event) is not None


def step(slot: SlotState, event: Event, *, now: float) -> tuple[SlotState, tuple[Effect, ...]]:
    """The slot after `event`, and what the startd must now do, in order."""
    effects: tuple[Effect, ...] = ()
    for move in route(slot, event):
        slot, done = _follow(slot, move, now=now), move.effects
        effects += done
    return slot, effects


def route(slot: SlotState, event: Event) -> Iterator[Move]:
    """The arrows that `event` takes from here, in order; IllegalMove when there is none."""
    first = VIA.get((slot.where, event))
    if first is not None:
        # The way round may lead to another place than the event began in, so the rest is looked up from there.
        for move in route(slot, first):
            yield move
            slot = _follow(slot, move, now=slot.entered_activity)
        yield from route(slot, event)
        return
    found = _find(slot, event)
    if found is None:
        at = f"{slot.state.value}/{slot.activity.value}"
        raise IllegalSlotMove(f"a slot in {at} cannot follow {event.name} ({event.value})")
    yield found


def _find(slot: SlotState, event: Event) -> Move | None:
    for move in _TABLE.get((*slot.where, event), ()):
        if not move.given or slot.leaving in move.given:
            return move
    return None


def _follow(slot: SlotState, move: Move, *, now: float) -> SlotState:
    (state, activity), leaving = move.end, slot.leaving
    # 19 takes the preemption back, 23 and 24 hand the slot to the claim that caused it: the reason is used up.
    if state not in (State.CLAIMED, State.PREEMPTING) or move.number in (19, 23, 24):
        leaving = EvictionCause.NO
    elif activity in (Activity.RETIRING, Activity.VACATING, Activity.KILLING) and leaving is EvictionCause.NO:
        leaving = EvictionCause.FOR_GOOD
    return SlotState(
        state=state,
        activity=activity,
        entered_state=slot.entered_state if state is slot.state else now,
        entered_activity=now,
        leaving=leaving,
        spent=slot.totals(now=now),
    )
