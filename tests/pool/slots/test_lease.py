"""Leases, claim ids and what a slot offers."""

from __future__ import annotations

from itertools import count

from pool.base.ids import ClaimId, JobId
from pool.classad import ClassAd
from pool.slots.claim import OFFERS_MAX, Activation, ClaimIds, Purse
from pool.slots.lease import LEASE_MAX_S, alive_interval, begin_lease


def test_silence_for_a_whole_lease_ends_it_and_each_word_renews_it() -> None:
    lease = begin_lease(2400, 300, now=100)
    assert not lease.is_over(now=2499)
    assert lease.is_over(now=2500)
    assert not lease.renewed(now=1000).is_over(now=3399)
    assert lease.renewed(now=50) == lease


def test_a_lease_without_length_lasts_for_six_alive_intervals() -> None:
    assert begin_lease(0, 300, now=0).expires_at == 1800
    assert begin_lease(-1, 0, now=0).expires_at == 1800
    assert begin_lease(1, 300, now=0).expires_at == 1


def test_no_schedd_that_is_gone_keeps_a_slot_for_longer_than_a_day() -> None:
    assert LEASE_MAX_S == 86400
    for asked_s, alive_s in ((2.0**53, 300), (1e300, 300), (86401, 300), (0, 1e9)):
        assert begin_lease(asked_s, alive_s, now=100).expires_at == 100 + LEASE_MAX_S


def test_the_shortest_job_lease_sets_how_often_a_schedd_says_that_it_lives() -> None:
    interval, said = 300.0, []
    for lease_s in (2400, 600, 60, 20, 2400, 0):
        interval = alive_interval(interval, lease_s)
        said.append(interval)
    assert said == [300, 200, 20, 10, 10, 10]


def test_claim_ids_differ_and_show_no_secret() -> None:
    secrets = count()
    ids = ClaimIds("<127.0.0.1:9618?sock=startd>", 17, lambda: f"secret{next(secrets)}")
    one, other = ids.new(), ids.new()
    assert one != other
    assert one == "<127.0.0.1:9618?sock=startd>#17#1#secret0"
    assert "secret" not in one.public() + repr(one)


def test_an_offer_is_good_once_and_the_purse_is_refilled() -> None:
    numbers = count()
    purse = Purse(lambda: ClaimId(f"a#1#{next(numbers)}#s"))
    purse.fill(3)
    first = purse.offers[0]
    assert purse.take(first)
    assert not purse.take(first)
    assert not purse.take("a#1#99#s")
    purse.fill(3)
    assert len(set(purse.offers)) == 3
    assert first not in purse.offers
    purse.fill(1)
    assert len(purse.offers) == 1
    purse.fill(10**9)
    assert len(purse.offers) == OFFERS_MAX


def test_time_suspended_is_not_time_run() -> None:
    run = Activation("a", JobId(1, 0), ClassAd(), started_at=0, started_wall=0)
    run = run.paused(now=10).paused(now=12)
    assert run.ran_s(now=50) == 10
    run = run.resumed(now=60).resumed(now=61)
    assert run.ran_s(now=70) == 20
