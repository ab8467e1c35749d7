"""Ads by type and name: lifetimes, limits, watchers."""

from __future__ import annotations

import pytest

from pool.ads.table import AdStore, Watch
from pool.base.errors import UserError
from pool.classad import ClassAd, expr


def an_ad(name: str = "x", ad_type: str = "Machine", **attributes: object) -> ClassAd:
    return ClassAd({"MyType": ad_type, "Name": name, **attributes})


def test_an_ad_replaces_the_one_of_its_type_and_name_whatever_the_case() -> None:
    table = AdStore()
    table.put(an_ad("Slot1@N", A=1), now=0)
    table.put(an_ad("slot1@n", "MACHINE", A=2), now=0)
    table.put(an_ad("slot1@n", "Scheduler", A=3), now=0)
    assert [stored.ad["A"] for stored in table.of_type("machine")] == [2]
    assert len(table.of_type("Any")) == len(table) == 2


def test_each_ad_lives_for_its_own_time_from_when_it_was_heard_last() -> None:
    table = AdStore(lifetime_s=100)
    table.put(an_ad("a"), now=0)
    table.put(an_ad("b", ClassAdLifetime=10), now=0)
    assert table.next_expiry() == 10
    assert [stored.name for stored in table.expire(10)] == ["b"]
    table.put(an_ad("a"), now=50)
    assert table.expire(100) == []
    assert [stored.name for stored in table.expire(150)] == ["a"]
    assert (len(table), table.next_expiry()) == (0, None)


def test_p9_one_sender_cannot_fill_the_table() -> None:
    table = AdStore(per_sender_max=2)
    for name in "ab":
        table.put(an_ad(name), now=0, sender="eve")
    with pytest.raises(UserError, match="eve has 2 ads"):
        table.put(an_ad("c"), now=0, sender="eve")
    table.put(an_ad("a", A=1), now=0, sender="eve")
    table.put(an_ad("c"), now=0, sender="alice")
    table.remove("Machine", "a")
    table.put(an_ad("d"), now=0, sender="eve")


def test_often_renewed_ads_do_not_grow_the_table() -> None:
    table = AdStore(lifetime_s=10)
    for second in range(20_000):
        table.put(an_ad("a"), now=second)
    assert len(table._expiries) < 3000
    assert [stored.name for stored in table.expire(30_000)] == ["a"]


def test_a_watcher_is_told_the_last_of_many_changes_once() -> None:
    woken: list[int] = []
    table = AdStore()
    table.put(an_ad("a"), now=0)
    watch = table.watch(["machine"], None, lambda: woken.append(1))
    for n in range(5):
        table.put(an_ad("b", N=n), now=0)
    table.put(an_ad("s", "Scheduler"), now=0)
    told = [(name, stored.ad.get("N") if stored else None) for _, name, stored, *_ in watch.take(10)]
    assert told == [("a", None), ("b", 4)]
    assert woken
    assert not watch
    table.put(an_ad("c"), now=0)
    table.remove("Machine", "c")
    assert watch.take(10) == []  # it never heard of it
    table.remove("Machine", "b")
    assert [(name, stored) for _, name, stored, *_ in watch.take(10)] == [("b", None)]


def test_a_watchers_constraint_makes_ads_come_and_go() -> None:
    table = AdStore()
    watch = table.watch(["Any"], expr("N > 3"), lambda: None)
    told = []
    for n in (1, 4, 5, 2, 3, 9):
        table.put(an_ad("a", N=n), now=0)
        told += [stored.ad["N"] if stored else "gone" for _, _, stored, *_ in watch.take(10)]
    assert told == [4, 5, "gone", 9]
    table.unwatch(watch)
    table.put(an_ad("a", N=10), now=0)
    assert watch.take(10) == []


@pytest.mark.parametrize("lifetime", ['real("NaN")', '-real("NaN")'])
def test_a_lifetime_that_is_no_number_keeps_no_other_ad_alive(lifetime: str) -> None:
    table = AdStore(lifetime_s=100)
    table.put(an_ad("a", ClassAdLifetime=expr(lifetime)), now=0)
    table.put(an_ad("b", ClassAdLifetime=10), now=0)
    assert [stored.name for stored in table.expire(10)] == ["b"]
    assert [stored.name for stored in table.expire(100)] == ["a"]


def told(watch: Watch) -> list[tuple[str, object]]:
    return [(one.name, one.stored.ad.get("N", 0) if one.stored else "gone") for one in watch.take(100)]


def test_a_watch_that_goes_on_is_told_what_happened_since_in_its_order() -> None:
    table = AdStore()
    for name in "abc":
        table.put(an_ad(name), now=0)
    since = table.at
    table.put(an_ad("s", "Scheduler"), now=0)
    table.put(an_ad("b", N=1), now=0)
    table.remove("Machine", "C")
    table.put(an_ad("a", N=2), now=0)
    watch = table.watch(["Machine"], None, lambda: None, since=since, goes_on=True)
    assert told(watch) == [("b", 1), ("c", "gone"), ("a", 2)]
    table.remove("Machine", "b")
    assert told(watch) == [("b", "gone")]
    assert told(table.watch(["Machine"], None, lambda: None, since=table.at, goes_on=True)) == []


def test_a_watch_that_goes_on_hears_once_of_an_ad_that_is_not_for_it() -> None:
    table = AdStore()
    table.put(an_ad("a", N=9), now=0)
    table.put(an_ad("b", N=1), now=0)
    watch = table.watch(["Machine"], expr("N > 3"), lambda: None, goes_on=True)
    assert told(watch) == [("a", 9), ("b", "gone")]
    table.put(an_ad("b", N=2), now=0)
    assert told(watch) == []
    table.put(an_ad("b", N=4), now=0)
    assert told(watch) == [("b", 4)]
    table.put(an_ad("b", N=3), now=0)
    assert told(watch) == [("b", "gone")]


def test_of_many_ads_that_are_gone_the_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pool.ads.table.GONE_MAX", 2)
    table = AdStore()
    for name in "abcd":
        table.put(an_ad(name), now=0)
    since = table.at
    for name in "abc":
        assert table.remembers(since)
        table.remove("Machine", name)
    assert [table.remembers(at) for at in (since, since + 1, table.at, table.at + 1)] == [False, True, True, False]
