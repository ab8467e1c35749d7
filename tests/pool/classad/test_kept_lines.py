"""The long form that is made with lines of the time before says what the ad says."""

from __future__ import annotations

from pool.classad import ClassAd, expr
from pool.classad.forms.kept_lines import KeptLines


def test_lines_that_are_kept_are_those_of_the_ad_as_it_is() -> None:
    lines, ad = KeptLines(), ClassAd({"Name": 'a "slot"', "Memory": 5, "Load": 0.5, "odd name": [1, True]})
    changes: list[dict[str, object]] = [
        {},
        {"Memory": 6},
        {"Memory": 6.0, "Load": True, "Start": expr("TARGET.Owner =?= my.name")},
        {"Name": "another"},
    ]
    for change in changes:
        ad = ad.copy()
        ad.update(change)
        assert lines.long(ad) == ad.long()
    del ad["Load"]
    ad["Load"] = 0.5
    assert lines.long(ad) == ad.long()
    assert lines.long(ClassAd()) == ""
