"""Who leads: rows of what happens, and whole pools with links that are cut and mended at random."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from pool.hosts.leading import (
    Agreed,
    Asked,
    Candidate,
    Effect,
    Heard,
    Leased,
    Look,
    Refused,
    Role,
    step,
)

SILENCE_S, LEASE_S, BEAT_S = 10.0, 15.0, 1.0


def a_candidate(rank: int, **fields: object) -> Candidate:
    return replace(Candidate(rank, 2, SILENCE_S, 0.0), **fields)  # type: ignore[arg-type]


def test_the_first_leads_at_once_when_all_are_heard_and_nobody_leads() -> None:
    first, _ = step(a_candidate(0), Heard(1, False, 0), 1.0)
    first, effects = step(first, Look(1), 1.0)
    assert effects == (Effect.ASK,)
    first, effects = step(first, Agreed(first.term, 1), 1.0)
    assert (first.leads, effects) == (True, (Effect.LEAD,))


def test_the_second_stands_by_while_the_first_is_heard_and_asks_when_it_is_silent() -> None:
    second, _ = step(a_candidate(1), Heard(0, True, 2), 20.0)
    assert step(second, Look(1), 29.9)[1] == ()
    second, effects = step(second, Look(1), 30.0)
    assert (second.role, effects, second.term) == (Role.ASKING, (Effect.ASK,), 5)


def test_nobody_is_taken_to_be_gone_before_he_could_be_heard() -> None:
    assert step(a_candidate(0), Look(1), 9.9)[1] == ()
    assert step(a_candidate(0), Look(1), 10.0)[1] == (Effect.ASK,)


def test_who_reaches_no_schedd_asks_for_no_lead() -> None:
    assert step(a_candidate(0), Look(0), 10.0)[1] == ()
    heard, _ = step(a_candidate(0), Heard(1, False, 0), 9.0)
    assert step(heard, Look(0), 9.0)[1] == ()
    assert step(heard, Look(1), 9.0)[1] == (Effect.ASK,)


def test_who_is_granted_nothing_does_not_lead() -> None:
    asking, _ = step(a_candidate(0), Look(1), 10.0)
    assert step(asking, Agreed(asking.term, 0), 11.0) == (replace(asking, role=Role.STANDBY), ())
    assert step(asking, Agreed(asking.term, 1), 11.0)[1] == (Effect.LEAD,)


def test_who_comes_back_leads_in_a_higher_term_than_in_its_former_life() -> None:
    again, _ = step(a_candidate(0), Heard(1, False, 7, True, seen=10), 1.0)
    assert step(again, Look(1), 1.0)[0].term == 12


def test_a_refusal_ends_the_asking_until_the_lease_is_over() -> None:
    second, _ = step(a_candidate(1), Look(1), 20.0)
    second, effects = step(second, Refused(second.term, 2, 12.0), 20.0)
    assert (second.role, effects) == (Role.STANDBY, (Effect.RELEASE,))
    assert step(second, Look(1), 31.9)[1] == ()
    assert step(second, Look(1), 32.0)[1] == (Effect.ASK,)


def test_of_two_who_lead_the_one_of_the_lower_term_gives_up() -> None:
    lower, higher = (a_candidate(rank, role=Role.LEADING, term=term) for rank, term in ((0, 2), (1, 3)))
    assert step(lower, Heard(1, True, 3), 1.0)[1] == (Effect.RELEASE,)
    assert step(higher, Heard(0, True, 2), 1.0)[1] == ()


@pytest.mark.parametrize(("yields", "ready", "expected"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_the_primary_is_given_the_lead_back_when_that_is_wanted_and_it_is_ready(
    yields: bool, ready: bool, expected: int
) -> None:
    second = a_candidate(1, role=Role.LEADING, term=3, yields=yields)
    assert len(step(second, Heard(0, False, 0, ready), 1.0)[1]) == expected


def test_a_schedd_leases_to_one_at_a_time() -> None:
    lease, answer = Leased().ask(Asked(0, 2, LEASE_S), 0.0)
    assert answer.granted
    kept, answer = lease.ask(Asked(1, 3, LEASE_S), 14.9)
    assert (answer.granted, answer.term, round(answer.left_s, 1)) == (False, 2, 0.1)
    assert kept.ask(Asked(0, 2, LEASE_S, leads=True), 14.9)[1].granted
    assert kept.ask(Asked(1, 3, LEASE_S), 15.0)[1].granted
    assert lease.release(0, 1.0).ask(Asked(1, 3, LEASE_S), 1.0)[1].granted
    assert lease.release(1, 1.0) == lease


def test_a_term_that_is_over_does_not_come_back() -> None:
    lease, _ = Leased().ask(Asked(1, 3, LEASE_S), 0.0)
    assert not lease.ask(Asked(0, 2, LEASE_S), 20.0)[1].granted


def test_a_lease_is_not_renewed_when_another_leads_in_a_higher_term() -> None:
    lease, _ = Leased().ask(Asked(0, 2, LEASE_S), 0.0)
    lease, answer = lease.ask(Asked(1, 3, LEASE_S, leads=True), 1.0)
    assert not answer.granted
    assert not lease.ask(Asked(0, 2, LEASE_S, leads=True), 2.0)[1].granted


# ---- whole pools


@dataclass
class Simulated:
    """Two candidates and some schedds; `cut` are the links that carry nothing."""

    rng: random.Random
    schedds: int
    now: float = 0.0
    candidates: list[Candidate] = field(default_factory=list)
    leases: list[Leased] = field(default_factory=list)
    believes: dict[tuple[int, int], float] = field(default_factory=dict)
    """Until when a candidate takes a schedd's lease for its own."""
    cut: set[tuple[int, int]] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    """The schedds that are down."""

    def __post_init__(self) -> None:
        self.candidates = [a_candidate(rank) for rank in range(2)]
        self.leases = [Leased() for _ in range(self.schedds)]

    def happens(self, rank: int, event: Heard | Agreed | Refused | Look) -> None:
        self.candidates[rank], effects = step(self.candidates[rank], event, self.now)
        for effect in effects:
            if effect is Effect.ASK:
                self.ask(rank, leads=False)
            elif effect is Effect.RELEASE:
                self.release(rank)

    def reached(self, rank: int) -> list[int]:
        there = (number for number in range(self.schedds) if number not in self.gone)
        return [number for number in there if (rank, number) not in self.cut]

    def ask(self, rank: int, *, leads: bool) -> None:
        who, sent_at = self.candidates[rank], self.now
        granted = 0
        for number in self.reached(rank):
            lost = self.rng.random() < 0.1
            asked = Asked(rank, who.term, LEASE_S, leads)
            self.leases[number], answer = self.leases[number].ask(asked, self.now)
            if lost and leads:  # an answer may be lost
                continue
            if answer.granted:
                self.believes[rank, number] = sent_at + LEASE_S
                granted += 1
            else:
                self.happens(rank, Refused(who.term, answer.term, answer.left_s))
                if not self.candidates[rank].leads:
                    return
        if not leads:
            self.happens(rank, Agreed(who.term, granted))

    def release(self, rank: int) -> None:
        for number in range(self.schedds):
            self.believes.pop((rank, number), None)
            if number in self.reached(rank):
                self.leases[number] = self.leases[number].release(rank, self.now)

    def crash(self, rank: int) -> None:
        self.dead ^= {rank}
        self.believes = {key: until for key, until in self.believes.items() if key[0] != rank}
        self.candidates[rank] = a_candidate(rank, began_at=self.now)

    def crash_schedd(self, number: int) -> None:
        """It goes, or is back with the lease that it has kept, and whoever leads asks it."""
        self.gone ^= {number}
        self.believes = {key: until for key, until in self.believes.items() if key[1] != number}
        kept = self.leases[number]
        self.leases[number] = Leased(kept.rank, kept.term, self.now + LEASE_S)
        for rank in {0, 1} - self.dead:
            if self.candidates[rank].leads:
                self.ask(rank, leads=True)

    def second(self) -> None:
        self.now += BEAT_S
        for rank in (0, 1):
            if rank in self.dead:
                continue
            other = self.candidates[1 - rank]
            if (0, -1) not in self.cut and 1 - rank not in self.dead:
                self.happens(rank, Heard(1 - rank, other.leads, other.term, True, other.highest))
            self.happens(rank, Look(len(self.reached(rank))))
            if self.candidates[rank].leads and self.now % 5 == 0:
                self.ask(rank, leads=True)

    def acting(self) -> dict[int, set[int]]:
        """Which schedds each candidate serves at this moment, by its own belief."""
        found: dict[int, set[int]] = {0: set(), 1: set()}
        for (rank, number), until in self.believes.items():
            if self.candidates[rank].leads and self.now < until:
                found[rank].add(number)
        return found


