"""Priorities: half-life, factors, usage."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.matching import Accountant, Factors, SubmitterUse
from pool.matching.accounting import weight_of

DAY = 86400.0


def after(days: float, slots: int, *, start: float = 0.5) -> float:
    """The real priority after a time with so many slots."""
    accountant = Accountant(DAY, Factors(default=1.0))
    accountant.set("a@p", "Priority", start, now=1.0)
    accountant.charge({"a@p": SubmitterUse(slots, float(slots))}, now=1000.0)
    accountant.charge({"a@p": SubmitterUse(slots, float(slots))}, now=1000.0 + days * DAY)
    return accountant.account("a@p").priority


@pytest.mark.parametrize(
    ("days", "slots", "start", "expected"),
    [(1, 100, 0.5, 50.25), (1, 0, 100.0, 50.0), (2, 0, 100.0, 25.0), (50, 100, 0.5, 100.0), (50, 0, 100.0, 0.5)],
)
def test_half_of_the_way_is_gone_after_the_half_life(days: float, slots: int, start: float, expected: float) -> None:
    assert after(days, slots, start=start) == pytest.approx(expected)


def test_usage_adds_up_by_slots_and_by_weight() -> None:
    accountant = Accountant(DAY)
    accountant.charge({"a@p": SubmitterUse(2, 8.0)}, now=100.0)
    accountant.charge({}, now=160.0)
    accountant.charge({}, now=260.0)
    account = accountant.account("a@p")
    assert (account.usage_s, account.weighted_usage_s) == (120.0, 480.0)
    assert (account.began_at, account.last_used_at, account.in_use) == (100.0, 160.0, 0)


def test_a_clock_that_goes_back_charges_nothing() -> None:
    accountant = Accountant(DAY)
    accountant.charge({"a@p": SubmitterUse(1, 1.0)}, now=1000.0)
    accountant.charge({"a@p": SubmitterUse(1, 1.0)}, now=500.0)
    accountant.charge({"a@p": SubmitterUse(1, 1.0)}, now=1010.0)
    assert accountant.account("a@p").usage_s == 10.0


@pytest.mark.parametrize(
    ("submitter", "factor"),
    [("alice@pool.test", 1000.0), ("nice-user.alice@pool.test", 1e10), ("eve@elsewhere", 1e7)],
)
def test_factors_begin_by_who_it_is(submitter: str, factor: float) -> None:
    account = Accountant(factors=Factors(local_domain="pool.test")).account(submitter)
    assert account.factor == factor
    assert account.effective == pytest.approx(0.5 * factor)


def test_setting_the_priority_sets_the_real_one_and_wrong_attributes_are_named() -> None:
    accountant = Accountant()
    accountant.set("a@p", "Priority", 5000.0, now=0.0)
    assert accountant.account("a@p").priority == 5000.0
    assert accountant.account("a@p").effective == pytest.approx(5000.0 * 1000)
    accountant.set("a@p", "Priority", 0.0, now=0.0)
    assert accountant.account("a@p").priority == 0.5
    accountant.set("a@p", "AccumulatedUsage", 0.0, now=77.0)
    assert accountant.account("a@p").began_at == 77.0
    with pytest.raises(UserError, match="Colour is not an attribute"):
        accountant.set("a@p", "Colour", 1.0, now=0.0)
    with pytest.raises(UserError, match="too small"):
        accountant.set("a@p", "PriorityFactor", 0.5, now=0.0)


@pytest.mark.parametrize(
    ("slot", "weight"),
    [
        ({"SlotWeight": 2.5, "Cpus": 4}, 2.5),
        ({"SlotWeight": 0, "Cpus": 4}, 0.0),
        ({"SlotWeight": -1, "Cpus": 4}, 4.0),
        ({"SlotWeight": 1e300, "Cpus": 4}, 4.0),
        ({"SlotWeight": "much", "Cpus": 4}, 4.0),
        ({}, 1.0),
    ],
)
def test_a_slot_counts_for_its_weight_or_its_cpus_or_one(slot: dict[str, object], weight: float) -> None:
    assert weight_of(ClassAd(slot)) == weight


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("attribute", ["PriorityFactor", "BeginUsageTime", "LastUsageTime"])
def test_a_figure_that_is_no_number_spoils_no_account(attribute: str, value: float) -> None:
    accountant = Accountant()
    with pytest.raises(UserError, match="is no figure"):
        accountant.set("ann", attribute, value, now=1.0)
    assert [ad["PriorityFactor"] for ad in accountant.ads()] in ([], [1000.0])
