"""What is news to a watcher: over changes, lost connections, and collectors that have just begun."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import dataclass

import pytest

from pool.ads.seen import AdChange, AdNews, DoesNotFit, SeenAds
from pool.classad import ClassAd, expr


@dataclass(frozen=True)
class Told:
    change: AdChange
    name: str = ""
    ad: ClassAd | None = None
    removed: tuple[str, ...] = ()
    at: int = 0
    generation: str = ""
    resumed: bool = False
    settled: bool = True
    ad_type: str = "Machine"


def whole(name: str, at: int = 0, **attributes: object) -> Told:
    return Told(AdChange.UPDATE, name, ClassAd(attributes), at=at)


def change(name: str, *removed: str, at: int = 0, **attributes: object) -> Told:
    return Told(AdChange.CHANGE, name, ClassAd(attributes), removed, at)


def gone(name: str, at: int = 0) -> Told:
    return Told(AdChange.REMOVE, name, at=at)


def synced(generation: str = "one", at: int = 0, *, resumed: bool = False, settled: bool = True) -> Told:
    return Told(AdChange.SYNCED, generation=generation, at=at, resumed=resumed, settled=settled)


SETTLED = Told(AdChange.SETTLED)


def news(seen: SeenAds, *told: Told) -> list[str]:
    """What is news of these, in short."""
    return [_short(one) for each in told for one in seen.take(each)]


def _short(one: AdNews) -> str:
    before = "" if one.before is None or one.gone else f" was {one.before.get('N')}"
    return f"{'-' if one.gone else ''}{one.name} {one.ad.get('N')}{before}"


def test_each_change_is_news_but_not_a_clock_alone() -> None:
    seen = SeenAds()
    assert seen.begin() == ""
    assert news(seen, whole("a", N=1, M=1), synced()) == ["a 1"]
    assert news(seen, change("a", N=2)) == ["a 2 was 1"]
    assert news(seen, change("a", LastHeardFrom=5, MyCurrentTime=5)) == []
    assert seen.get("machine", "A") == ClassAd({"N": 2, "M": 1, "LastHeardFrom": 5, "MyCurrentTime": 5})
    assert news(seen, change("a", "M"), gone("a"), gone("b")) == ["a 2 was 2", "-a 2"]
    assert len(seen) == 0


def test_a_token_names_the_last_change_and_is_one_only_when_all_has_been_told() -> None:
    seen = SeenAds()
    seen.begin()
    news(seen, whole("a", at=9))
    assert seen.token == ""
    news(seen, synced(at=9), gone("a", at=11))
    assert seen.token == seen.begin() == "one.11"
    news(seen, whole("b", at=15))
    assert seen.token == "one.11"


def test_where_a_watch_is_resumed_what_is_not_told_is_as_it_was() -> None:
    seen = SeenAds()
    seen.begin()
    news(seen, whole("a", N=1), whole("b", N=1), whole("c", N=1), synced())
    seen.begin()
    assert news(seen, whole("b", N=2), gone("c"), synced(resumed=True)) == ["b 2 was 1", "-c 1"]
    assert len(seen) == 2


def test_what_a_settled_collector_does_not_tell_again_is_gone() -> None:
    seen = SeenAds()
    seen.begin()
    news(seen, whole("a", N=1), whole("b", N=1), synced())
    seen.begin()
    assert news(seen, whole("a", N=1)) == []
    assert news(seen, synced("two")) == ["-b 1"]


def test_a_restart_alone_is_no_news_and_what_does_not_come_again_is_gone_when_that_is_sure() -> None:
    seen = SeenAds()
    seen.begin()
    news(seen, *(whole(name, N=1) for name in "abcd"), synced())
    seen.begin()
    assert news(seen, synced("two", settled=False)) == []
    assert len(seen) == 4
    assert news(seen, whole("a", at=1, N=1), whole("b", at=2, N=2)) == ["b 2 was 1"]
    # Lost once more before it is settled, and resumed: that it did not tell of c and d again means nothing yet.
    assert seen.begin() == "two.2"
    assert news(seen, whole("c", N=1), synced("two", at=3, resumed=True, settled=False)) == []
    assert news(seen, SETTLED) == ["-d 1"]
    assert news(seen, SETTLED) == []


def test_a_collector_that_restarts_twice_is_waited_for_again() -> None:
    seen = SeenAds()
    seen.begin()
    news(seen, whole("a", N=1), whole("b", N=1), synced())
    for generation in ("two", "three"):
        seen.begin()
        assert news(seen, synced(generation, settled=False)) == []
    assert news(seen, whole("b", N=1), SETTLED) == ["-a 1"]


def test_a_change_of_what_was_never_told_makes_the_next_connection_tell_all() -> None:
    seen = SeenAds()
    seen.begin()
    news(seen, whole("a"), synced())
    with pytest.raises(DoesNotFit, match="a change of b, which it has not told of"):
        seen.take(change("b", N=1))
    assert seen.begin() == "-", "no token that is known, but ads of before are"


def test_what_was_seen_can_be_kept_on_disk() -> None:
    seen = SeenAds()
    seen.begin()
    news(seen, whole("a", N=1, M=expr("N + 1")), synced(at=7))
    kept = pickle.loads(pickle.dumps(seen))
    assert (kept.begin(), [*kept]) == ("one.7", [*seen])
    assert news(kept, whole("a", N=1, M=expr("N + 1")), synced("two", settled=False)) == []


def test_what_another_version_has_kept_is_told_in_the_log_and_all_is_told_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ad = ClassAd({"MyType": "Machine", "Name": "a", "N": 1})
    older = {"_ads": {("machine", "a"): ("Machine", "a", ad)}, "_generation": "one", "_at": 7, "synced": True}
    states: list[object] = [older, ("ads seen, 0", [], set(), "one", 7), None, ()]
    for state in states:
        kept = SeenAds()
        kept.__setstate__(state)
        assert "kept by another version" in caplog.text
        caplog.clear()
        assert (kept.begin(), [*kept]) == ("", [])
        assert news(kept, whole("a", N=1), synced("one")) == news(SeenAds(), whole("a", N=1))


def test_slots_that_are_alike_take_little_more_than_what_they_do_not_share() -> None:
    seen, attributes = SeenAds(), 150
    tracemalloc.start()
    for number in range(200):
        seen.take(
            whole(f"slot{number}", **{f"Attribute{at}": f"value {at}" for at in range(attributes)}, Number=number)
        )
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 200 < 16 * attributes  # of which 8 bytes are a reference to the value
    assert seen.get("Machine", "slot7") == ClassAd(
        {**{f"Attribute{at}": f"value {at}" for at in range(attributes)}, "Number": 7}
    )
