"""Which power state a machine goes into, by what its slots say."""

from __future__ import annotations

import pytest

from pool.classad import expr
from pool.power.states import SleepState, agreed, objection, sleep_attributes, state_of, states_of, vote
from pool.slots.state_machine import State

S = SleepState
NAMED = {
    S.NONE: ["NONE", "none", "0", 0, "S0", "", "S6", "6", 6, -1, True, 3.0, None, "freeze"],
    S.S1: ["S1", "s1", "1", 1, "standby", "SLEEP"],
    S.S2: ["S2", "2", 2],
    S.S3: ["S3", "3", 3, "RAM", "ram", "Mem", "suspend", " RAM "],
    S.S4: ["S4", "4", 4, "DISK", "hibernate"],
    S.S5: ["S5", "5", 5, "SHUTDOWN", "off"],
}


@pytest.mark.parametrize(("state", "value"), [(state, value) for state, values in NAMED.items() for value in values])
def test_a_state_is_named_by_a_word_or_a_number(state: SleepState, value: object) -> None:
    assert state_of(value) is state


def test_what_is_undefined_or_wrong_names_no_state() -> None:
    assert state_of(expr("Nothing").eval()) is S.NONE
    assert state_of(expr('1 / "x"').eval()) is S.NONE


def test_the_deepest_state_counts_where_all_slots_want_one() -> None:
    assert agreed([S.S3, S.S4, S.S1]) is S.S4
    assert agreed([S.S3]) is S.S3


def test_one_slot_keeps_the_machine_awake() -> None:
    assert agreed([S.S5, S.NONE, S.S3]) is S.NONE
    assert agreed([]) is S.NONE


@pytest.mark.parametrize("state", list(State))
def test_a_slot_that_has_a_claim_or_expects_one_wants_no_sleep_whatever_its_expression_says(state: State) -> None:
    taken = state in (State.MATCHED, State.CLAIMED, State.PREEMPTING)
    assert vote(state, "RAM") is (S.NONE if taken else S.S3)


def test_a_list_of_states_is_read_in_any_names() -> None:
    assert states_of("S3, disk off") == {S.S3, S.S4, S.S5}
    assert states_of("NONE") == states_of("") == frozenset()


def test_a_machine_goes_only_into_a_state_that_it_has() -> None:
    why = objection(S.S4, frozenset({S.S3, S.S5}), wakeable=True, override=False)
    assert why == "this machine cannot go into S4 (it has S3, S5)"
    assert objection(S.S4, frozenset(), wakeable=True, override=False) == "this machine cannot go into S4 (it has none)"
    assert objection(S.S3, frozenset({S.S3}), wakeable=True, override=False) == ""


def test_a_machine_that_nobody_can_wake_sleeps_only_by_order() -> None:
    assert "HIBERNATION_OVERRIDE_WOL" in objection(S.S3, frozenset({S.S3}), wakeable=False, override=False)
    assert objection(S.S3, frozenset({S.S3}), wakeable=False, override=True) == ""


def test_ads_tell_the_state_and_those_that_there_are() -> None:
    assert sleep_attributes(S.S3, frozenset({S.S5, S.S3})) == {
        "HibernationLevel": 3,
        "HibernationState": "S3",
        "HibernationSupportedStates": "S3,S5",
        "CanHibernate": True,
    }
    assert sleep_attributes(S.NONE, frozenset())["CanHibernate"] is False
