"""The ad as a Python value: a mapping, chained, copied, projected, pickled, compared."""

from __future__ import annotations

import pickle

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ERROR, UNDEFINED, AbsTime, ClassAd, RelTime, expr, parse_ad, parse_long, parse_longs
from pool.classad.eval.delta import changed_by, delta


def an_ad() -> ClassAd:
    return parse_ad(
        '[Name = "m"; Cpus = 4; Load = 0.5; Ready = true; U = undefined; L = {1, Cpus}; N = [x = Cpus];'
        ' When = absTime("2024-02-29T12:34:56Z"); For = relTime("1:00"); Big = Cpus > 2]'
    )


def test_names_ignore_case_and_keep_spelling_and_order() -> None:
    ad = ClassAd({"RequestCpus": 2, "owner": "alice"})
    ad["REQUESTCPUS"] = 3
    assert list(ad) == ["RequestCpus", "owner"]
    assert ad["requestcpus"] == 3
    assert "Owner" in ad
    assert len(ad) == 2


def test_two_ads_may_spell_one_name_differently() -> None:
    first, second = ClassAd({"SomeName": 1}), ClassAd({"SOMENAME": 1})
    assert (list(first), list(second)) == (["SomeName"], ["SOMENAME"])
    assert first == second


def test_literals_are_python_values_and_the_rest_expressions() -> None:
    ad = an_ad()
    assert [ad[name] for name in ("Name", "Cpus", "Load", "Ready", "U")] == ["m", 4, 0.5, True, UNDEFINED]
    assert ad["When"] == AbsTime(1709210096)
    assert ad["For"] == RelTime(60.0)
    assert ad["L"] == [1, expr("Cpus")]
    assert ad["N"] == ClassAd({"x": expr("Cpus")})
    assert ad["Big"] == expr("Cpus > 2")


def test_evaluation_gives_values() -> None:
    ad = an_ad()
    assert ad.eval("Big") is True
    assert ad.eval("L") == [1, 4]
    assert ad.eval_lazy("L") == [1, expr("Cpus")]
    assert ad.eval("For") == 60.0
    assert ad.eval("nosuch") is UNDEFINED
    assert expr("N.x + L[1]").eval(ad) == 8


def test_typed_evaluation_counts_as_htcondor_does() -> None:
    ad = parse_ad('[i = 3; r = 2.9; b = true; s = "x"; u = nosuch; z = 0.0]')
    assert [ad.eval_int(name, -1) for name in "irbsu"] == [3, 2, 1, -1, -1]
    assert [ad.eval_float(name, -1.0) for name in "irbsu"] == [3.0, 2.9, 1.0, -1.0, -1.0]
    assert [ad.eval_bool(name) for name in "irbsuz"] == [True, True, True, None, None, False]
    assert [ad.eval_str(name, "-") for name in "is"] == ["-", "x"]


def test_target_is_the_other_ad() -> None:
    job = ClassAd({"RequestCpus": 2, "Requirements": expr('TARGET.Cpus >= RequestCpus && Name == "m"')})
    assert job.eval("Requirements", target=an_ad()) is True
    assert job.eval("Requirements") is UNDEFINED


def test_a_chained_ad_sees_its_parent_and_leaves_it_alone() -> None:
    cluster = ClassAd({"Owner": "alice", "Cmd": "/bin/true", "Args": expr("Cmd")})
    proc = ClassAd({"ProcId": 1}, parent=cluster)
    assert (proc["Owner"], proc.eval("Args"), len(proc)) == ("alice", "/bin/true", 4)
    proc["Cmd"] = "/bin/false"
    assert (proc.eval("Args"), cluster["Cmd"]) == ("/bin/false", "/bin/true")
    assert proc.own() == [("ProcId", 1), ("Cmd", "/bin/false")]
    del proc["Owner"]
    assert (proc["Owner"], cluster["Owner"]) == (UNDEFINED, "alice")
    flat = proc.flat()
    assert flat.parent is None
    assert flat == proc


def test_copies_are_independent_and_projections_small() -> None:
    ad = an_ad()
    twin = ad.copy()
    twin["Cpus"] = 1
    assert ad["Cpus"] == 4
    assert ad.project(["cpus", "NoSuch", "name"]) == ClassAd({"Cpus": 4, "Name": "m"})


def test_equality_distinguishes_types() -> None:
    assert ClassAd({"a": 1}) != ClassAd({"a": True})
    assert ClassAd({"a": 1}) != ClassAd({"a": 1.0})
    assert ClassAd({"a": [1, {"b": expr("c+1")}]}) == parse_ad("[A = {1, [b = c + 1]}]")


def test_ads_and_expressions_can_be_pickled() -> None:
    cluster = ClassAd({"A": 1})
    proc = ClassAd({"B": expr("A + 1"), "C": [1, expr("B")], "U": None}, parent=cluster)
    again = pickle.loads(pickle.dumps(proc))
    assert again == proc
    assert again.parent == cluster
    assert again["U"] is UNDEFINED
    assert pickle.loads(pickle.dumps(ERROR)) is ERROR


def test_what_ads_cannot_hold_is_refused() -> None:
    ad = ClassAd()
    with pytest.raises(TypeError):
        ad["x"] = object()
    with pytest.raises(ClassAdError):
        ad["x"] = 2**63
    with pytest.raises(ClassAdError, match="has no place here") as refused:
        ad.insert("x", "1 + + ) 2")
    assert refused.value.span is not None
    assert refused.value.span.column == 7


@pytest.mark.parametrize("form", ["new", "long"])
def test_printing_and_reading_back_gives_the_same_ad(form: str) -> None:
    ad = an_ad()
    ad["Odd"] = 'a "quoted" \\ back\\slash \t and é'
    ad["odd name"] = 1
    ad["true"] = expr("'odd name' + n.'x y'")
    again = parse_ad(ad.new()) if form == "new" else parse_long(ad.long())
    assert again == ad


def test_many_ads_are_read_one_at_a_time() -> None:
    lines = ["A = 1\n", "\n", "# note\n", "A = 2\n", "B = A\n", "\n", "\n", "A = 3"]
    assert [ad.eval("A") for ad in parse_longs(iter(lines))] == [1, 2, 3]


def test_an_error_in_the_long_form_tells_line_and_column() -> None:
    with pytest.raises(ClassAdError) as refused:
        parse_long("A = 1\nB = 2 +\nC = 3\n", file="job.ad")
    assert refused.value.span is not None
    assert (refused.value.span.file, refused.value.span.line, refused.value.span.column) == ("job.ad", 2, 8)
    with pytest.raises(ClassAdError, match="2:1: this line has no attribute"):
        parse_long("A = 1\nnonsense\n")


def test_a_delta_turns_one_ad_into_another() -> None:
    old, new = an_ad(), an_ad()
    new["Cpus"] = 5
    del new["Load"]
    new["Extra"] = expr("Cpus * 2")
    change = delta(old, new)
    assert set(change.changed) == {"Cpus", "Extra"}
    assert change.removed == ("Load",)
    assert changed_by(old, change) == new
    assert old == an_ad()
    assert not delta(changed_by(old, change), new)
