"""Tables of ads: what was packed comes out again, and what is no table is refused."""

from __future__ import annotations

import pytest

from pool.ads.kept import KeptAd
from pool.base.errors import PeerError
from pool.classad import UNDEFINED, ClassAd, expr
from protocol.wire.ad_rows import pack_rows, unpack_rows
from protocol.wire.ad_table import ROWS_MAX, AdTable, pack_alike, pack_chosen, pack_table, unpack_ads, unpack_table
from protocol.wire.codec import pack

ALIKE = [ClassAd({"Args": f"{n}", "Size": n}) for n in range(5)]
MIXED = [
    ClassAd({"A": 1}),
    ClassAd({"A": "x", "B": expr("A + C")}),
    ClassAd(),
    ClassAd({"B": UNDEFINED, "C": [1, "two", expr("x")], "A": -(2**63)}),
    ClassAd({"A": 2.5, "D": True, "E": ClassAd({"Inner": 1})}),
]


@pytest.mark.parametrize("ads", [ALIKE, MIXED, [], [ClassAd()] * 3, [ClassAd({"x": 1}), ClassAd({"X": 2})]])
def test_ads_come_out_as_they_went_in(ads: list[ClassAd]) -> None:
    assert unpack_ads(pack_alike(ads)) == ads


def test_names_keep_their_spelling() -> None:
    odd = [ClassAd({"requestCPUS": 1}), ClassAd({"RequestCpus": 2})]
    assert [list(ad) for ad in unpack_ads(pack_alike(odd))] == [["requestCPUS"], ["RequestCpus"]]


def test_attributes_can_be_left_out() -> None:
    assert unpack_ads(pack_alike(ALIKE, ("size",))) == [ClassAd({"Args": f"{n}"}) for n in range(5)]


def test_a_row_is_what_all_share_with_its_own_over_it() -> None:
    table = unpack_table(pack_table(["args", "N"], [["a", None], [1, 2**40]], 2, {"Args": "all", "Owner": "me"}))
    assert isinstance(table, AdTable)
    first, second = table.ads()
    assert first == ClassAd({"Args": "a", "Owner": "me", "N": 1})
    assert second == ClassAd({"Args": "all", "Owner": "me", "N": 2**40})


@pytest.mark.parametrize(
    "said",
    [
        7,
        [1],
        {"names": ["a"], "columns": [[1]]},
        {"names": ["a"], "columns": [[1, 2]], "rows": 1, "shared": {}},
        {"names": ["a", "A"], "columns": [[1], [1]], "rows": 1, "shared": {}},
        {"names": [1], "columns": [[1]], "rows": 1, "shared": {}},
        {"names": ["a"], "columns": [1], "rows": 1, "shared": {}},
        {"names": [], "columns": [], "rows": -1, "shared": {}},
        {"names": [], "columns": [], "rows": ROWS_MAX + 1, "shared": {}},
        {"names": [], "columns": [], "rows": 1, "shared": 3},
        {"names": ["a"], "columns": [[2**64 - 1]], "rows": 1, "shared": {}},
        {"names": ["a"], "columns": [[b"bytes"]], "rows": 1, "shared": {}},
    ],
)
def test_what_is_no_table_is_refused(said: object) -> None:
    with pytest.raises(PeerError):
        unpack_ads(pack(said))


def test_chosen_attributes_of_ads_are_the_same_as_a_projection_of_each() -> None:
    ads = [ClassAd({"Name": "a", "Memory": 5, "X": "no"}), ClassAd({"Memory": expr("1 + Cpus")}), ClassAd()]
    found = unpack_ads(pack_chosen(ads, ["memory", "NAME", "name", "Missing"]))
    assert found == [ad.project(["Memory", "Name"]) for ad in ads]
    odd = [*ads, ClassAd({"mEMORY": 7})]
    assert [[*ad] for ad in unpack_ads(pack_chosen(odd, ["Memory"]))] == [["Memory"], ["Memory"], [], ["mEMORY"]]


