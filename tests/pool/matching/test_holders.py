"""Who confirms whom: a slot counts for a submitter where its schedd says so."""

from __future__ import annotations

from pool.matching import SlotHolders
from pool.matching.holders import OUTLIVES_SCHEDD_S


def test_a_slot_is_held_until_it_is_given_back() -> None:
    holders = SlotHolders()
    holders.hear("ap", {"s1": "alice", "s2": "bob"}, [], anew=True)
    assert holders.confirms("s1", "alice")
    assert not holders.confirms("s1", "bob")
    holders.hear("ap", {"s2": "alice"}, ["s1", "unknown"], anew=False)
    assert not holders.confirms("s1", "alice")
    assert not holders.confirms("s2", "bob")
    assert holders.confirms("s2", "alice")


def test_a_schedd_speaks_for_itself_alone() -> None:
    holders = SlotHolders()
    holders.hear("ap1", {"s1": "alice"}, [], anew=True)
    holders.hear("ap2", {"s1": "alice"}, [], anew=True)
    holders.hear("ap2", {}, ["s1"], anew=False)
    assert holders.confirms("s1", "alice")


def test_a_schedd_that_connects_anew_begins_anew() -> None:
    holders = SlotHolders()
    holders.hear("ap", {"s1": "alice"}, [], anew=True)
    holders.hear("ap", {"s2": "alice"}, [], anew=True)
    assert not holders.confirms("s1", "alice")


def test_what_a_schedd_held_counts_for_a_while_when_it_is_gone() -> None:
    holders = SlotHolders()
    holders.hear("ap", {"s1": "alice"}, [], anew=True)
    holders.schedd_gone("ap", 100.0)
    holders.expire(99.0 + OUTLIVES_SCHEDD_S)
    assert holders.confirms("s1", "alice")
    holders.expire(100.0 + OUTLIVES_SCHEDD_S)
    assert not holders.confirms("s1", "alice")


def test_a_schedd_that_comes_back_within_that_time_is_not_forgotten() -> None:
    holders = SlotHolders()
    holders.hear("ap", {"s1": "alice"}, [], anew=True)
    holders.schedd_gone("ap", 0.0)
    holders.hear("ap", {"s1": "alice"}, [], anew=True)
    holders.expire(2 * OUTLIVES_SCHEDD_S)
    assert holders.confirms("s1", "alice")
