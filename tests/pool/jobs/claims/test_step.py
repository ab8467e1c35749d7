"""What becomes of a claim, event by event."""

from __future__ import annotations

import pytest

from pool.jobs.claims import events as e
from pool.jobs.claims.states import Busy, ClaimLife, Ended, Idle, Over, Releasing, Requesting
from pool.jobs.claims.step import step, taken_up
from pool.jobs.claims.table import MOVES, Effect

LEASE_S = 100.0
NEW = ClaimLife(LEASE_S, 0.0)
HELD = (e.Granted(),)
BUSY = (*HELD, e.JobGiven("a"), e.Asked())
GIVEN_BACK = (*HELD, e.Unneeded())


def after(*events: e.Event, now: float = 0.0, life: ClaimLife = NEW) -> tuple[ClaimLife, list[Effect]]:
    """What has become of a new claim, and all that was to be done."""
    done: list[Effect] = []
    for event in events:
        life, effects = step(life, event, now=now)
        done += effects
    return life, done


def test_a_claim_that_runs_two_jobs_and_is_given_back() -> None:
    life, done = after(*BUSY, e.JobOver(reported=True), e.JobGiven("b"), e.Asked(), e.JobOver(reported=True))
    assert (life.state, life.may_have_job, life.is_concluded) == (Idle(), True, True)
    life, more = after(e.Unneeded(), e.EndedThere(), life=life)
    assert (life.state, done + more) == (Over(), [Effect.KEEP, Effect.RELEASE, Effect.FORGET])


def test_a_claim_that_is_over_hears_nothing_more() -> None:
    life, _ = after(*GIVEN_BACK, e.EndedThere())
    for event in (e.Granted(), e.JobGiven("b"), e.NotHeld(), e.GivenUp(), e.Unreached(), e.ReleaseLost()):
        assert after(event, life=life, now=1e6) == (life, [])


def test_a_slot_that_its_startd_took_back_before_the_grant_was_read_is_not_held() -> None:
    life, done = after(e.EndedThere("PREEMPT"), e.Granted())
    assert (life.state, life.is_held, done) == (Over(), False, [Effect.FORGET])


def test_the_lease_of_a_claim_is_never_longer_than_its_job_waits() -> None:
    assert after(e.Granted(40.0))[0].lease_s == 40.0
    assert after(e.Granted(4000.0))[0].lease_s == LEASE_S


def test_while_a_job_is_begun_the_longer_lease_counts_and_then_what_the_startd_says() -> None:
    life, _ = after(*HELD, e.JobGiven("a", 40.0), e.Asked())
    assert life.lease_s == LEASE_S
    assert after(e.Started(40.0), life=life)[0].lease_s == 40.0
    assert after(e.Started(), life=life)[0].lease_s == LEASE_S
    assert after(*HELD, e.JobGiven("a", 4000.0), e.Asked())[0].lease_s == 4000.0


def test_a_request_that_is_withdrawn_still_waits_for_the_answer() -> None:
    life, done = after(e.Unneeded())
    assert (life.state, done) == (Requesting(), [Effect.WITHDRAW])
    assert after(e.Refused(), life=life)[1] == [Effect.FORGET]


@pytest.mark.parametrize("event", [e.Vacating("a", "PREEMPT"), e.Vacating("another"), e.Spoiled()])
def test_a_slot_that_is_taken_away_or_spoiled_has_no_other_job(event: e.Event) -> None:
    life, _ = after(*BUSY, event, e.JobOver(reported=True), e.JobGiven("b"))
    assert (life.state, life.may_have_job) == (Idle(), False)


@pytest.mark.parametrize("word", [e.Vacating, e.Frozen, e.StarterGone])
def test_a_word_about_an_earlier_job_is_not_for_the_present_one(word: type[e.OfJob]) -> None:
    assert after(*BUSY, word("a"), word(""))[1][1:] == [Effect.PASS_ON, Effect.PASS_ON]
    assert after(*BUSY, word("before"))[1][1:] == []
    assert after(*BUSY, e.JobOver(reported=True), word("a"))[1][1:] == []


def test_what_a_startd_said_of_the_job_before_is_no_answer_to_this_one() -> None:
    assert after(*BUSY, e.LinkLost(), e.Held("", "before"))[1][1:] == [Effect.PASS_ON]
    assert after(*BUSY, e.LinkLost(), e.Held("", "a"))[1][1:] == [Effect.PASS_ON, Effect.PASS_ON]


