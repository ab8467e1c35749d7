"""The owner's expressions: which event they ask for, where, and how long a job may stay."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from pool.classad import ClassAd, expr
from pool.slots.policy import (
    Eviction,
    Policy,
    PolicyFacts,
    eviction_times,
    leave_event,
    next_event,
    read_policy,
    retirement_s,
    wants_hold,
)
from pool.slots.state_machine import Activity, Event, EvictionCause, SlotState, State
from tests.own_attributes import own


def policy(**knobs: str) -> Policy:
    return read_policy(lambda name: expr(knobs[name]) if name in knobs else None)


def wanted(
    where: str,
    knobs: Mapping[str, str],
    *,
    ad: Mapping[str, object] | None = None,
    job: Mapping[str, object] | None = None,
    leaving: EvictionCause = EvictionCause.NO,
    facts: PolicyFacts = PolicyFacts(),
) -> Event | None:
    state, activity = where.split("/")
    slot = SlotState(State(state), Activity(activity), leaving=leaving)
    job_ad = ClassAd({"JobUniverse": 5, **(job or {})})
    return next_event(policy(**knobs), slot, ClassAd(ad or {}), job_ad, facts)


CASES: list[tuple[str, dict[str, str], Event | None]] = [
    ("Owner/Idle", {}, Event.OWNER_LEFT),
    ("Owner/Idle", {"IS_OWNER": "true"}, None),
    ("Unclaimed/Idle", {}, None),
    ("Unclaimed/Idle", {"IS_OWNER": "true"}, Event.OWNER_BACK),
    ("Unclaimed/Idle", {"START": "false"}, None),
    ("Matched/Idle", {}, None),
    ("Matched/Idle", {"START": "false"}, Event.MATCH_OVER),
    ("Claimed/Idle", {}, None),
    ("Claimed/Idle", {"START": "Owner == 7"}, None),
    ("Claimed/Idle", {"START": "false"}, Event.VACATE),
    ("Claimed/Idle", {"START": "false", "WANT_VACATE": "false"}, Event.KILL),
    ("Claimed/Busy", {}, None),
    ("Claimed/Busy", {"IS_OWNER": "true", "START": "false"}, None),
    ("Claimed/Busy", {"PREEMPT": "true"}, Event.PREEMPT),
    ("Claimed/Busy", {"PREEMPT": "undefined"}, None),
    ("Claimed/Busy", {"PREEMPT": "true", "WANT_SUSPEND": "true"}, None),
    ("Claimed/Busy", {"PREEMPT": "true", "WANT_SUSPEND": "undefined"}, Event.PREEMPT),
    ("Claimed/Busy", {"SUSPEND": "true"}, None),
    ("Claimed/Busy", {"SUSPEND": "true", "WANT_SUSPEND": "true"}, Event.SUSPEND),
    ("Claimed/Busy", {"SUSPEND": "true", "WANT_SUSPEND_VANILLA": "true"}, Event.SUSPEND),
    ("Claimed/Busy", {"SUSPEND": "true", "WANT_SUSPEND": "true", "SUSPEND_VANILLA": "false"}, None),
    ("Claimed/Busy", {"SUSPEND": "true", "WANT_SUSPEND_VM": "true"}, None),
    ("Claimed/Suspended", {}, Event.CONTINUE),
    ("Claimed/Suspended", {"CONTINUE": "false"}, None),
    ("Claimed/Suspended", {"CONTINUE": "false", "PREEMPT": "true"}, Event.PREEMPT),
    ("Claimed/Retiring", {}, None),
    ("Claimed/Retiring", {"SUSPEND": "true", "WANT_SUSPEND": "true"}, Event.SUSPEND),
    ("Claimed/Retiring", {"SUSPEND": "true", "WANT_SUSPEND": "true", "PREEMPT": "true"}, None),
    ("Preempting/Vacating", {}, None),
    ("Preempting/Vacating", {"KILL": "true"}, Event.KILL),
    ("Backfill/Busy", {}, None),
    ("Backfill/Busy", {"EVICT_BACKFILL": "true"}, Event.EVICT_BACKFILL),
]


@pytest.mark.parametrize(("where", "knobs", "event"), CASES)
def test_what_the_policy_wants(where: str, knobs: dict[str, str], event: Event | None) -> None:
    assert wanted(where, knobs) is event


def test_deadlines_move_a_slot_on() -> None:
    leaving = EvictionCause.FOR_GOOD
    assert wanted("Claimed/Retiring", {}, leaving=leaving, facts=PolicyFacts(retirement_over=True)) is Event.VACATE
    assert wanted("Claimed/Suspended", {}, leaving=leaving, facts=PolicyFacts(retirement_over=True)) is Event.VACATE
    no_vacate = {"WANT_VACATE": "false"}
    assert wanted("Claimed/Retiring", no_vacate, leaving=leaving, facts=PolicyFacts(retirement_over=True)) is Event.KILL
    assert wanted("Preempting/Vacating", {}, leaving=leaving, facts=PolicyFacts(vacate_over=True)) is Event.KILL
    assert wanted("Matched/Idle", {}, facts=PolicyFacts(match_over=True)) is Event.MATCH_OVER
    assert wanted("Claimed/Idle", {}, facts=PolicyFacts(worklife_over=True)) is Event.VACATE


def test_draining_takes_every_slot_towards_drained() -> None:
    draining = PolicyFacts(draining=True)
    for where, event in {
        "Owner/Idle": Event.DRAIN,
        "Unclaimed/Idle": Event.DRAIN,
        "Matched/Idle": Event.MATCH_OVER,
        "Claimed/Idle": Event.VACATE,
        "Claimed/Busy": Event.PREEMPT,
        "Claimed/Suspended": Event.PREEMPT,
        "Backfill/Busy": Event.EVICT_BACKFILL,
    }.items():
        assert wanted(where, {}, facts=draining) is event


def test_a_desktop_whose_start_needs_a_certain_user_becomes_unclaimed_only_when_undefined() -> None:
    desktop = {"IS_OWNER": "START =?= false"}
    keys = {"KeyboardIdle": 34}
    both = {**keys, "START": expr('KeyboardIdle > 15 * 60 && Owner == "coltrane"')}
    either = {**keys, "START": expr('KeyboardIdle > 15 * 60 || Owner == "coltrane"')}
    assert wanted("Owner/Idle", desktop, ad=both) is None
    assert wanted("Owner/Idle", desktop, ad=either) is Event.OWNER_LEFT


def test_the_test_jobs_of_coltrane_are_left_alone() -> None:
    knobs = {"SUSPEND": '(KeyboardIdle < 60) && Owner != "coltrane"', "WANT_SUSPEND": "true"}
    busy = {"KeyboardIdle": 3}
    assert wanted("Claimed/Busy", knobs, ad=busy, job={"Owner": "coltrane"}) is None
    assert wanted("Claimed/Busy", knobs, ad=busy, job={"Owner": "tyner"}) is Event.SUSPEND


@pytest.mark.parametrize(
    ("ran", "retirement", "job", "soft_at", "hard_at"),
    [
        (600, 3600, None, 3000, 3600),
        (600, 3600, 60, 3540, 3600),
        (600, 3600, 1200, 2400, 3600),
        (600, 0, 1200, 600, 1200),
        (600, 0, None, 600, 1200),
        (600, 600, 60, 600, 660),
        (3300, 3600, None, 3300, 3900),
    ],
)
def test_unused_retirement_becomes_time_to_vacate(
    ran: float, retirement: float, job: float | None, soft_at: float, hard_at: float
) -> None:
    leave = eviction_times(ran_s=ran, retirement_s=retirement, machine_s=600, job_s=job)
    assert (ran + leave.soft_in_s, ran + leave.soft_in_s + leave.vacate_s) == (soft_at, hard_at)


def test_a_peaceful_shutdown_waits_for_ever() -> None:
    assert eviction_times(ran_s=5, retirement_s=math.inf, machine_s=600, job_s=None) == Eviction(math.inf, 600)


def test_a_job_may_only_lower_its_retirement() -> None:
    granting = policy(MAXJOBRETIREMENTTIME="3600")
    slot = ClassAd()
    assert retirement_s(granting, slot, ClassAd()) == 3600
    assert retirement_s(granting, slot, ClassAd({"MaxJobRetirementTime": 60})) == 60
    assert retirement_s(granting, slot, ClassAd({"MaxJobRetirementTime": 7200})) == 3600
    assert retirement_s(granting, slot, ClassAd({"MaxJobRetirementTime": 0})) == 0
    per_type = policy(MAXJOBRETIREMENTTIME="(IsDesktop =!= True) * 100")
    assert retirement_s(per_type, ClassAd(own(IsDesktop=True)), ClassAd()) == 0
    assert retirement_s(per_type, slot, ClassAd()) == 100


def test_want_hold_says_why() -> None:
    job = ClassAd({"ImageSize": 5000})
    holding = policy(WANT_HOLD="ImageSize > 4000", WANT_HOLD_REASON='"too big"', WANT_HOLD_SUBCODE="7")
    assert wants_hold(holding, ClassAd(), job) == ("too big", 21, 7)
    assert wants_hold(holding, ClassAd(), ClassAd({"ImageSize": 1})) is None


def test_an_expression_without_a_truth_value_means_kill_at_once_only_for_want_vacate() -> None:
    assert leave_event(policy(WANT_VACATE='"yes"'), ClassAd(), None) is Event.KILL
    assert wanted("Claimed/Busy", {"PREEMPT": '"yes"'}) is None
    assert wanted("Claimed/Busy", {"PREEMPT": "1.5"}) is Event.PREEMPT


RANKS = [
    (
        '(Owner == "coltrane") + (Owner == "tyner") + ((Owner == "garrison") * 10) + (Owner == "jones")',
        "garrison",
        10.0,
    ),
    ('(Owner == "coltrane") + (Owner == "tyner") + ((Owner == "garrison") * 10) + (Owner == "jones")', "jones", 1.0),
    ('(Owner == "coltrane" * 1000000000000) + Imagesize', "coltrane", 0.0),
    ("undefined", "tyner", 0.0),
]


@pytest.mark.parametrize(("text", "owner", "rank"), RANKS)
def test_rank_that_is_no_number_counts_as_nothing(text: str, owner: str, rank: float) -> None:
    assert policy(RANK=text).number("RANK", ClassAd(), ClassAd({"Owner": owner, "ImageSize": 5}), 0.0) == rank