ROWS = [
    ClassAd({"A": 1, "oddly": "x", "B": expr("A + C"), "C": [], "D": ClassAd({"Inner": 1}), "TARGET": 0.0}),
    ClassAd({"A": 1.0, "oddly": UNDEFINED, "B": True, "C": [1, expr("x")], "D": "", "TARGET": -0.0}),
]


@pytest.mark.parametrize("ads", [ALIKE, ROWS, [*reversed(ROWS)], [ad.project("ABCD") for ad in ROWS]])
def test_rows_are_the_ads_that_they_were(ads: list[ClassAd]) -> None:
    came = unpack_rows(pack_rows([KeptAd(ad) for ad in ads]))
    assert [one.view().long() for one in came] == [ad.long() for ad in ads]
    before: KeptAd | None = None
    for one, ad in zip(came, ads, strict=True):
        kept = one.to_keep({"Said": 1}, like=before)
        assert kept.ad().long() == ad.long() + "Said = 1\n"
        assert kept.size == KeptAd(kept.ad()).size
        before = kept


NAMES = pack(["A", "B"])


def test_rows_are_sent_without_what_they_have_in_common() -> None:
    ads = [ClassAd({"Name": f"slot{n}", "Text": "x" * 1000, "Start": expr("Name + 1"), "Load": 0.5}) for n in range(50)]
    packed = pack_rows([KeptAd(ad) for ad in ads])
    assert len(packed) < 2000
    assert [one.view().long() for one in unpack_rows(packed)] == [ad.long() for ad in ads]


def test_rows_of_the_same_names_have_one_form_whatever_they_have_in_common() -> None:
    ads = [ClassAd({"A": 1, "B": 1}), ClassAd({"A": 1, "B": 2}), ClassAd({"A": 2, "B": 2})]
    forms = {one.form for few in (ads[:1], ads[:2], ads[1:]) for one in unpack_rows(pack_rows([*map(KeptAd, few)]))}
    assert len(forms) == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([{"A": 1}], "not a table of rows"),
        ([["A", "B"], [1, 2], [], 1], "not a table of rows"),
        ([NAMES, [1, 2], [], True], "not a table of rows"),
        ([b"", [1, 2], [], 1], "not msgpack"),
        ([pack([]), [], [], 1], "a different name for each value"),
        ([pack({"A": 1}), [1], [], 1], "a different name for each value"),
        ([pack(["A", 1]), [1, 2], [], 1], "a different name for each value"),
        ([pack(["A", "a"]), [1, 2], [], 1], "a different name for each value"),
        ([NAMES, [1], [], 1], "1 values for 2 names"),
        ([NAMES, [1, None], [], 1], "1 columns of 1 values"),
        ([NAMES, [1, 2], [[3]], 1], "0 columns of 1 values"),
        ([NAMES, [1, None], [[3]], 2], "1 columns of 2 values"),
        ([NAMES, [1, None], [3], 1], "1 columns of 1 values"),
        ([NAMES, [1, None], [[None]], 1], "not a ClassAd value"),
        ([NAMES, [1, None], [[b"bytes"]], 1], "not a ClassAd value"),
        ([NAMES, [1, None], [[2**64 - 1]], 1], "64 bits"),
        ([NAMES, [1, b"bytes"], [], 1], "not a ClassAd value"),
        ([NAMES, [1, 2**64 - 1], [], 1], "64 bits"),
        ([NAMES, [1, -(2**63) - 1], [], 1], "64 bits"),
        ([NAMES, [1, [2**64 - 1]], [], 1], "64 bits"),
        ([NAMES, [1, 2], [], -1], "-1 rows"),
        ([NAMES, [1, 2], [], ROWS_MAX + 1], "at most 10000"),
        ([pack([f"N{n}" for n in range(101)]), [1] * 101, [], ROWS_MAX], "1000000 values"),
    ],
)
def test_what_is_no_row_of_values_is_refused(said: object, why: str) -> None:
    with pytest.raises(PeerError) as refused:
        unpack_rows(pack(said))
    assert why in f"{refused.value} {refused.value.expected}"
    with pytest.raises(PeerError):
        unpack_rows(b"")
