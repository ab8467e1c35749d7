"""Where HTCondor's language is odd: each value was observed with its own library (classad2 25.14)."""

from __future__ import annotations

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ClassAd, Expr, accepts, expr, parse_ad, parse_long
from pool.classad.columns import Table
from pool.classad.values.environment import install
from pool.classad.values.value import ERROR, UNDEFINED

OWN = '[ n = [ X = 3; Y = X + 1 ]; m = [ o = [ p = 1 ] ]; l = { [X = 1], [X = 2] }; k = "n" ]'
OTHER = "[ Z = 5; m = [ X = 9 ] ]"


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ('regexps("x*", "abc", "-", "g")', ERROR),
        ('replaceAll("x*", "abc", "-")', ERROR),
        ('replaceAll("", "", "-")', ERROR),
        ('replaceAll("$", "abc", "-")', ERROR),
        ('replaceAll("^", "abc", "-")', "-abc"),
        ('regexps("^", "abc", "-", "g")', "-a"),
        ('replaceAll("(?=b)", "abc", "-")', "a-bc"),
        ('replaceAll("^|b", "bab", "-")', "--a-"),
        ('regexps("^", "a\\nb", "-", "fgm")', "-a\n-b"),
        ('replace("x*", "abc", "-")', "-abc"),
        ('replaceAll("b", "abcb", "-")', "a-c-"),
        ('replaceAll(" ^ # the start", "abc", "-", "x")', "-abc"),
    ],
)
def test_replacing_what_matches_nothing(call: str, value: object) -> None:
    assert expr(call).eval() == value


@pytest.fixture
def berlin() -> None:
    install(zone=lambda at, no_dst: 3600 if no_dst or at < 1711846800 else 7200, zone_name="CET")


def test_a_formatted_time_names_standard_time(berlin: None) -> None:
    assert expr('formatTime(1720000000, "%Z %z %H")').eval() == "CET +0000 11"
    assert expr('formatTime([Year = 2024; Month = 7], "%Z %s")').eval() == "CET 1719702000"


@pytest.mark.parametrize("text", ["a // b", "1 // 2", "a //", '"a" // "b"', "1 // a\n// b", "1 /* x */ // y"])
def test_a_comment_must_end_with_its_line(text: str) -> None:
    with pytest.raises(ClassAdError, match=r"a // comment must end with its line"):
        expr(text)


def test_a_comment_is_shown_where_it_begins() -> None:
    with pytest.raises(ClassAdError) as caught:
        expr('1 +\n"//" // x')
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (2, 6)


@pytest.mark.parametrize(
    ("text", "value"), [("6 // 3\n+ 1", 7), ("1 // b\n", 1), ("1 /* // */", 1), ('"//"', "//"), ("// b\n1", 1)]
)
def test_comments_that_end(text: str, value: object) -> None:
    assert expr(text).eval() == value
    assert parse_long("X = 1 // b")["X"] == 1
    assert parse_ad("[a = 1] // x")["a"] == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('MY["n"].X', UNDEFINED),
        ('MY["n"]["X"]', 3),
        ('MY["n"]["Y"]', 4),
        ('(MY["n"]).X', UNDEFINED),
        ('m["o"].p', UNDEFINED),
        ('m["o"]["p"]', 1),
        ("m.o.p", 1),
        ('n["X"].q', ERROR),
        ("MY.n.X", 3),
        ('MY.n["X"]', 3),
        ('TARGET["m"].X', UNDEFINED),
        ('TARGET["m"]["X"]', 9),
        ("TARGET.m.X", 9),
        ('size(MY["n"])', 2),
        ("l[0].X", 1),
        ('ifThenElse(true, MY["n"], 1).X', UNDEFINED),
        ('MY["n"].X is undefined', True),
    ],
)
def test_an_ad_that_an_index_has_named_shows_no_attributes(text: str, value: object) -> None:
    own, other = parse_ad(OWN), parse_ad(OTHER)
    assert expr(text).eval(own, other) == value
    own["Asked"] = expr(text)
    assert own.eval("Asked", other) == value


@pytest.mark.parametrize(
    ("requirements", "holds"),
    [
        ("relTime(30)", True),
        ("relTime(-5)", True),
        ("relTime(0.5)", True),
        ('relTime("1:00")', True),
        ("relTime(0)", False),
        ('relTime("0:00")', False),
        ("absTime(5)", False),
        ('"true"', False),
        ('real("NaN")', True),
    ],
)
def test_what_requirements_may_be(requirements: str, holds: bool) -> None:
    ad, other = parse_ad(f"[ Requirements = {requirements} ]"), parse_ad("[ Requirements = true ]")
    for _ in range(2):
        assert accepts(ad, other) is holds
        assert Table([ad]).accepting(other).tolist() == [holds]
        assert Table([other]).accepted(ad).tolist() == [holds]
        stored = ad["Requirements"]
        if isinstance(stored, Expr):
            stored.compile()


def test_an_index_into_itself_ends() -> None:
    assert ClassAd({"n": expr('[ a = n["a"] ]'), "b": expr('n["a"]')}).eval("b") is UNDEFINED
