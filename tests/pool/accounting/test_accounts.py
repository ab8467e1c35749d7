"""Priorities: half-life, factors, usage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pool.accounting import Accountant, Factors, Group, GroupTree, SubmitterUse
from pool.accounting.account_ads import CycleFigures, GroupFigures, accounting_ads
from pool.accounting.accounts import weight_of
from pool.accounting.quotas import Quota
from pool.base.errors import UserError
from pool.classad import ClassAd, parse_longs

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
    accountant.set("a@p", "Priority", 5.0, now=0.0)
    assert accountant.account("a@p").priority == 5.0
    assert accountant.account("a@p").effective == 5000.0
    accountant.set("a@p", "Priority", 0.0, now=0.0)
    assert accountant.account("a@p").effective == 500.0
    accountant.set("a@p", "AccumulatedUsage", 0.0, now=77.0)
    assert accountant.account("a@p").began_at == 77.0
    with pytest.raises(UserError, match="Colour is not an attribute"):
        accountant.set("a@p", "Colour", 1.0, now=0.0)
    with pytest.raises(UserError, match="too small"):
        accountant.set("a@p", "PriorityFactor", 0.5, now=0.0)


def test_what_was_used_by_weight_is_set_alone_and_with_a_reset_all_of_it_begins_anew() -> None:
    """As in HTCondor 25.14: -setaccum leaves the unweighted usage and its begin, -resetusage leaves neither."""
    accountant = Accountant()
    accountant.charge({"a@p": SubmitterUse(2, 4.0)}, now=100.0)
    accountant.charge({}, now=191.0)
    accountant.set("a@p", "WeightedAccumulatedUsage", 0.0, now=200.0)
    account = accountant.account("a@p")
    assert (account.usage_s, account.weighted_usage_s, account.began_at) == (182.0, 0.0, 100.0)
    accountant.set("a@p", "AccumulatedUsage", 0.0, now=200.0)
    account = accountant.account("a@p")
    assert (account.usage_s, account.weighted_usage_s, account.began_at) == (0.0, 0.0, 200.0)


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
    assert accountant.account("ann").factor == 1000.0


def test_a_lease_ends_and_what_was_before_counts_again() -> None:
    accountant = Accountant(DAY)
    accountant.set("a@p", "Ceiling", 8.0, now=100.0)
    accountant.set("a@p", "ceiling", 2.0, now=100.0, lease_s=60.0)
    with pytest.raises(UserError, match="a lease of Ceiling is in effect for a@p, for 40 s more"):
        accountant.set("a@p", "Ceiling", 3.0, now=120.0, lease_s=60.0)
    accountant.charge({}, now=159.0)
    assert accountant.account("a@p").ceiling == 2.0
    accountant.charge({}, now=160.0)
    assert (accountant.account("a@p").ceiling, accountant.account("a@p").leases) == (8.0, ())


def test_a_lease_that_is_cancelled_gives_back_what_was_before() -> None:
    accountant = Accountant(DAY)
    accountant.set("a@p", "PriorityFactor", 10.0, now=100.0, lease_s=60.0)
    accountant.cancel_lease("a@p", "PriorityFactor")
    assert accountant.account("a@p").factor == 1000.0
    with pytest.raises(UserError, match="no lease of PriorityFactor is in effect for a@p"):
        accountant.cancel_lease("a@p", "PriorityFactor")
    with pytest.raises(UserError, match="cannot be set for a time"):
        accountant.set("a@p", "Priority", 1.0, now=0.0, lease_s=5.0)


@pytest.mark.parametrize(("attribute", "value"), [("Ceiling", -2.0), ("Floor", -1.0), ("PriorityFactor", 0.9)])
def test_figures_that_are_too_small_are_refused(attribute: str, value: float) -> None:
    with pytest.raises(UserError, match="is too small"):
        Accountant().set("a@p", attribute, value, now=0.0)


def test_a_group_is_charged_for_what_its_submitters_hold() -> None:
    tree = GroupTree([Group("group_a", 4, is_static=True, factor=20.0), Group("group_a.b", 2, is_static=True)])
    accountant = Accountant(DAY, Factors(groups=tree))
    use = {"group_a.x@p": SubmitterUse(1, 2.0), "group_a.b.y@p": SubmitterUse(1, 3.0), "z@p": SubmitterUse(1, 4.0)}
    accountant.charge(use, now=100.0)
    accountant.charge(use, now=110.0)
    held = {name: accountant.account(name).weighted_in_use for name in ("group_a", "group_a.b", "<none>")}
    assert held == {"group_a": 2.0, "group_a.b": 3.0, "<none>": 4.0}
    assert accountant.account("group_a.b").weighted_usage_s == 30.0
    assert accountant.account("group_a.x@p").factor == 20.0
    assert accountant.account("z@p").factor == 1000.0
    ads = {ad.eval_str("Name"): ad for ad in accounting_ads(accountant)}
    assert ads["group_a"]["HierWeightedResourcesUsed"] == 5.0
    assert ads["<none>"]["HierWeightedResourcesUsed"] == 4.0
    assert (ads["group_a"]["IsAccountingGroup"], ads["z@p"]["AccountingGroup"]) == (True, "<none>")


OTHERWISE = {"Priority", "SubmitterLimit", "SubmitterShare", "UnchargedTime", "WeightedUnchargedTime", "MyType"}
"""What is compared by itself, what a cycle finds of submitters, and what only HTCondor's ads at the collector have."""
UNUSED = {"AccumulatedUsage", "WeightedAccumulatedUsage"}
"""Absent there, and 0 here, of those who have used nothing."""


