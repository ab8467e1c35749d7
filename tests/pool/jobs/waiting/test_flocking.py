"""Who is offered to which further pools, and when."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd
from pool.jobs.waiting.flocking import FlockLevels, FlockRules

A, B, C = "cm.a.test", "cm.b.test", "cm.c.test"
ALICE = "alice@home.test"


def rules(*, increment: int = 1, least: int = 0, by_default: bool = True) -> FlockRules:
    return FlockRules.of([A, B, C], [], increment, least, by_default)


def test_a_level_grows_when_the_last_pool_that_was_asked_has_no_slot() -> None:
    levels = FlockLevels(rules())
    assert levels.level(ALICE) == 0
    assert levels.unsatisfied(ALICE, 0, 1.0)
    assert levels.level(ALICE) == 1
    assert not levels.unsatisfied(ALICE, 0, 2.0)  # the home pool says so again, and the next has not spoken
    assert [levels.unsatisfied(ALICE, level, 3.0) for level in (1, 2, 3)] == [True, True, False]
    assert levels.level(ALICE) == 3


def test_a_level_grows_by_the_increment() -> None:
    levels = FlockLevels(rules(increment=2))
    assert levels.unsatisfied(ALICE, 0, 1.0)
    assert levels.level(ALICE) == 2
    assert levels.unsatisfied(ALICE, 2, 1.0)
    assert levels.level(ALICE) == 3


def test_other_rules_count_at_once_and_so_do_other_pools() -> None:
    levels = FlockLevels(FlockRules.of([A, B], [], 1, 0, True))
    levels.rules = rules(increment=2)
    assert levels.unsatisfied(ALICE, 0, 1.0)
    assert levels.level(ALICE) == 2
    levels.rules = rules(least=3)
    assert levels.level("bob@here") == 3
    levels.rules = FlockRules.of([A], [], 1, 0, True)
    assert levels.level(ALICE) == 1
    levels.rules = FlockRules()
    assert levels.level(ALICE) == 0


def test_a_level_falls_to_the_pool_that_took_the_last_job() -> None:
    levels = FlockLevels(rules())
    for level in range(3):
        levels.unsatisfied(ALICE, level, 1.0)
    assert levels.satisfied(ALICE, 1, 2.0)
    assert levels.level(ALICE) == 1
    assert not levels.satisfied(ALICE, 3, 3.0)  # one further away does not make it grow
    assert levels.satisfied(ALICE, 0, 4.0)
    assert levels.level(ALICE) == 0


def test_no_level_falls_below_the_least() -> None:
    levels = FlockLevels(rules(least=2))
    assert levels.level(ALICE) == 2
    assert not levels.satisfied(ALICE, 0, 1.0)
    assert levels.level(ALICE) == 2


def test_a_pool_that_says_nothing_is_waited_for_so_long() -> None:
    levels = FlockLevels(rules())
    assert levels.quiet([ALICE], 100.0, 60.0) == []
    assert levels.quiet([ALICE], 160.0, 60.0) == []
    assert levels.quiet([ALICE], 160.5, 60.0) == [ALICE]
    assert levels.level(ALICE) == 1
    assert levels.quiet([ALICE], 200.0, 60.0) == []  # it is the next pool's turn


def test_levels_of_submitters_are_their_own() -> None:
    levels = FlockLevels(rules())
    levels.unsatisfied(ALICE, 0, 1.0)
    assert levels.level("bob@home.test") == 0
    assert levels.highest(["bob@home.test", ALICE]) == 1
    assert levels.highest([]) == 0


@pytest.mark.parametrize(
    ("by_default", "flock_to", "may"),
    [
        (True, None, {A, B, C}),
        (True, B, {A, B, C}),
        (False, None, set()),
        (False, f"{B}, {C}", {B, C}),
        (False, B.upper(), {B}),
        (False, "default", {A, B, C}),
    ],
)
def test_which_pools_a_job_may_go_to(by_default: bool, flock_to: str | None, may: set[str]) -> None:
    job = ClassAd() if flock_to is None else ClassAd({"FlockTo": flock_to})
    found = rules(by_default=by_default)
    assert {pool for pool in (A, B, C) if found.may_flock(job, pool)} == may
    assert found.may_flock(job, "")


def test_a_pool_that_is_not_configured_is_none_to_go_to() -> None:
    assert not rules().may_flock(ClassAd(), "cm.elsewhere.test")


def test_lists_of_different_lengths_make_no_pools() -> None:
    found = FlockRules.of([A, B], [A], 1, 0, True)
    assert found.pools == ()
    assert "same length" in found.trouble
