"""Ads in every form: what is written is read back the same, from streams of any size, and mistakes have a place."""

from __future__ import annotations

from io import StringIO
from itertools import islice
from random import Random

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ClassAd, parse_ad
from pool.classad.forms import lists
from pool.classad.forms.json_form import to_json
from pool.classad.forms.json_reader import parse_json
from pool.classad.forms.lists import FORMS, detect, read_ads, read_text, write_ads
from pool.classad.forms.xml_form import to_xml
from pool.classad.forms.xml_reader import parse_xml
from tests.pool.classad.generate import Generator

AD = r"""[ a = 1; b = "x\ty\303\251<&>\"\\ \377"; c = { 1,2,[ d = 3 ] }; e = [ f = 1; g = { 1,"a" } ]; j = undefined;
  h = absTime("2024-02-29T12:34:56Z"); k = error; l = a + 1 =?= 2; m = 1.5; n = real("INF"); o = true; p = (1); q = { };
  r = []; s = "/Expr(a)/"; t = -1.0; 'a"b\'c d' = 2; u = absTime(0); v = "]]>"; w = ""; x = "{[" ]"""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("piece", [1, 7, 1 << 16])
def test_what_is_written_is_read_back(form: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PIECE", piece)
    ads = [parse_ad(AD), parse_ad("[x = 1]"), parse_ad('[ Name = "slot1" ]')]
    text = "".join(write_ads(ads, form))
    assert detect(text) == form
    assert read_text(text) == ads


@pytest.mark.parametrize("form", ["new", "xml", "json"])
def test_generated_ads_are_read_back(form: str) -> None:
    for seed in range(150):
        generator = Generator(Random(seed))
        try:
            ad = parse_ad(generator.ad(2, least=3))
        except ClassAdError:
            continue
        text = {"new": ClassAd.new, "xml": to_xml, "json": to_json}[form](ad)
        back = {"new": parse_ad, "xml": parse_xml, "json": parse_json}[form](text)
        # A time span written as a literal is a real number in JSON.
        if form != "json" or "relTime(" not in ad.new():
            assert back.new() == ad.new(), seed


@pytest.mark.parametrize("form", FORMS)
def test_no_ads_at_all_are_read_as_none(form: str) -> None:
    assert read_text("".join(write_ads([], form)), form=form) == []


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("[a=1]", "new"), ("[[a=1]", "new"), (" {\n[ a = 1 ]\n}", "new"), ("// x\n/* y */ [a=1]", "new"), ("[]", "new"),
        ('{"a": 1}', "json"), ('[\n{"a": 1}]', "json"), ("{}", "json"), ("<c/>", "xml"), ('<?xml version="1.0"?>', "xml"),
        ("A = 1\n", "long"), ("# note\nA = 1", "long"), ("", "long"),
    ],
)  # fmt: skip
def test_forms_are_told_apart(text: str, form: str) -> None:
    assert detect(text) == form


@pytest.mark.parametrize(
    "text", ["[a=1][a=2]", "[a=1]\n\n// two\n[a=2]", "{[a=1],[a=2]}", '{"a":1}{"a":2}', '[{"a":1},{"a":2}]', "a=1\n\na=2",
             '<c><a n="a"><i>1</i></a></c><c><a n="a"><i>2</i></a></c>'],
)  # fmt: skip
def test_lists_may_be_written_in_several_ways(text: str) -> None:
    assert read_text(text) == [ClassAd({"a": 1}), ClassAd({"a": 2})]


class Endless:
    """A file of ads that never ends; counts how much was read."""

    def __init__(self, head: str, body: str) -> None:
        self.head, self.body, self.given = head, body, 0

    def read(self, size: int) -> str:
        text = self.head + self.body * (size // len(self.body) + 1)
        self.head = ""
        self.given += len(text)
        return text


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("", "A = 1\n\n"),
        ("{\n", "[ A = 1 ],\n"),
        ("[\n", '{ "A": 1 },\n'),
        ("<classads>", '<c><a n="A"><i>1</i></a></c>\n'),
    ],
)
def test_a_stream_is_read_as_far_as_it_is_asked_for(head: str, body: str) -> None:
    source = Endless(head, body)
    assert list(islice(read_ads(source), 10_000)) == [ClassAd({"A": 1})] * 10_000
    assert source.given < 10_000 * len(body) + 300_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[a=1;\n b=+;]", "ads:2:5"), ("[a=1]\n[\nb=\n]", "ads:4:1"), ("{[a=1],,[b=2]}", "ads:1:8"), ("{[a=1]\n", "ads:2:1"),
        ("[a=1", "ads:1:5"), ('{"a":1}\n{"b":}', "ads:2:6"), ('[{"a":1},\n{"b":1', "ads:2:7"), ("a = 1\n\nb = (", "ads:3:6"),
        ("x", "ads:1:1"), ('{"a":"/Expr(1+)/"}', "ads:1:1"), ('{"a":NaN}', "ads:1:1"), ("[a=1] [b=1] x", "ads:1:13"),
        ('<c><a n="x"><i>1</i></a>\n<q/></c>', "ads:2:1"), ('<c><a n="x"><i>one</i></a></c>', "ads:1:19"),
        ('<c><a n="x"></a></c>', "ads:1:13"), ('<!DOCTYPE a [<!ENTITY b "c">]><c/>', "ads:1:25"), ("<c>", "ads:1:6"),
        ('{"a":' + "[" * 100_000, "ads:1:155"), ("<c/>x", "ads:1:6"), ('<c><a n="x"><e>1+</e></a></c>', "ads:1:18"),
        ("[ a = " + "{" * 10_000, "ads:1:156"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(text: str, place: str) -> None:
    with pytest.raises(ClassAdError) as refused:
        read_text(text)
    assert str(refused.value.span) == place


def test_a_mistake_far_into_a_file_has_its_line() -> None:
    for ok, bad in (("[ A = 1 ]\n", "[ A = ]"), ('{"A": 1}\n', '{"A": }'), ("A = 1\n\n", "A ="), ("<c/>\n", "<d/>")):
        with pytest.raises(ClassAdError) as refused:
            list(read_ads(StringIO(ok * 8_000 + bad)))
        assert refused.value.span is not None
        assert refused.value.span.line == 8_000 * ok.count("\n") + 1


def test_json_numbers_and_names_follow_the_language() -> None:
    ad = parse_json('{"a": 99999999999999999999, "b": 9223372036854775808, "B": -1.5e3, "c": "/Expr(A)/", "d": null}')
    assert ad.new() == "[ a = 0; b = -1.500000000000000E+03; c = A; d = undefined ]"


def test_a_comment_that_never_ends_after_a_blank_is_an_error_with_its_place() -> None:
    for text in ("[a=1] /*", "  /* x", "[a = 1]\n\n /* and then"):
        with pytest.raises(ClassAdError):
            read_text(text)
