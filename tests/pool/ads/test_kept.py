"""An ad that is kept is the ad that it was, and shares with others what they have in common."""

from __future__ import annotations

from pool.ads.kept import KeptAd
from pool.classad import ClassAd, expr, parse_ad


def a_slot(number: int) -> ClassAd:
    """A slot's ad, each value of it new as if it had just come over the wire."""
    return parse_ad(
        f'[Name = "slot1_{number}@host"; OpSysLongName = "Debian GNU/Linux"; Memory = 123456; Cpus = 1; Load = 0.5; '
        'Start = TARGET.Owner != "eve"; Parts = { "a", "b" }; Ready = true; Nested = [ A = 1 ]]'
    )


def test_it_is_the_ad_that_it_was() -> None:
    ad = a_slot(1)
    kept = KeptAd(ad)
    assert list(kept.ad().items()) == list(ad.items())
    assert kept.ad().eval_bool("Start", target=ClassAd({"Owner": "ann"})) is True


def test_names_keep_their_spelling_and_scopes_their_meaning() -> None:
    usual = ClassAd({"Ventilators": 1})
    odd = ClassAd({"VENTILATORS": 2, "Target": 3, "X": expr("TARGET.Y")})
    for ad in (usual, odd):
        again = KeptAd(ad).ad()
        assert list(again) == list(ad)
        assert again == ad
    other = ClassAd({"Y": 7})
    assert KeptAd(odd).ad().eval("X", other) == odd.eval("X", other)


def test_what_its_parent_says_is_kept_too() -> None:
    ad = ClassAd({"B": 2}, parent=ClassAd({"A": 1, "B": 1}))
    assert dict(KeptAd(ad).ad().items()) == {"A": 1, "B": 2}


def test_later_changes_of_the_ad_do_not_reach_it_nor_those_of_its_own_ads() -> None:
    ad = a_slot(1)
    kept = KeptAd(ad)
    ad["Cpus"] = 8
    kept.ad()["Cpus"] = 9
    assert kept.ad().eval_int("Cpus") == 1


def test_what_slots_have_in_common_is_there_once() -> None:
    first, second = KeptAd(a_slot(1)).ad(), KeptAd(a_slot(2)).ad()
    for name in ("OpSysLongName", "Memory"):
        assert first[name] is second[name]
    assert first["Name"] != second["Name"]