@pytest.mark.parametrize("seed", range(60))
def test_never_two_lead_while_a_schedd_reaches_both(seed: int) -> None:
    rng = random.Random(seed)
    pool = Simulated(rng, schedds=3)
    links = [(0, -1), *((rank, number) for rank in (0, 1) for number in (1, 2))]  # the first schedd reaches both
    led = set()
    for _ in range(1500):
        if rng.random() < 0.05:
            pool.cut ^= {rng.choice(links)}
        if rng.random() < 0.01:
            pool.crash(rng.choice((0, 1)))
        pool.second()
        acting = pool.acting()
        assert not (acting[0] and acting[1]), (seed, pool.now, acting)
        for rank, schedds in acting.items():
            assert all(pool.leases[number].holder(pool.now) == rank for number in schedds)
        led |= {rank for rank, schedds in acting.items() if schedds}
    assert led
    pool.cut.clear()
    pool.dead.clear()
    for _ in range(60):
        pool.second()
    assert sorted(map(len, pool.acting().values())) == [0, 3]  # whole again: one serves all


@pytest.mark.parametrize("seed", range(20))
def test_a_schedd_serves_one_at_a_time_however_the_pool_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    pool = Simulated(rng, schedds=2)
    links = [(0, -1), *((rank, number) for rank in (0, 1) for number in (0, 1))]
    for _ in range(1500):
        if rng.random() < 0.05:
            pool.cut ^= {rng.choice(links)}
        pool.second()
        acting = pool.acting()
        assert not acting[0] & acting[1]
    pool.cut.clear()
    for _ in range(60):
        pool.second()
    assert sorted(map(len, pool.acting().values())) == [0, 2]


@pytest.mark.parametrize("seed", range(10))
def test_never_two_lead_while_schedds_die_at_random(seed: int) -> None:
    rng = random.Random(seed)
    pool = Simulated(rng, schedds=2)
    led = set()
    for _ in range(1500):
        if rng.random() < 0.02:
            pool.cut ^= {(0, -1)}
        if rng.random() < 0.005:
            pool.crash(rng.choice((0, 1)))
        if rng.random() < 0.1:
            pool.crash_schedd(rng.choice((0, 1)))
        pool.second()
        acting = pool.acting()
        assert not (acting[0] and acting[1]), (seed, pool.now, acting)
        led |= {rank for rank, schedds in acting.items() if schedds}
    assert led
    for all_of in (pool.cut, pool.dead, pool.gone):
        all_of.clear()
    for _ in range(60):
        pool.second()
    assert sorted(map(len, pool.acting().values())) == [0, 2]
