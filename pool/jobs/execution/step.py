"""What an event makes of an execution: `step` takes the row of the table, and notes what is learnt.

Messages may be lost, repeated and late, so an event for which there is no row changes nothing but what is known.
`next_at` says when time itself brings something: silence, the turn to be told, the end of patience.
"""

from __future__ import annotations

from dataclasses import replace

from pool.classad import ClassAd
from pool.jobs.changes import End
from pool.jobs.execution.events import (
    AnswerLost,
    CannotStart,
    ClaimLost,
    Event,
    Executing,
    NoReport,
    NotHeeded,
    NothingRuns,
    NotTold,
    PatienceOver,
    Prepared,
    Reported,
    Silence,
    SlotAway,
    SlotLost,
    SlotRunsIt,
    SlotRunsNothing,
    Started,
    StarterHere,
    StarterLost,
    StarterRests,
    Stop,
    Turn,
    UpToDate,
    Vacated,
)
from pool.jobs.execution.states import (
    NEVER,
    ByReport,
    ByWord,
    Disconnected,
    Execution,
    Known,
    Leaving,
    Lost,
    Outcome,
    Over,
    Running,
    Skipped,
    Starter,
    Starting,
    State,
    Unstarted,
)
from pool.jobs.execution.table import Effect, find
from pool.jobs.vocabulary.endings import Ending


def step(one: Execution, event: Event, *, now: float) -> tuple[Execution, tuple[Effect, ...]]:
    """The execution after `event`, and after what time has brought by now; what must be done, in order."""
    one, effects = _follow(one, event, now)
    while (brought := _brought(one, now)) is not None:
        one, more = _follow(one, brought, now)
        effects += more
    return one, effects


def next_at(one: Execution) -> float:
    """When time will bring something next."""
    if one.is_over:
        return NEVER
    silent_at = NEVER if one.is_told or isinstance(one.state, Disconnected) else one.silent_at
    tell_at = one.tell_at if _waits_to_be_told(one) else NEVER
    return min(silent_at, tell_at, one.give_up_at)


def taken_up(one: Execution, stop: Stop | None, *, away: bool, counted: bool, now: float) -> Execution:
    """An execution of an earlier life of the schedd, whose job may still run; `stop`: it was to leave already."""
    state: State = Disconnected(now) if away else Running()
    one = replace(one, state=state, known=Known.STARTED, counted=counted)
    if stop is None:
        return one
    one, _ = _follow(one, stop, now)
    return replace(one, tell_at=NEVER)  # it is told when the startd or the starter is there again


# ---- inside


def _follow(one: Execution, event: Event, now: float) -> tuple[Execution, tuple[Effect, ...]]:
    """What one event does: first the row, then what is learnt."""
    if one.is_over:
        return one, ()
    move, known = find(one, event), _learn(one, event, now)
    if move is None:
        return known, ()
    if move.end is not None:
        known = replace(known, state=_enter(move.end, one, event, now))
    return known, move.effects


def _brought(one: Execution, now: float) -> Event | None:
    """What time has brought by now; a verdict counts as soon as nothing else can come."""
    if one.verdict is not None and not one.may_report and not one.is_over:
        return NoReport()
    if now < next_at(one):
        return None
    if one.give_up_at <= now:
        return PatienceOver()
    return Turn() if _waits_to_be_told(one) and one.tell_at <= now else Silence()


def _waits_to_be_told(one: Execution) -> bool:
    return isinstance(one.state, Leaving) and not one.state.told and one.known is Known.STARTED


def _enter(end: type[State], one: Execution, event: Event, now: float) -> State:
    """The state that a move leads to."""
    if end is Disconnected:
        return Disconnected(now)
    if end is Over:
        return Over(_outcome(one, event))
    if end is Leaving:
        was = one.state if isinstance(one.state, Leaving) else Leaving()
        if isinstance(event, Stop):
            return Leaving(was.fast or event.fast, told=False)
        return replace(was, told=not isinstance(event, NotTold))
    return Running() if end is Running else Starting()


