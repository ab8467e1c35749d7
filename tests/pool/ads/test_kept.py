"""An ad that is kept is the ad that it was, and shares with others what they have in common."""

from __future__ import annotations

import random
import sys

import pytest

from pool.ads.kept import KeptAd, of_kinds
from pool.ads.limits import size_of
from pool.classad import UNDEFINED, ClassAd, expr, parse_ad
from pool.classad.eval.delta import Delta, changed_by, delta
from pool.classad.values.value import Member


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


def test_an_ad_over_a_view_has_what_the_view_has() -> None:
    ad = ClassAd({"VENTILATORS": 2, **a_slot(1)})
    view = KeptAd(ad).view()
    assert view == ad
    assert view.get("cpus") == 1
    assert list(view.copy().items()) == list(ad.items())
    piece = ClassAd({"Cpus": 4, "New": 5}, parent=view)
    assert (piece["Cpus"], piece["Memory"], piece.get("Gone")) == (4, 123456, None)
    assert list(piece) == [*ad, "New"]
    assert piece.flat() == ClassAd({**ad, "Cpus": 4, "New": 5})
    assert list(KeptAd(piece).ad()) == [*ad, "New"]
    assert "Gone" not in piece
    assert "ventilators" in piece


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


PAIRS = [
    (1, 1.0),
    (True, 1),
    (0.0, -0.0),
    ([1], [True]),
    ([0.0], [-0.0]),
    ("a", "A"),
    (1, expr("X + 1")),
    (2, UNDEFINED),
]


@pytest.mark.parametrize(("one", "other"), [*PAIRS, *((b, a) for a, b in PAIRS)])
def test_values_that_are_equal_but_not_the_same_are_kept_as_they_are(one: Member, other: Member) -> None:
    before, now = ClassAd({"Value": one, "Same": 7}), ClassAd({"Value": other, "Same": 7})
    kept = KeptAd(now, like=KeptAd(before))
    assert kept.ad().long() == now.long()
    assert kept.news_since(KeptAd(before)).changed == ClassAd({"Value": other})
    assert KeptAd(before).changed_by(Delta(ClassAd({"Value": other}))).ad().long() == now.long()


def test_what_is_the_same_is_no_news_and_there_once() -> None:
    before = KeptAd(a_slot(1))
    now = KeptAd(a_slot(1), like=before)
    assert not now.news_since(before)
    assert all(a is b for a, b in zip(now.values, before.values, strict=True))


def test_texts_of_single_ads_do_not_fill_pythons_table_for_ever() -> None:
    number = random.randrange(10**9)
    kept = KeptAd(parse_ad(f'[Name = "slot1_{number}@host"]'))
    text = f"slot1_{number}@host"
    assert kept.get("name") == text
    assert sys.intern(text) is text, "Python had it"


def test_changes_of_a_kept_ad_are_those_of_the_ad() -> None:
    draw = random.Random(7)
    values: list[Member] = [1, 1.0, True, "text", "", 0.0, float("nan"), [1, "a"], expr("Cpus * 2"), UNDEFINED, 2**40]
    names = ["Name", "Memory", "Cpus", "Load", "Ventilators", "ventilators", "Target", "requestCPUS"]
    ad = a_slot(1)
    kept = KeptAd(ad)
    for _ in range(400):
        changed = ClassAd([(draw.choice(names), draw.choice(values)) for _ in range(draw.randrange(3))])
        change = Delta(changed, [name for name in names if draw.random() < 0.05 and name not in changed])
        had, before = kept, ad
        ad, kept = changed_by(ad, change), kept.changed_by(change)
        assert kept.ad().long() == ad.long()
        assert kept.size == size_of(ad.attrs)
        told, expected = kept.news_since(had), delta(before, ad)
        assert changed_by(before, told) == ad
        assert told.changed == expected.changed


def test_it_has_besides_what_is_said_of_it() -> None:
    kept = KeptAd(ClassAd({"A": 1, "B": 2}), {"B": 3, "LastHeardFrom": 4})
    assert kept.ad().long() == "A = 1\nB = 3\nLastHeardFrom = 4\n"
    assert kept.size == size_of(kept.ad().attrs)
    assert kept.having({"A": 5, "Cpus": 6}).ad().long() == "A = 5\nB = 3\nLastHeardFrom = 4\nCpus = 6\n"


@pytest.mark.parametrize(
    "text",
    [
        "Memory > 1000", "Nothing =?= undefined", "Start", "size(Parts)", "Nested.A + Cpus", 'member("a", Parts)', "MY.Load",
        "TARGET.Memory", "Memory + Nothing", "strcat(Name, OpSysLongName)", 'eval("Cpus + 1")', "MY", "unparse(Start)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("compiled", [False, True])
def test_expressions_see_the_ad_through_its_view(text: str, compiled: bool) -> None:
    for ad in (a_slot(3), ClassAd({"Memory": 2, "Target": 3}), ClassAd({"MEMORY": 5, "cpus": 1})):
        asked = expr(text).compile() if compiled else expr(text)
        view = KeptAd(ad).view()
        assert str(asked.eval(view)) == str(asked.eval(ad))
        assert [view.get("Cpus"), len(view), [*view], view == ad] == [ad.get("Cpus"), len(ad), [*ad], True]
        assert (view.long(), view.new(), view.project(["Cpus", "None"])) == (
            ad.long(), ad.new(), ad.project(["Cpus", "None"]),
        )  # fmt: skip


def test_what_is_worked_out_for_kinds_of_values_is_kept_for_usual_ads_alone() -> None:
    worked: list[int] = []
    work = of_kinds(lambda kinds: worked.append(len(kinds)))
    for kinds in ((int,), (int,) * 3000) * 2:
        work(kinds)
    assert worked == [1, 3000, 3000]
