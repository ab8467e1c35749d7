"""The manual's numbers of fair share, and a month in which forty submitters compete by the cycle's own code.

A submitter with a factor f who uses u machines for long has the effective priority u * f, and shares are inverse to
that. So use comes to rest where u * u * f is the same for all: what each is entitled to goes by 1 / sqrt(f).

Source: HTCondor manual, "Configuration for Central Managers" (user priorities).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from math import sqrt
from random import Random

import pytest

from pool.accounting import Accountant, Factors, SubmitterUse
from pool.matching import Snapshot, Standing, negotiate, shares
from tests.pool.matching.test_cycle import a_pslot, a_request, a_slot, by_submitter

HOUR, DAY = 3600.0, 86400.0


def test_a_user_of_100_cores_comes_to_a_priority_of_100_and_loses_half_of_it_in_each_half_life() -> None:
    accountant, now = Accountant(DAY, Factors(default=1.0)), 1000.0
    for _ in range(30 * 24):
        accountant.charge({"a@p": SubmitterUse(100, 100.0)}, now=now)
        now += HOUR
    accountant.charge({}, now=now)
    assert accountant.account("a@p").priority == pytest.approx(100.0)
    for half_lives, left in ((1, 50.0), (2, 25.0), (3, 12.5)):
        accountant.charge({}, now=now + half_lives * DAY)
        assert accountant.account("a@p").priority == pytest.approx(left)


def test_a_priority_of_10_gets_twice_the_machines_of_20() -> None:
    accountant = Accountant(DAY, Factors(default=1.0))
    for name, priority in (("a@p", 10.0), ("b@p", 20.0)):
        accountant.set(name, "Priority", priority, now=1.0)
    standings = {name: Standing(accountant.account(name).effective) for name in ("a@p", "b@p")}
    slots = [a_slot(f"s{n}") for n in range(90)]
    plan = negotiate(Snapshot(slots, [a_request(name, 99) for name in standings], standings))
    assert by_submitter(plan) == {"a@p": 60, "b@p": 30}


class Month:
    """A pool whose submitters always want more; jobs take four to twelve hours, and a cycle comes each hour."""

    def __init__(self, rng: Random, factors: Mapping[str, float], machines: int, cores: int) -> None:
        self.rng, self.factors, self.cores = rng, factors, cores
        self.accountant = Accountant(DAY)
        for name, factor in factors.items():
            self.accountant.set(name, "PriorityFactor", factor, now=1.0)
        self.free = {f"m{number}": cores for number in range(machines)}
        self.running: list[tuple[float, str, str]] = []
        self.now = 1000.0

    def held(self) -> dict[str, SubmitterUse]:
        use = dict.fromkeys(self.factors, SubmitterUse())
        for _, name, _ in self.running:
            use[name] += SubmitterUse(1, 1.0)
        return use

    def cycle(self) -> None:
        """What has ended frees its core, and the negotiation gives it to somebody."""
        while self.running and self.running[0][0] <= self.now:
            self.free[heapq.heappop(self.running)[2]] += 1
        held = self.held()
        self.accountant.charge(held, now=self.now)
        standings = {
            name: Standing(self.accountant.account(name).effective, use.weight, use.slots) for name, use in held.items()
        }
        slots = [a_pslot(name, free) for name, free in self.free.items() if free]
        requests = [a_request(name, self.cores * len(self.free)) for name in self.factors]
        for matched in negotiate(Snapshot(slots, requests, standings, now=self.now)).matches:
            self.free[matched.slot] -= 1
            end = self.now + self.rng.uniform(4, 12) * HOUR
            heapq.heappush(self.running, (end, matched.request.submitter, matched.slot))
        self.accountant.charge(self.held(), now=self.now)

    def run(self, days: float) -> dict[str, float]:
        """Let time pass; the part of what was used in it that each submitter had."""
        before = self._used()
        for _ in range(int(days * 24)):
            self.cycle()
            assert not any(self.free.values()), "somebody wants more, and a core is free"
            self.now += HOUR
        self.accountant.charge(self.held(), now=self.now)
        used = {name: after - before[name] for name, after in self._used().items()}
        return {name: much / sum(used.values()) for name, much in used.items()}

    def _used(self) -> dict[str, float]:
        return {name: self.accountant.account(name).weighted_usage_s for name in self.factors}


def converges(submitters: int, machines: int, cores: int, seed: int) -> None:
    rng = Random(seed)
    factors = {f"u{number:02}@p": rng.choice([1000.0, 2000.0, 4000.0]) for number in range(submitters)}
    month = Month(rng, factors, machines, cores)
    month.run(20)
    got = month.run(10)
    whole = sum(1 / sqrt(factor) for factor in factors.values())
    due = {name: 1 / sqrt(factor) / whole for name, factor in factors.items()}
    by_priority = shares({name: month.accountant.account(name).effective for name in factors})
    assert got == {name: pytest.approx(part, rel=0.02) for name, part in due.items()}, f"seed {seed}"
    assert by_priority == {name: pytest.approx(part, rel=0.02) for name, part in due.items()}, f"seed {seed}"


def test_in_a_month_a_few_submitters_come_to_what_each_is_entitled_to() -> None:
    converges(submitters=4, machines=4, cores=20, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_in_a_month_forty_submitters_come_to_what_each_is_entitled_to(seed: int) -> None:
    converges(submitters=40, machines=25, cores=40, seed=seed)
