"""The slot's state machine: each of the manual's numbered transitions, and that nothing else moves a slot."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pool.slots.state_machine import (
    MOVES,
    VIA,
    Activity,
    Effect,
    Event,
    EvictionCause,
    IllegalSlotMove,
    SlotState,
    State,
    begin,
    can,
    leave,
    step,
)

# number, from, event, leaving, to: the manual's transitions in words of the ad
TRANSITIONS = """
1  Owner/Idle             OWNER_LEFT      no           Unclaimed/Idle
2  Unclaimed/Idle         OWNER_BACK      no           Owner/Idle
3  Unclaimed/Idle         BENCHMARK       no           Unclaimed/Benchmarking
4  Unclaimed/Benchmarking BENCHMARKED     no           Unclaimed/Idle
5  Unclaimed/Idle         CLAIM           no           Claimed/Idle
6  Unclaimed/Idle         MATCH           no           Matched/Idle
7  Unclaimed/Idle         BACKFILL        no           Backfill/Idle
8  Matched/Idle           MATCH_OVER      no           Owner/Idle
9  Matched/Idle           CLAIM           no           Claimed/Idle
10 Claimed/Idle           RELEASE         no           Preempting/Vacating
10 Claimed/Idle           VACATE          no           Preempting/Vacating
10 Claimed/Idle           KILL            no           Preempting/Killing
11 Claimed/Idle           ACTIVATE        no           Claimed/Busy
12 Claimed/Busy           JOB_GONE        no           Claimed/Idle
13 Claimed/Busy           PREEMPT         no           Claimed/Retiring
13 Claimed/Busy           PREEMPT         BETTER_CLAIM Claimed/Retiring
14 Claimed/Busy           SUSPEND         no           Claimed/Suspended
15 Claimed/Suspended      CONTINUE        no           Claimed/Busy
16 Claimed/Suspended      CONTINUE        BETTER_CLAIM Claimed/Retiring
16 Claimed/Suspended      CONTINUE        FOR_GOOD     Claimed/Retiring
16 Claimed/Suspended      PREEMPT         no           Claimed/Retiring
17 Claimed/Suspended      VACATE          FOR_GOOD     Preempting/Vacating
17 Claimed/Suspended      KILL            FOR_GOOD     Preempting/Killing
18 Claimed/Retiring       VACATE          FOR_GOOD     Preempting/Vacating
18 Claimed/Retiring       KILL            FOR_GOOD     Preempting/Killing
18 Claimed/Retiring       JOB_GONE        FOR_GOOD     Preempting/Vacating
19 Claimed/Retiring       PREEMPTION_OVER BETTER_CLAIM Claimed/Busy
20 Claimed/Retiring       SUSPEND         FOR_GOOD     Claimed/Suspended
21 Preempting/Vacating    KILL            FOR_GOOD     Preempting/Killing
22 Preempting/Vacating    JOB_GONE        FOR_GOOD     Owner/Idle
23 Preempting/Vacating    JOB_GONE        BETTER_CLAIM Claimed/Idle
24 Preempting/Killing     JOB_GONE        BETTER_CLAIM Claimed/Idle
25 Preempting/Killing     JOB_GONE        FOR_GOOD     Owner/Idle
26 Backfill/Idle          CLIENT_STARTED  no           Backfill/Busy
27 Backfill/Busy          CLIENT_GONE     no           Backfill/Idle
28 Backfill/Busy          EVICT_BACKFILL  no           Backfill/Killing
29 Backfill/Killing       CLIENT_GONE     no           Backfill/Idle
30 Backfill/Idle          EVICT_BACKFILL  no           Owner/Idle
31 Backfill/Idle          CLAIM           no           Claimed/Idle
32 Backfill/Idle          MATCH           no           Matched/Idle
33 Drained/Retiring       ALL_DRAINED     no           Drained/Idle
34 Drained/Idle           DRAIN_OVER      no           Owner/Idle
35 Drained/Retiring       DRAIN_OVER      no           Owner/Idle
36 Owner/Idle             DRAIN           no           Drained/Retiring
37 Unclaimed/Idle         DRAIN           no           Drained/Retiring
"""
ROWS = [line.split() for line in TRANSITIONS.strip().splitlines()]


def at(where: str, leaving: EvictionCause = EvictionCause.NO, *, since: float = 0.0) -> SlotState:
    """A slot that has been at `where` ("Claimed/Busy") since then."""
    state, activity = where.split("/")
    return SlotState(State(state), Activity(activity), since, since, leaving)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "_".join(row[:1] + row[2:4]))
def test_transition(row: list[str]) -> None:
    number, start, event, leaving, end = row
    slot = at(start, EvictionCause.NO if leaving == "no" else EvictionCause[leaving])
    after, _effects = step(slot, Event[event], now=5.0)
    assert f"{after.state.value}/{after.activity.value}" == end
    moves = [m for m in MOVES if m.number == int(number) and m.event is Event[event] and m.end == after.where]
    assert moves
    assert all(m.start == slot.where for m in moves)


def test_every_number_of_the_manual_has_a_row_and_a_test() -> None:
    assert {m.number for m in MOVES} == set(range(1, 38)) == {int(row[0]) for row in ROWS}


def test_no_two_rows_hold_at_once() -> None:
    for one in MOVES:
        for other in MOVES:
            if one is not other and (one.start, one.event) == (other.start, other.event):
                assert one.given
                assert other.given
                assert not set(one.given) & set(other.given)


def test_a_move_that_is_not_in_the_table_is_refused_by_name() -> None:
    with pytest.raises(IllegalSlotMove, match="Unclaimed/Idle cannot follow ACTIVATE"):
        step(at("Unclaimed/Idle"), Event.ACTIVATE, now=0.0)


def test_an_unclaimed_slot_cannot_be_activated() -> None:
    assert not can(at("Unclaimed/Idle"), Event.ACTIVATE)
    assert can(at("Claimed/Idle"), Event.ACTIVATE)


def test_a_release_of_a_busy_claim_skips_retirement_and_asks_the_job_to_leave() -> None:
    slot, effects = step(leave(at("Claimed/Busy"), EvictionCause.FOR_GOOD), Event.VACATE, now=3.0)
    assert slot.where == (State.PREEMPTING, Activity.VACATING)
    assert effects == (Effect.SOFT_KILL,)
    slot, effects = step(slot, Event.JOB_GONE, now=4.0)
    assert slot.where == (State.OWNER, Activity.IDLE)
    assert effects == (Effect.END_CLAIM, Effect.SETTLE)


def test_a_job_that_dies_while_suspended_leaves_its_claim_idle() -> None:
    slot, _ = step(at("Claimed/Suspended"), Event.JOB_GONE, now=3.0)
    assert slot.where == (State.CLAIMED, Activity.IDLE)


def test_a_benchmarking_slot_can_be_claimed() -> None:
    slot, effects = step(at("Unclaimed/Benchmarking"), Event.CLAIM, now=3.0)
    assert slot.where == (State.CLAIMED, Activity.IDLE)
    assert effects == (Effect.START_LEASE,)


def test_retirement_for_the_owner_cannot_be_undone_by_a_claim_that_goes_away() -> None:
    slot, _ = step(at("Claimed/Busy"), Event.PREEMPT, now=1.0)
    assert slot.leaving is EvictionCause.FOR_GOOD
    assert not can(slot, Event.PREEMPTION_OVER)
    assert leave(slot, EvictionCause.BETTER_CLAIM).leaving is EvictionCause.FOR_GOOD


def test_times_of_entry_and_totals_are_recorded() -> None:
    slot = begin(now=100.0)
    slot, _ = step(slot, Event.OWNER_LEFT, now=103.0)
    slot, _ = step(slot, Event.CLAIM, now=110.0)
    slot, _ = step(slot, Event.ACTIVATE, now=111.0)
    assert (slot.entered_state, slot.entered_activity) == (110.0, 111.0)
    assert slot.totals(now=121.0) == {
        (State.OWNER, Activity.IDLE): 3.0,
        (State.UNCLAIMED, Activity.IDLE): 7.0,
        (State.CLAIMED, Activity.IDLE): 1.0,
        (State.CLAIMED, Activity.BUSY): 10.0,
    }


def test_every_detour_ends_where_the_event_is_understood() -> None:
    for (state, activity), event in VIA:
        for leaving in EvictionCause:
            slot = replace(SlotState(state, activity), leaving=leaving)
            after, _ = step(slot, event, now=1.0)
            assert after.where != (state, activity)


@pytest.mark.parametrize("seed", range(20))
def test_random_walks_stay_on_the_diagram_and_account_for_every_second(seed: int) -> None:
    rng = random.Random(seed)
    slot, now = begin(now=0.0), 0.0
    pairs = {m.start for m in MOVES} | {m.end for m in MOVES}
    for _ in range(500):
        now += rng.random() * 10
        event = rng.choice(list(Event))
        if rng.random() < 0.1:
            slot = leave(slot, rng.choice([EvictionCause.BETTER_CLAIM, EvictionCause.FOR_GOOD]))
        if not can(slot, event):
            with pytest.raises(IllegalSlotMove):
                step(slot, event, now=now)
            continue
        before = slot
        slot, effects = step(slot, event, now=now)
        assert slot.where in pairs
        assert sum(slot.totals(now=now).values()) == pytest.approx(now)
        if before.state is State.PREEMPTING and slot.state is not State.PREEMPTING:
            assert Effect.END_CLAIM in effects
        if slot.activity in (Activity.RETIRING, Activity.VACATING, Activity.KILLING) and slot.state in (
            State.CLAIMED,
            State.PREEMPTING,
        ):
            assert slot.leaving is not EvictionCause.NO
        assert any(can(slot, e) for e in Event), "a slot is never stuck"
