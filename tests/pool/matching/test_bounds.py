"""What bounds submitters in a cycle: quotas of groups, ceilings and floors, concurrency limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from pool.accounting.accounts import weight_by
from pool.accounting.groups import Group, GroupTree
from pool.accounting.quotas import QuotaSettings
from pool.classad import expr
from pool.matching import CyclePlan, CycleSettings, Offer, PreemptionPolicy, RankOrder, Snapshot, Standing, negotiate
from pool.matching.snapshot import TimeLimits
from protocol.messages.offers import OfferedMatch
from tests.pool.matching.test_cycle import a_pslot, a_request, a_slot, by_submitter

DEFAULT_ORDER = expr(
    'ifThenElse(AccountingGroup=?="<none>",3.4e+38,ifThenElse(GroupQuota>0,GroupResourcesInUse/GroupQuota,3.3e+38))'
)


def grouped(*groups: Group, rounds: int = 3, rate: float = float("inf"), strict: bool = True) -> CycleSettings:
    return CycleSettings(
        groups=GroupTree(groups), quotas=QuotaSettings(rounds=rounds, rate=rate, sort=DEFAULT_ORDER, strict=strict)
    )


def static(name: str, quota: float, *, surplus: bool = False, regroup: bool = False) -> Group:
    return Group(name, quota, is_static=True, accepts_surplus=surplus, regroups=regroup)


def slots(count: int) -> list[Offer]:
    return [a_slot(f"s{n}") for n in range(count)]


def reasons(plan: CyclePlan) -> dict[str, str]:
    return {one.request.submitter: one.reason for one in plan.rejections}


@pytest.mark.parametrize("layout", ["static", "partitionable"])
def test_a_group_gets_no_more_than_its_quota(layout: str) -> None:
    free = slots(30) if layout == "static" else [a_pslot("p", 16), a_pslot("q", 14)]
    requests = [a_request("group_physics.einstein@p", 40), a_request("group_chemistry.curie@p", 40)]
    settings = grouped(static("group_physics", 20), static("group_chemistry", 6))
    plan = negotiate(Snapshot(free, requests, settings=settings, pool_weight=30))
    assert by_submitter(plan) == {"group_physics.einstein@p": 20, "group_chemistry.curie@p": 6}
    assert reasons(plan) == {
        "group_physics.einstein@p": "the quota of the group group_physics allows no more than 20",
        "group_chemistry.curie@p": "the quota of the group group_chemistry allows no more than 6",
    }
    assert sum(one.unmatched for one in plan.rejections) == 54


def test_a_match_says_in_whose_turn_it_was_made() -> None:
    settings = grouped(static("a", 1, regroup=True), static("b", 1))
    requests = [a_request("a.x@p", 2), a_request("b.y@p", 2), a_request("z@p", 1)]
    plan = negotiate(Snapshot(slots(9), requests, settings=settings, pool_weight=9))
    made = [(one.request.submitter, one.group, one.regrouped) for one in plan.matches]
    assert sorted(made) == [
        ("a.x@p", "<none>", True),
        ("a.x@p", "a", False),
        ("b.y@p", "b", False),
        ("z@p", "<none>", False),
    ]
    assert OfferedMatch.of(plan.matches[0], {}).exprs == {
        "RemoteNegotiatingGroup": f'"{plan.matches[0].group}"',
        "RemoteAutoregroup": "false",
    }
    plain = negotiate(Snapshot(slots(1), [a_request()]))
    assert OfferedMatch.of(plain.matches[0], {}).exprs == {}


def test_what_a_group_holds_counts() -> None:
    settings = grouped(static("g", 5))
    standings = {"g.a@p": Standing(use=3.0, slots=3)}
    snapshot = Snapshot(slots(9), [a_request("g.a@p", 9), a_request("g.b@p", 9)], standings, settings, pool_weight=12)
    assert by_submitter(negotiate(snapshot)) == {"g.b@p": 2}


def test_members_of_a_group_share_its_quota_by_their_priorities() -> None:
    standings = {"g.a@p": Standing(10.0), "g.b@p": Standing(20.0)}
    requests = [a_request("g.a@p", 99), a_request("g.b@p", 99)]
    plan = negotiate(Snapshot(slots(30), requests, standings, grouped(static("g", 12)), pool_weight=30))
    assert by_submitter(plan) == {"g.a@p": 8, "g.b@p": 4}


def test_those_of_no_group_get_what_no_group_has() -> None:
    requests = [a_request("g.a@p", 99), a_request("b@p", 99)]
    plan = negotiate(Snapshot(slots(30), requests, settings=grouped(static("g", 12)), pool_weight=30))
    assert by_submitter(plan) == {"g.a@p": 12, "b@p": 18}


def test_the_most_starved_group_is_served_first() -> None:
    settings = grouped(static("a", 10), static("b", 10))
    standings = {"a.x@p": Standing(use=6.0), "b.y@p": Standing(use=1.0)}
    snapshot = Snapshot(slots(2), [a_request("a.x@p", 9), a_request("b.y@p", 9)], standings, settings, pool_weight=20)
    assert by_submitter(negotiate(snapshot)) == {"b.y@p": 2}


def test_surplus_goes_to_who_accepts_it() -> None:
    requests = [a_request("a.x@p", 3), a_request("b.y@p", 99)]
    for surplus, expected in ((True, 17), (False, 10)):
        settings = grouped(static("a", 10, surplus=surplus), static("b", 10, surplus=surplus))
        plan = negotiate(Snapshot(slots(20), requests, settings=settings, pool_weight=20))
        assert by_submitter(plan) == {"a.x@p": 3, "b.y@p": expected}


def test_what_a_group_cannot_use_is_allocated_again_in_the_next_round() -> None:
    requests = [a_request("a.x@p", 99, Requirements=expr("TARGET.Memory > 5000")), a_request("b.y@p", 99)]
    both = (static("a", 10, surplus=True), static("b", 10, surplus=True))
    plan = negotiate(Snapshot(slots(20), requests, settings=grouped(*both), pool_weight=20))
    assert by_submitter(plan) == {"b.y@p": 20}
    plan = negotiate(Snapshot(slots(20), requests, settings=grouped(*both, rounds=1), pool_weight=20))
    assert by_submitter(plan) == {"b.y@p": 10}


def test_a_group_with_autoregroup_takes_what_those_of_no_group_leave() -> None:
    requests = [a_request("a.x@p", 99), a_request("b@p", 3)]
    plan = negotiate(Snapshot(slots(20), requests, settings=grouped(static("a", 5, regroup=True)), pool_weight=20))
    assert by_submitter(plan) == {"a.x@p": 17, "b@p": 3}


def test_a_small_round_robin_rate_gives_all_groups_some_of_what_they_both_want() -> None:
    big = "TARGET.Memory > 5000"
    requests = [a_request("a.x@p", 9, Requirements=expr(big)), a_request("b.y@p", 9, Requirements=expr(big))]
    few = [a_slot(f"big{n}", Memory=8192) for n in range(4)] + slots(16)
    both = (static("a", 10), static("b", 10))
    at_once = negotiate(Snapshot(few, requests, settings=grouped(*both), pool_weight=20))
    assert by_submitter(at_once) == {"a.x@p": 4}
    in_turns = negotiate(Snapshot(few, requests, settings=grouped(*both, rate=1.0), pool_weight=20))
    assert by_submitter(in_turns) == {"a.x@p": 2, "b.y@p": 2}


def test_a_job_that_is_too_large_for_one_turn_has_another() -> None:
    wide = a_request("a.x@p", 2, RequestCpus=2)
    settings = grouped(static("a", 4), rate=1.0)
    plan = negotiate(Snapshot([a_pslot("p", 4)], [wide], settings=settings, pool_weight=4))
    assert (by_submitter(plan), plan.rejections) == ({"a.x@p": 2}, [])


def test_a_job_that_is_too_large_for_the_quota_lets_smaller_ones_pass() -> None:
    large, small = a_request("g.a@p", 1, prio=9, RequestCpus=4), a_request("g.a@p", 9, RequestCpus=1)
    plan = negotiate(Snapshot([a_pslot("p", 16)], [large, small], settings=grouped(static("g", 3)), pool_weight=16))
    assert Counter(matched.request.prio for matched in plan.matches) == {0: 3}
    assert {one.request.prio: one.unmatched for one in plan.rejections} == {9: 1, 0: 6}


def test_nobody_gets_more_than_his_ceiling() -> None:
    standings = {"a@p": Standing(use=1.0, slots=1, ceiling=3.0), "b@p": Standing(ceiling=0.0)}
    plan = negotiate(Snapshot(slots(9), [a_request("a@p", 9), a_request("b@p", 2)], standings, pool_weight=10))
    assert by_submitter(plan) == {"a@p": 2}
    assert reasons(plan) == {
        "a@p": "the ceiling of a@p allows no more than 3",
        "b@p": "the ceiling of b@p allows no more than 0",
    }


def test_who_is_below_his_floor_comes_before_all_others() -> None:
    standings = {"good@p": Standing(1.0), "poor@p": Standing(1e6, floor=3.0)}
    requests = [a_request("good@p", 9), a_request("poor@p", 9)]
    assert by_submitter(negotiate(Snapshot(slots(4), requests, standings))) == {"poor@p": 3, "good@p": 1}
    standings["poor@p"] = replace(standings["poor@p"], use=3.0)
    assert by_submitter(negotiate(Snapshot(slots(4), requests, standings))) == {"good@p": 4}


@pytest.mark.parametrize("layout", ["static", "partitionable"])
def test_no_more_jobs_start_than_a_concurrency_limit_allows(layout: str) -> None:
    free = slots(9) if layout == "static" else [a_pslot("p", 9)]
    settings = CycleSettings(capacity={"xsw": 3.0}.__getitem__)
    requests = [a_request("a@p", 9, ConcurrencyLimits="XSW"), a_request("b@p", 9, ConcurrencyLimits="xsw:2")]
    plan = negotiate(Snapshot(free, requests, settings=settings, limits_used={"xsw": 1.0}))
    assert by_submitter(plan) == {"a@p": 2}
    assert reasons(plan) == {
        "a@p": "concurrency limit xsw reached: 3 of 3 are in use",
        "b@p": "concurrency limit xsw reached: 2 of 3 are in use, and the job needs 2",
    }


def test_a_limit_that_depends_on_the_slot_leaves_the_other_slots() -> None:
    settings = CycleSettings(capacity=lambda name: 1.0)
    request = a_request("a@p", 9, ConcurrencyLimits=expr("TARGET.Network"))
    free = [a_slot(f"{net}{n}", Network=net) for net in ("left", "right") for n in range(3)]
    plan = negotiate(Snapshot(free, [request], settings=settings))
    assert sorted(matched.slot for matched in plan.matches) == ["left0", "right0"]
    assert reasons(plan) == {"a@p": "concurrency limit right reached: 1 of 1 are in use"}


def test_preemption_sees_groups_and_what_they_hold() -> None:
    settings = replace(
        grouped(static("a", 1), static("b", 1)),
        order=RankOrder(
            preemption=PreemptionPolicy(requirements=expr("SubmitterGroup =?= RemoteGroup && RemoteGroupQuota == 1"))
        ),
    )
    standings = {
        name: Standing(prio, held, int(held)) for name, prio, held in (("a.x@p", 9.0, 1.0), ("b.y@p", 9.0, 1.0))
    }
    held = [a_slot("s1", claimed=True, RemoteOwner="a.x@p"), a_slot("s2", claimed=True, RemoteOwner="b.y@p")]
    asking = {**standings, "a.z@p": Standing(1.0)}
    plan = negotiate(Snapshot(held, [a_request("a.z@p", 5)], asking, settings, pool_weight=2))
    assert [matched.slot for matched in plan.matches] == ["s1"]


def test_who_has_had_his_time_waits_for_the_next_cycle_and_the_others_go_on() -> None:
    def plan(**limits: float) -> CyclePlan:
        ticks = count()
        requests = [a_request("a@p", 5), a_request("b@p", 1, Mark=1), a_request("c@p", 9, schedd="ap2")]
        times = TimeLimits(clock=lambda: float(next(ticks)), **limits)  # each match takes a second
        return negotiate(Snapshot(slots(20), requests, settings=CycleSettings(times=times)))

    assert by_submitter(plan()) == {"a@p": 5, "b@p": 1, "c@p": 9}
    bounded = plan(submitter_s=3.0)
    assert by_submitter(bounded) == {"a@p": 3, "b@p": 1, "c@p": 3}
    assert bounded.out_of_time == {"a@p", "c@p"}
    assert reasons(bounded)["a@p"] == "a@p has had the 3 s of a submitter in this negotiation cycle"
    assert [one.unmatched for one in bounded.rejections] == [2, 6]
    assert by_submitter(plan(schedd_s=4.0)) == {"a@p": 3, "b@p": 1, "c@p": 4}
    assert plan(schedd_s=4.0).schedds_out_of_time == {"ap1", "ap2"}
    assert sum(by_submitter(plan(cycle_s=7.0)).values()) == 7
    assert plan(cycle_s=7.0).at_limit == set()


def test_the_time_of_a_turn_is_another_in_the_next_turn() -> None:
    ticks = count()
    times = TimeLimits(clock=lambda: float(next(ticks)), spin_s=2.0)
    settings = grouped(static("g", 3, surplus=True), rounds=4)
    snapshot = Snapshot(slots(9), [a_request("g.a@p", 9)], settings=replace(settings, times=times), pool_weight=9)
    assert by_submitter(negotiate(snapshot)) == {"g.a@p": 8}  # two in each of four turns
    assert by_submitter(negotiate(replace(snapshot, settings=settings))) == {"g.a@p": 9}


def test_the_negotiators_own_weight_counts_where_it_is_forced() -> None:
    heavy = a_slot("s", SlotWeight=9, Memory=2048)
    assert weight_by(expr("Memory / 1024"))(heavy.ad) == 2.0
    assert weight_by(expr("NoSuchAttribute"))(heavy.ad) == 1.0  # Cpus, as where a slot says nothing useful


class TestOrders:
    """Fair share, a strict order, fixed fractions, and a mixture of these: what an administrator may choose."""

    WANT = ("gold.a@p", "iron.b@p", "iron.c@p", "d@p")

    def shares_of(self, settings: CycleSettings, many: int = 40) -> list[int]:
        requests = [a_request(name, many) for name in self.WANT]
        got = by_submitter(negotiate(Snapshot(slots(40), requests, settings=settings, pool_weight=40)))
        return [got.get(name, 0) for name in self.WANT]

    def test_fair_share_is_what_there_is_without_groups(self) -> None:
        assert self.shares_of(CycleSettings()) == [10, 10, 10, 10]

    def test_strict_order_serves_a_group_only_when_those_before_it_want_nothing_more(self) -> None:
        ranked = 'ifThenElse(AccountingGroup == "gold", 1, ifThenElse(AccountingGroup == "iron", 2, 3))'
        quotas = QuotaSettings(sort=expr(ranked), strict=False)
        settings = CycleSettings(groups=GroupTree([static("gold", 40), static("iron", 40)]), quotas=quotas)
        assert self.shares_of(settings) == [40, 0, 0, 0]
        assert self.shares_of(settings, many=15) == [15, 13, 12, 0]

    def test_fixed_fractions_leave_empty_what_their_groups_do_not_want(self) -> None:
        settings = grouped(Group("gold", 0.5), Group("iron", 0.25))
        assert self.shares_of(settings) == [20, 5, 5, 10]
        assert self.shares_of(settings, many=6) == [6, 5, 5, 6]

    def test_a_mixture_gives_one_group_its_fraction_and_all_others_what_is_left_by_fair_share(self) -> None:
        settings = grouped(Group("gold", 0.4), Group("iron", 0.3, accepts_surplus=True, regroups=True))
        assert self.shares_of(settings) == [16, 8, 8, 8]
