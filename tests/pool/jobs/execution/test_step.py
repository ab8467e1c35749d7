"""What becomes of an execution, event by event."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd
from pool.jobs.changes import Changes, End, StopReason
from pool.jobs.execution import events as e
from pool.jobs.execution.states import (
    NEVER,
    ByReport,
    ByWord,
    Disconnected,
    Execution,
    Known,
    Leaving,
    Lost,
    Over,
    Running,
    Skipped,
    Starter,
    Starting,
    Unstarted,
)
from pool.jobs.execution.step import next_at, step, taken_up
from pool.jobs.execution.table import MOVES, Effect
from pool.jobs.vocabulary.endings import Ending

EXITED, EVICTED = End(Ending.EXITED, ClassAd(), at=1.0), End(Ending.EVICTED, ClassAd(), at=1.0)
GONE = End(Ending.FAILED, ClassAd(), "the starter ended without a report")
STOP = e.Stop(StopReason("asked"))
NEW = Execution("slot1@here", alive_s=60.0)
SILENCE_S = NEW.alive_s
ASKED = (e.Prepared(),)
RUNS = (*ASKED, e.Started(), e.StarterHere(), e.Executing(1.0, ClassAd()))


def after(*events: e.Event, now: float = 0.0, one: Execution = NEW) -> tuple[Execution, list[Effect]]:
    """What a new execution has come to, and all that was to be done."""
    done: list[Effect] = []
    for event in events:
        one, effects = step(one, event, now=now)
        done += effects
    return one, done


def outcome(one: Execution) -> object:
    assert isinstance(one.state, Over)
    return one.state.outcome


def test_a_job_that_ends_by_itself() -> None:
    one, done = after(*RUNS, e.Reported(EXITED))
    assert outcome(one) == ByReport(EXITED)
    assert done == [Effect.ASK, Effect.COUNT_START, Effect.CONCLUDE]


def test_p3_an_end_that_is_reported_again_changes_nothing() -> None:
    one, _ = after(*RUNS, e.Reported(EXITED))
    for event in (e.Reported(EVICTED), e.NothingRuns(GONE), e.ClaimLost("late"), STOP, e.StarterHere(), e.Time()):
        assert after(event, one=one, now=1e6) == (one, [])


@pytest.mark.parametrize("known", [e.Started(), e.AnswerLost("lost"), e.StarterHere()])
def test_a_program_that_has_exited_was_started_even_if_nobody_said_so(known: e.Event) -> None:
    _, done = after(*ASKED, known, e.Reported(EXITED))
    assert done == [Effect.ASK, Effect.COUNT_START, Effect.CONCLUDE]


def test_p3_a_report_counts_though_the_startd_has_said_before_that_nothing_runs() -> None:
    one, _ = after(*RUNS, e.NothingRuns(GONE))
    assert isinstance(one.state, Running)
    one, _ = after(e.Reported(EXITED), e.StarterLost("closed"), one=one)
    assert outcome(one) == ByReport(EXITED)


def test_what_the_startd_says_counts_when_the_starter_is_read_to_its_end() -> None:
    one, _ = after(*RUNS, e.NothingRuns(GONE))
    assert outcome(after(e.StarterLost("closed"), one=one)[0]) == ByWord(GONE)
    assert outcome(after(*RUNS, e.StarterLost("closed"), e.NothingRuns(GONE))[0]) == ByWord(GONE)


def test_a_starter_that_stays_is_waited_for_until_it_reports_or_the_claim_is_over() -> None:
    one, _ = after(*RUNS, e.NothingRuns(GONE), e.Time(), now=1e9)
    assert isinstance(one.state, Running)
    assert outcome(after(e.Reported(EXITED), one=one)[0]) == ByReport(EXITED)
    assert outcome(after(e.ClaimLost("JobLeaseDuration expired"), one=one)[0]) == ByWord(GONE)


RESTS = (*RUNS, e.StarterRests(), e.StarterLost("closed"))


def test_a_starter_that_rests_is_no_lost_one() -> None:
    one, done = after(*RESTS)
    assert (one.starter, next_at(one)) == (Starter.RESTS, NEVER)
    one, more = after(e.StarterHere(), e.StarterLost("cut"), one=one)
    assert (one.starter, next_at(one)) == (Starter.AWAY, SILENCE_S)
    assert done == after(*RUNS)[1]
    assert more == []


def test_a_starter_that_nobody_can_wake_is_away() -> None:
    one, _ = after(*RESTS, e.SlotLost("cut"))
    assert (one.starter, next_at(one)) == (Starter.AWAY, SILENCE_S)
    one, _ = after(e.SlotRunsIt(), e.StarterHere(), one=one)
    assert (one.starter, next_at(one)) == (Starter.HERE, NEVER)
    before_its_end, _ = after(*RUNS, e.StarterRests(), e.SlotLost("cut"), e.StarterLost("closed"))
    assert (before_its_end.starter, next_at(before_its_end)) == (Starter.AWAY, SILENCE_S)


def test_the_startds_word_counts_where_the_starter_rests() -> None:
    assert outcome(after(*RESTS, e.NothingRuns(GONE))[0]) == ByWord(GONE)
    assert isinstance(outcome(after(*RESTS, e.SlotLost("cut"), e.SlotRunsNothing(Known.STARTED))[0]), Lost)


def test_p2_a_job_that_its_startd_will_not_end_runs_until_it_ends() -> None:
    one, _ = after(*RUNS, STOP, e.NotHeeded("denied"), e.Time(), now=1e9)
    assert isinstance(one.state, Leaving)
    assert outcome(after(e.Reported(EXITED), one=one)[0]) == ByReport(EXITED)


def test_what_the_startd_says_while_it_is_asked_counts_when_it_has_answered() -> None:
    one, _ = after(*ASKED, e.NothingRuns(EVICTED))
    assert not after(e.Time(), one=one, now=1e9)[0].is_over
    assert outcome(after(e.Started(), one=one)[0]) == ByWord(EVICTED)


def test_a_job_that_is_called_back_before_its_slot_was_asked_never_runs() -> None:
    one, done = after(STOP, e.Prepared())
    assert (outcome(one), done) == (Unstarted(), [Effect.CONCLUDE])


def test_p2_a_job_that_is_called_back_while_its_slot_is_asked_waits_for_the_answer() -> None:
    one, done = after(*ASKED, STOP)
    assert (one.state, done) == (Leaving(), [Effect.ASK])
    assert outcome(after(e.CannotStart("START is false", slot_is_good=False), one=one)[0]) == Unstarted(
        "START is false", slot_is_good=False
    )
    assert after(e.Started(), one=one)[1] == [Effect.TELL]
    assert after(e.StarterHere(), one=one)[1] == [Effect.LOG_BACK, Effect.TELL]


def test_p2_a_lost_answer_leaves_it_in_doubt_until_the_startd_has_said_what_runs() -> None:
    one, _ = after(*ASKED, e.AnswerLost("lost"))
    assert after(e.SlotRunsNothing(Known.ASKED), one=one)[0].state == Starting()
    assert isinstance(outcome(after(e.SlotRunsNothing(Known.IN_DOUBT), one=one)[0]), Unstarted)
    assert after(e.SlotRunsIt(), one=one)[0].state == Running()
    assert after(e.Time(), one=one, now=SILENCE_S)[1] == [Effect.LOG_AWAY]


def test_p2_what_a_startd_said_before_it_was_given_the_job_ends_nothing() -> None:
    one, _ = after(*ASKED, e.Started(), e.SlotRunsNothing(Known.ASKED), now=5.0)
    assert (one.state, next_at(one)) == (Running(), float("inf"))


def test_a_job_that_the_startd_does_not_run_any_more_is_lost() -> None:
    one, _ = after(*ASKED, e.Started(), e.SlotLost("cut"), e.SlotRunsNothing(Known.STARTED))
    assert isinstance(outcome(one), Lost)


def test_silence_is_logged_once_and_so_is_its_end() -> None:
    one, _ = after(*RUNS, e.StarterLost("cut"))
    one, done = after(e.Time(), one=one, now=SILENCE_S)
    assert (one.state, done) == (Disconnected(SILENCE_S), [Effect.LOG_AWAY])
    one, done = after(e.SlotLost("cut"), e.Time(), e.StarterHere(), e.Time(), one=one, now=3 * SILENCE_S)
    assert (one.state, done) == (Running(), [Effect.LOG_BACK])


def test_silence_is_logged_at_once_when_the_startd_cannot_be_reached_either() -> None:
    one, done = after(*RUNS, e.StarterLost("cut"), e.SlotLost("cut"), e.SlotAway(), e.SlotAway())
    assert (one.state, done[2:]) == (Disconnected(0.0), [Effect.LOG_AWAY])
    assert after(*RUNS, e.SlotLost("cut"), e.SlotAway())[1][2:] == []


def test_a_starter_that_is_soon_back_was_never_away() -> None:
    _, done = after(*RUNS, e.StarterLost("cut"), e.StarterHere(), e.SlotLost("cut"))
    assert Effect.LOG_AWAY not in done


def test_a_job_is_told_once_to_leave_and_once_more_to_leave_at_once() -> None:
    hard = e.Stop(StopReason("asked"), fast=True)
    one, done = after(*RUNS, STOP, STOP, hard, hard)
    assert done[2:] == [Effect.TELL, Effect.TELL]
    assert one.state == Leaving(fast=True, told=True)


def test_a_job_waits_for_its_turn_to_be_told() -> None:
    one, done = after(*RUNS, e.Stop(StopReason("asked"), pause_s=7.0))
    assert (done[2:], next_at(one)) == ([], 7.0)
    assert after(e.Time(), one=one, now=7.0)[1] == [Effect.TELL]


@pytest.mark.parametrize("back", [e.SlotRunsIt(), e.StarterHere()])
def test_a_job_that_could_not_be_told_is_told_when_somebody_is_back(back: e.Event) -> None:
    one, done = after(*RUNS, STOP, e.SlotLost("cut"), e.NotTold())
    assert done.count(Effect.TELL) == 1
    assert Effect.TELL in after(back, one=one)[1]


def test_a_job_that_its_machine_evicts_is_not_told_again() -> None:
    one, done = after(*RUNS, e.Vacated(StopReason("PREEMPT expression evaluated to True")), STOP)
    assert Effect.TELL not in done
    assert one.is_told


def test_a_removed_job_is_given_up_in_time_and_others_are_not() -> None:
    removed = e.Stop(StopReason("rm"), patience_s=60.0)
    one, _ = after(*RUNS, STOP, removed, removed)
    one, done = after(e.Time(), one=one, now=60.0)
    assert done == [Effect.GIVE_SLOT_UP, Effect.CONCLUDE]
    assert "did not end it within 60 seconds" in str(outcome(one))
    assert not after(*RUNS, STOP, e.Time(), now=1e9)[0].is_over


def test_a_job_that_need_not_run_is_not_asked_for() -> None:
    one, done = after(e.UpToDate(), e.Prepared())
    assert (outcome(one), done) == (Skipped(), [Effect.CONCLUDE])


def test_a_starter_comes_too_late_unless_it_has_reported() -> None:
    assert not after(*RUNS, e.Reported(EXITED))[0].is_unwelcome
    assert after(*RUNS, e.ClaimLost("JobLeaseDuration expired"))[0].is_unwelcome


@pytest.mark.parametrize("away", [False, True])
def test_p5_an_execution_of_an_earlier_life_goes_on(away: bool) -> None:
    one = taken_up(NEW, None, away=away, counted=True, now=0.0)
    one, done = after(e.StarterHere(), e.Executing(1.0, ClassAd()), e.Reported(EXITED), one=one)
    assert (outcome(one), done) == (ByReport(EXITED), [Effect.LOG_BACK] * away + [Effect.CONCLUDE])


def test_p5_a_job_that_was_removed_in_an_earlier_life_is_told_when_its_slot_is_back() -> None:
    one = taken_up(NEW, e.Stop(StopReason("rm"), patience_s=60.0), away=False, counted=True, now=0.0)
    assert next_at(one) == 60.0
    assert after(e.SlotRunsIt(), one=one)[1] == [Effect.TELL]


def test_words_of_a_job_are_noted_while_it_is_there() -> None:
    word = e.Said(lambda _: Changes())
    assert after(*RUNS, word, e.PolicyDue(), e.Reported(EXITED), word, e.PolicyDue())[1][2:] == [
        Effect.NOTE,
        Effect.ASK_POLICY,
        Effect.CONCLUDE,
    ]


def test_no_row_leaves_what_is_over_and_none_is_there_twice() -> None:
    assert all(Over not in move.start for move in MOVES)
    assert len({(start, event, move.given) for move in MOVES for start in move.start for event in move.events}) == sum(
        len(move.start) * len(move.events) for move in MOVES
    )


def test_silence_is_counted_from_the_first_loss() -> None:
    one, _ = after(*RUNS, e.StarterLost("cut"))
    assert next_at(after(e.SlotLost("cut"), e.StarterLost("cut"), one=one, now=5.0)[0]) == SILENCE_S


def test_silence_of_a_job_that_could_not_be_told_is_logged() -> None:
    one, _ = after(*RUNS, STOP, e.StarterLost("cut"), e.NotTold())
    assert after(e.Time(), one=one, now=SILENCE_S)[1] == [Effect.LOG_AWAY]
    one, _ = after(*RUNS, STOP, e.StarterLost("cut"))
    assert after(e.Time(), one=one, now=SILENCE_S)[1] == []


def test_what_was_taken_for_lost_may_be_there_after_all() -> None:
    one, _ = after(*RUNS, e.SlotRunsNothing(Known.STARTED), e.SlotRunsIt())
    assert next_at(one) == float("inf")
    one, _ = after(*RUNS, e.NothingRuns(EVICTED), e.SlotRunsIt(), e.StarterLost("closed"))
    assert outcome(one) == ByWord(EVICTED)