def test_accounts_are_told_as_htcondor_tells_them() -> None:
    recorded = Path(__file__).parents[2] / "cases" / "accounts" / "groups_at_work.ads"
    theirs = {ad.eval_str("Name", ""): ad for ad in parse_longs(recorded.read_text().splitlines())}
    ours = {ad.eval_str("Name", ""): ad for ad in accounting_ads(charged_like(theirs), figures_of(theirs))}
    assert ours.keys() == theirs.keys()
    for name, ad in theirs.items():
        missing = UNUSED - set(ad)
        compared = set(ours[name]) - OTHERWISE - missing
        assert {one: ours[name][one] for one in compared} == {one: ad[one] for one in set(ad) - OTHERWISE}
        # HTCondor charges once a second, and rounds what has passed.
        assert ours[name]["Priority"] == pytest.approx(ad["Priority"], rel=0.01)


def charged_like(theirs: Mapping[str, ClassAd]) -> Accountant:
    """An accountant with those groups, whose users began when they did and hold what they do."""
    tree = GroupTree(
        [
            Group("group_a", 8, is_static=True, accepts_surplus=True),
            Group("group_a.sub", 3, is_static=True, accepts_surplus=True),
            Group("group_b", 0.25, is_static=False),
        ]
    )
    accountant = Accountant(DAY, Factors(groups=tree))
    users = {name: ad for name, ad in theirs.items() if not ad.eval_bool("IsAccountingGroup")}
    for name, ad in users.items():
        accountant.set(name, "PriorityFactor", ad.eval_float("PriorityFactor", 0.0), now=1.0)
        accountant.set(name, "Ceiling", ad.eval_float("Ceiling", 0.0), now=1.0)
    held: dict[str, SubmitterUse] = {}
    for began, name in sorted((ad.eval_int("BeginUsageTime", 0), name) for name, ad in users.items()):
        if began:
            used = users[name].eval_int("ResourcesUsed", 0)
            held[name] = SubmitterUse(used, float(used))
            accountant.charge(held, now=float(began))
    accountant.charge(held, now=theirs["<none>"].eval_float("LastUpdate", 0.0))
    return accountant


def figures_of(theirs: Mapping[str, ClassAd]) -> CycleFigures:
    """What the cycles there had found of groups."""

    def figures(ad: ClassAd) -> GroupFigures:
        own, subtree, requested, key = (
            ad.eval_float(name, 0.0) for name in ("EffectiveQuota", "SubtreeQuota", "Requested", "GroupSortKey")
        )
        return GroupFigures(Quota(own, subtree), requested, key)

    return CycleFigures(groups={name: figures(ad) for name, ad in theirs.items() if ad.eval_bool("IsAccountingGroup")})
