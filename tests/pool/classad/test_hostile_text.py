"""No text costs time or memory out of proportion to its length, and none is read that cannot be walked through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ClassAd, expr, parse_ad, parse_long
from pool.classad.forms.lists import read_text
from pool.classad.syntax import unparse
from pool.classad.syntax.unparse import identifier
from pool.classad.values.limits import MAX_EXPRESSION, MAX_INTERNED_NAME, MAX_NESTING
from tests.pool.cost import calls_of, least_s

#: Texts that once cost time that grew with the square of their length, or doubled with each character.
DEAR: dict[str, Callable[[], object]] = {
    "blanks after a comment in a comment": lambda: expr("1 /* // */" + " " * 28),
    "comments that never close": lambda: expr("/* " * 5_000),
    "comments that never close, in an ad": lambda: parse_ad("[ a = 1 " + "/* " * 5_000),
    "quotes in a string that never closes": lambda: expr("x" * MAX_EXPRESSION + '"' + '\\"' * 20_000),
}


ENOUGH_S = 2.0
"""A thousandth of this is what each costs now; with its fault, each cost more than this."""


def outcome(read: Callable[[], object]) -> object:
    """What is read, or the error."""
    try:
        return read()
    except ClassAdError as error:
        return error


@pytest.mark.parametrize("name", DEAR)
def test_no_text_costs_more_than_its_length(name: str) -> None:
    assert least_s(lambda: outcome(DEAR[name]), enough_s=ENOUGH_S) < ENOUGH_S


LONG = 3_000_000


def peak_kib() -> int:
    """The most memory that the process has had."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


LARGE: dict[str, tuple[Callable[[str], object], str]] = {
    "a string": (expr, '"' + "x" * LONG + '"'),
    "a comment": (parse_ad, "[ a = 1 /*" + "x" * LONG + "*/ ]"),
    "a comment in a file": (read_text, "[ a = 1 /*" + "x" * LONG + "*/ ]"),
    "a comment before an ad": (read_text, "/*" + "x" * LONG + "*/ [ a = 1 ]"),
    "a string in a file": (read_text, '[ a = "' + "x" * LONG + '" ]'),
    "a quoted name in a file": (read_text, "[ '" + "x" * LONG + "' = 1 ]"),
    "a string of JSON": (read_text, '{"a": "' + "x" * LONG + '", "b": ' + "[" * 200),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_text_takes_much_more_memory_than_it_has_characters(name: str) -> None:
    read, text = LARGE[name]
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak_kib()
    outcome(lambda: read(text))
    assert (peak_kib() - before) << 10 < 30 * LONG


@pytest.mark.parametrize("text", ["1 /* x", "/*", "a && /* b * c", "[ a = 1 /* ]"])
def test_a_comment_that_never_closes_is_shown_where_it_opens(text: str) -> None:
    with pytest.raises(ClassAdError, match="this comment is never closed") as caught:
        expr(text)
    assert caught.value.span is not None
    assert caught.value.span.column == text.index("/*") + 1


@pytest.mark.parametrize("quoted", ["'\"'{}'\"'", '/* " */{}/* " */', '"\\\\"x"{}"'])
def test_no_quotation_mark_hides_an_expression_that_is_too_long(quoted: str) -> None:
    text = quoted.format(" + a" * MAX_EXPRESSION + " + ")
    with pytest.raises(ClassAdError, match="an expression of"):
        expr(text, old=text.startswith('"'))


@pytest.mark.parametrize("link", [".b", "[0]", ".b[0]", "[0].b"])
def test_a_path_may_be_as_long_as_nesting_is_deep(link: str) -> None:
    fits = MAX_NESTING // (2 if len(link) > 3 else 1) - 3
    found = expr("a" + link * fits)
    assert expr(found.text).text == found.text
    assert ClassAd({"x": found}).references("x") == (set(), {"a"})
    with pytest.raises(ClassAdError, match="nested too deeply"):
        expr("a" + link * 1_000)


def test_references_follow_any_number_of_attributes() -> None:
    count = 20_000
    ad = ClassAd({f"a{i}": expr(f"a{i + 1} + 1") for i in range(count)})
    mine, theirs = ad.references("a0")
    assert len(mine) == count - 1
    assert theirs == {f"a{count}"}


def test_flattening_ends_and_leaves_what_would_be_too_large() -> None:
    doubling = ClassAd({f"a{i}": expr(f"a{i + 1} + a{i + 1}") for i in range(40)})
    assert str(doubling.flatten("a0")) == "a1 + a1"
    chain = ClassAd({f"a{i}": expr(f"a{i + 1} + 1") for i in range(20_000)})
    assert str(chain.flatten("a0")) == "a1 + 1"
    nested = expr("(" * 140 + "x" + " + x" * 10_000 + ")" * 140)
    assert nested.flatten() == nested
    assert calls_of(nested.flatten) < 50 * len(nested.text)


def test_no_table_keeps_long_names() -> None:
    name = "n" * (MAX_INTERNED_NAME + 1)
    assert identifier(name) == name
    assert name not in unparse._bare_names


def test_a_long_form_line_may_begin_with_not() -> None:
    assert parse_long("A =!B\nB = false").eval("A") is True
    for text in ("A == 3", "A =?= 3", "A =!= 3"):
        with pytest.raises(ClassAdError):
            parse_long(text)
