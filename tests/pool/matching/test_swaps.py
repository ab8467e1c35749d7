"""Two days of a pool in which users' jobs move each other aside: it comes to rest, or the half-life says how often."""

from __future__ import annotations

import pytest

from pool.accounting import Accountant, Factors, SubmitterUse
from pool.classad import expr
from pool.classad.values.environment import ENV
from pool.matching import CycleSettings, JobRequest, Offer, PreemptionPolicy, RankOrder, Snapshot, Standing, negotiate
from tests.pool.matching.test_cycle import a_pslot, a_request, a_slot

MINUTE, DAY = 60.0, 86400.0
LAYOUTS = ("static", "dynamic", "together")


class TwoDays:
    """Slots of one core, held by somebody or by nobody, and submitters with endless jobs; a cycle comes every other minute.

    Static slots, dynamic ones that are taken one by one, or with ALLOW_PSLOT_PREEMPTION.
    """

    def __init__(self, layout: str, holders: list[str], requests: list[JobRequest], requirements: str = "true") -> None:
        self.layout, self.requests = layout, requests
        self.held = {f"s1_{number}": name for number, name in enumerate(holders)}
        self.since = dict.fromkeys(self.held, 1000.0)
        policy = PreemptionPolicy(
            requirements=expr(requirements), rank=expr("RemoteUserPrio"), together=layout == "together"
        )
        self.settings = CycleSettings(RankOrder(preemption=policy))
        self.accountant = Accountant(DAY, Factors(default=1000.0))
        self.now = 1000.0

    def use(self) -> dict[str, SubmitterUse]:
        use = {one.submitter: SubmitterUse() for one in self.requests}
        for name in filter(None, self.held.values()):
            use[name] = use.get(name, SubmitterUse()) + SubmitterUse(1, 1.0)
        return use

    def offer(self, slot: str) -> Offer:
        if not self.held[slot]:
            return a_slot(slot)
        holder, ranks = self.held[slot], {one.submitter: one.ad.eval_float("Loved", 0.0) for one in self.requests}
        held = {"RemoteOwner": holder, "EnteredCurrentState": self.since[slot]}
        held |= {"Rank": expr("TARGET.Loved ?: 0"), "CurrentRank": ranks.get(holder, 0.0)}
        dynamic = {} if self.layout == "static" else {"DynamicSlot": True}
        return a_slot(slot, claimed=True, **held, **dynamic)

    def cycle(self) -> int:
        """How many jobs have to leave in this cycle."""
        use = self.use()
        self.accountant.charge(use, now=self.now)
        standings = {
            name: Standing(self.accountant.account(name).effective, held.weight, held.slots)
            for name, held in use.items()
        }
        slots = [self.offer(name) for name in self.held]
        parents = [a_pslot("s1", 0, ChildName=list(self.held))] if self.layout == "together" else []
        plan = negotiate(Snapshot(slots, self.requests, standings, self.settings, self.now, parents, len(slots)))
        for matched in plan.matches:
            for slot in [one.name for one in matched.room] or [matched.slot]:
                self.held[slot], self.since[slot] = matched.request.submitter, self.now
        return len(plan.matches)

    def run(self, days: float = 2.0, step: float = 2 * MINUTE) -> int:
        evicted = 0
        for _ in range(int(days * DAY / step)):
            evicted += self.cycle()
            self.now += step
        return evicted


def of(names: str) -> list[str]:
    """Submitters by one letter each."""
    return [f"{name}@p" for name in names]


def endless(names: str, **ad: object) -> list[JobRequest]:
    return [a_request(name, 9, **ad) for name in of(names)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("held", "want", "most"),
    [("a", "ab", 6), ("ab", "abc", 9), ("aaaa", "abcdefgh", 32)],
    ids=["two users, one slot", "three users, two slots", "eight users, four slots"],
)
def test_where_not_all_can_have_a_slot_they_take_turns_as_the_half_life_says(
    layout: str, held: str, want: str, most: int
) -> None:
    pool = TwoDays(layout, of(held), endless(want))
    assert len(held) <= pool.run() <= most  # each cycle moved somebody aside: 720 of them
    used = {name: pool.accountant.account(name).weighted_usage_s for name in of(want)}
    assert max(used.values()) - min(used.values()) < DAY / 2, used


@pytest.mark.parametrize("layout", ["static", "dynamic"])
def test_what_only_one_slot_has_does_not_change_hands_in_each_cycle(layout: str) -> None:
    """Both are due five slots, and each could have only this one."""
    pool = TwoDays(layout, [*of("a"), *[""] * 9], endless("ab", Requirements=expr("TARGET.RemoteOwner isnt undefined")))
    assert pool.run() <= 6


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("held", "want"), [("aaaaa", "ab"), ("aaaaaaaaaa", "abc"), ("aaaaaaabbb", "ab")])
def test_where_all_can_have_slots_the_pool_comes_to_rest(layout: str, held: str, want: str) -> None:
    pool = TwoDays(layout, of(held), endless(want))
    pool.run(6.0, 10 * MINUTE)
    assert pool.run(4.0, 10 * MINUTE) == 0, pool.held
    shares = [list(pool.held.values()).count(name) for name in of(want)]
    assert max(shares) - min(shares) <= 2, shares


def test_the_administrators_expression_may_ask_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = TwoDays("static", of("a"), endless("ab"), "RemoteUserPrio > 1.5 * SubmitterUserPrio")
    assert 1 <= pool.run() <= 3
    pool = TwoDays("static", of("a"), endless("ab"), "time() - EnteredCurrentState > 20 * 3600")
    monkeypatch.setattr(ENV, "clock", lambda: pool.now)
    assert pool.run() == 2


@pytest.mark.parametrize(("better", "moved"), [(1.25, 2), (1.15, 0)])
def test_a_priority_that_is_better_by_less_than_a_fifth_moves_nobody_aside(better: float, moved: int) -> None:
    pool = TwoDays("static", of("aaaa"), endless("b"))
    for name, priority in (("a@p", 10.0 * better), ("b@p", 10.0)):
        pool.accountant.set(name, "Priority", priority, now=pool.now)
    assert pool.cycle() == moved


@pytest.mark.parametrize("layout", LAYOUTS)
def test_by_rank_a_slot_changes_hands_only_for_a_job_that_it_ranks_higher_and_so_comes_to_rest(layout: str) -> None:
    pool = TwoDays(layout, of("aaaa"), [a_request(name, 1, Loved=n // 2) for n, name in enumerate(of("abcdef"))])
    assert 4 <= pool.run(0.5) <= 24
    assert set(pool.held.values()) <= set(of("ef"))  # whom it ranks alike, and who take turns as the half-life says
    assert pool.run() <= 24