@pytest.mark.parametrize("event", [e.EndedThere("PREEMPT"), e.NotHeld()])
def test_the_execution_is_told_once_of_the_end_of_its_claim(event: e.Event) -> None:
    life, done = after(*BUSY, event, event, e.Unreached(), now=1e6)
    assert (life.state, done[1:]) == (Ended(), [Effect.PASS_ON])
    assert after(e.JobOver(reported=False), e.Unneeded(), life=life)[1] == [Effect.FORGET]


def test_p2_a_lease_is_over_when_the_startd_may_not_have_heard_for_so_long() -> None:
    life, _ = after(*BUSY)
    life, _ = after(e.Spoken(), life=life, now=50.0)
    assert isinstance(after(e.Unreached(), life=life, now=149.0)[0].state, Busy)
    assert isinstance(after(e.Unreached(), life=life, now=150.0)[0].state, Ended)


def test_an_execution_hears_that_its_startd_cannot_be_reached() -> None:
    assert after(*BUSY, e.LinkLost(), e.Unreached(), e.Unreached())[1][1:] == [Effect.PASS_ON] * 3


@pytest.mark.parametrize("event", [e.ReleaseLost(), e.LinkLost("cut")])
def test_a_startd_that_may_not_have_been_told_is_asked_and_told_again(event: e.Event) -> None:
    life, done = after(*GIVEN_BACK, event)
    assert (life.asks_after, done[1:]) == (True, [Effect.RELEASE])
    assert after(e.NotHeld(), life=life)[1] == [Effect.FORGET]
    life, done = after(e.Held(), e.Held(), life=life)
    assert (life.asks_after, done) == (False, [Effect.RELEASE])
    assert after(e.EndedThere(), life=life)[1] == [Effect.FORGET]


def test_a_startd_that_cannot_be_told_for_a_lease_holds_the_claim_no_more() -> None:
    life, _ = after(*GIVEN_BACK, e.ReleaseLost())
    assert after(e.Unreached(), life=life, now=LEASE_S - 1)[1] == []
    assert after(e.Unreached(), life=life, now=LEASE_S)[1] == [Effect.FORGET]


def test_a_slot_that_is_given_up_is_given_back_though_a_job_may_run_there() -> None:
    life, done = after(*BUSY, e.GivenUp(), e.GivenUp())
    assert (life.state, life.is_concluded, done[1:]) == (Releasing(fast=True), False, [Effect.RELEASE])
    assert after(e.JobOver(reported=False), e.Unneeded(), life=life)[1] == []


def test_a_claim_is_concluded_when_all_that_was_started_has_reported() -> None:
    assert not after(*BUSY)[0].is_concluded
    assert after(*BUSY, e.NotStarted(), e.JobOver(reported=False))[0].is_concluded
    life, _ = after(*BUSY, e.JobOver(reported=False))
    assert (life.is_concluded, life.unreported) == (False, "a")
    # That a job was not started says nothing of the one before.
    life, _ = after(e.JobGiven("b"), e.Asked(), e.NotStarted(), e.JobOver(reported=False), life=life)
    assert life.unreported == "a"
    assert after(e.JobGiven("c"), e.Asked(), e.JobOver(reported=True), life=life)[0].is_concluded


@pytest.mark.parametrize(("activation", "is_concluded"), [("", True), ("a", False)])
def test_p5_a_claim_of_an_earlier_life_without_a_job_is_given_back(activation: str, is_concluded: bool) -> None:
    life = taken_up(activation, lease_s=LEASE_S, renewed_at=0.0, runs=False)
    assert (life.asks_after, life.is_concluded, life.may_have_job) == (True, is_concluded, False)
    assert after(e.Held(), e.EndedThere(), life=life)[1] == [Effect.RELEASE, Effect.FORGET]


def test_p5_a_claim_of_an_earlier_life_with_a_job_is_asked_after() -> None:
    life = taken_up("a", lease_s=LEASE_S, renewed_at=0.0, runs=True)
    assert (life.asks_after, life.is_concluded) == (True, False)
    life, done = after(e.Held("a", "a"), life=life, now=50.0)
    assert (life.asks_after, life.renewed_at, done) == (False, 50.0, [Effect.PASS_ON])


def test_no_row_leaves_what_is_over_and_none_is_there_twice() -> None:
    assert all(Over not in move.start for move in MOVES)
    assert len({(start, event, move.given) for move in MOVES for start in move.start for event in move.events}) == sum(
        len(move.start) * len(move.events) for move in MOVES
    )