def _outcome(one: Execution, event: Event) -> Outcome:
    match event:
        case Reported(end=end):
            return ByReport(end)
        case CannotStart(reason=reason, slot_is_good=is_good):
            return Unstarted(reason, is_good)
        case UpToDate():
            return Skipped()
        case SlotRunsNothing():
            return Unstarted("the connection was lost before the job was started")
        case ClaimLost(reason=reason):
            return one.verdict or Lost(reason)
        case PatienceOver():
            waited = f"{one.slot} did not end it within {one.patience_s:.0f} seconds"
            return Lost(f"The job was removed, and {waited}")
        case NoReport() if one.verdict is not None:
            return one.verdict
    return Unstarted()


def _learn(one: Execution, event: Event, now: float) -> Execution:
    """What is known of the execution after an event, besides its state."""
    if one.starter is Starter.RESTS and isinstance(event, (SlotLost, SlotRunsNothing, NothingRuns)):
        one = replace(one, starter=Starter.AWAY)  # nobody is there who could wake it
    match event:
        case Prepared() if one.known is Known.UNASKED:
            return replace(one, known=Known.ASKED)
        case Started():
            return _heard_of(one, now)
        case SlotRunsIt():
            return _heard_of(_not_lost(one), now)
        case AnswerLost(reason=reason) if one.known is Known.ASKED:
            return _falls_silent(replace(one, known=Known.IN_DOUBT), reason, now)
        case StarterHere():
            return replace(_heard_of(one, now), starter=Starter.HERE, silent_at=NEVER)
        case StarterRests() if one.starter is Starter.HERE:
            return replace(one, starter=Starter.RESTS)
        case StarterLost() if one.starter is Starter.RESTS:
            return one  # as it has said
        case Executing():
            return replace(one, counted=True)
        case StarterLost(reason=reason):
            return _falls_silent(replace(one, starter=Starter.AWAY), reason, now)
        case SlotLost(reason=reason) if one.starter is Starter.AWAY and one.known is Known.STARTED:
            return _falls_silent(one, reason, now)
        case SlotRunsNothing(known=Known.STARTED):
            return _judged(one, Lost("The slot no longer runs the job"))
        case NothingRuns(end=end, stop=stop):
            return _judged(replace(one, stop=one.stop or stop), ByWord(end))
        case NotHeeded(reason=reason):
            return _judged(one, ByWord(End(Ending.EVICTED, ClassAd(), reason)))
        case Vacated(stop=stop):
            return replace(one, stop=one.stop or stop, tell_at=NEVER)
        case Stop():
            return _shall_leave(one, event, now)
        case Turn():
            return replace(one, tell_at=NEVER)
        case SlotAway() if one.silent_at < NEVER:
            return replace(one, silent_at=now)
        case Silence():
            return replace(one, silent_at=NEVER)
    return one


def _heard_of(one: Execution, now: float) -> Execution:
    """It has a starter: one that shall leave, and could not be told, can be told now."""
    tell_at = now if one.tell_at == NEVER and isinstance(one.state, Leaving) else one.tell_at
    return replace(one, known=Known.STARTED, tell_at=tell_at)


def _not_lost(one: Execution) -> Execution:
    """What was taken for lost is there; what the startd has said of its end stays."""
    return replace(one, verdict=None) if isinstance(one.verdict, Lost) else one


def _falls_silent(one: Execution, reason: str, now: float) -> Execution:
    if one.silent_at < NEVER or isinstance(one.state, Disconnected):
        return one
    return replace(one, silent_at=now + one.alive_s, silence=reason)


def _judged(one: Execution, verdict: ByWord | Lost) -> Execution:
    """Unless its starter reports, it comes to this; the first word counts."""
    return replace(one, verdict=one.verdict or verdict)


def _shall_leave(one: Execution, event: Stop, now: float) -> Execution:
    """The latest reason counts, and the shortest patience."""
    one = replace(one, stop=event.stop, transfer=event.transfer)
    if one.heeds(fast=event.fast):
        one = replace(one, tell_at=now + event.pause_s)
    give_up_at = now + event.pause_s + event.patience_s
    return replace(one, give_up_at=give_up_at, patience_s=event.patience_s) if give_up_at < one.give_up_at else one
