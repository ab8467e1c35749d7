"""An ad that is kept as its differences is the ad that it was."""

from __future__ import annotations

import pytest

from pool.ads.alike import AlikeAd
from pool.classad import ClassAd, Member, expr, parse_ad
from tests.own_attributes import own

PAIRS: list[tuple[Member, Member]] = [(1, 1.0), (1, True), (0.0, -0.0), ("a", "A"), (1, expr("Cpus + 1"))]


def a_slot(number: int) -> ClassAd:
    """A slot's ad, each value of it new as if it had just come over the wire."""
    return parse_ad(
        f'[Name = "slot1_{number}@host"; OpSysLongName = "Debian GNU/Linux"; Memory = 123456; Cpus = {number}; '
        'Start = TARGET.Owner != "eve"; ClaimIds = { "a", "b" }; OfflineUniverses = {}; LoadAvg = 0.5]'
    )


def test_it_is_the_ad_that_it_was() -> None:
    kept = [AlikeAd(a_slot(number)) for number in (1, 2, 3)]
    assert [one.ad().long() for one in kept] == [a_slot(number).long() for number in (1, 2, 3)]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_values_that_are_equal_and_not_the_same_stay_apart(one: Member, other: Member) -> None:
    ads = [ClassAd({**a_slot(1), "Memory": value}) for value in (one, other, one)]
    assert [AlikeAd(ad).ad().long() for ad in ads] == [ad.long() for ad in ads]


def test_an_ad_that_has_little_in_common_with_others_is_the_ad_that_it_was() -> None:
    ads = [ClassAd(own(Apples=n, Pears=f"p{n}", Plums=n / 2)) for n in (1, 2, 3, 1, 2)]
    assert [AlikeAd(ad).ad().long() for ad in ads] == [ad.long() for ad in ads]


def test_what_its_parent_says_is_kept_too_and_later_changes_do_not_reach_it() -> None:
    ad = ClassAd({"Cpus": 2}, parent=ClassAd({"Memory": 1, "Cpus": 1}))
    kept = AlikeAd(ad)
    ad["Cpus"] = 8
    kept.ad()["Cpus"] = 9
    assert dict(kept.ad().items()) == {"Memory": 1, "Cpus": 2}
