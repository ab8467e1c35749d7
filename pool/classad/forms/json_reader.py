"""Ads from JSON: objects are ads, arrays lists, null is undefined, and `"/Expr(text)/"` is an expression."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pool.base.errors import ClassAdError
from pool.classad.eval.ad import ClassAd
from pool.classad.eval.expression import expr, store
from pool.classad.syntax.lex import fail
from pool.classad.values.attrs import Attrs
from pool.classad.values.limits import MAX_NESTING
from pool.classad.values.value import INT_MAX, INT_MIN, UNDEFINED, Member

_START: Final = "/Expr("
_END: Final = ")/"


def parse_json(text: str, *, file: str = "ad") -> ClassAd:
    """Read one ad; ClassAdError with line and column when the text is none."""
    ad, end = next_ad(text, 0, file=file)
    rest = text[end:].lstrip()
    if rest:
        raise fail(text, len(text) - len(rest), "text after the end of the ad", expected="the end", file=file)
    return ad


class CutShort(ClassAdError):
    """The text may only be the beginning of an ad."""


def next_ad(text: str, at: int, *, file: str) -> tuple[ClassAd, int]:
    """The ad that begins at `at` (or after blanks), and where it ends; CutShort when more text could mend it."""
    at = len(text) - len(text[at:].lstrip()) if text[at : at + 1] in (" ", "\n", "\t", "\r") else at
    if text[at : at + 1] != "{":
        raise fail(text, at, "this is no JSON object", expected="{", file=file)
    try:
        found, end = _DECODER.raw_decode(text, at)
        _check_nesting(text, at, end, file)
    except json.JSONDecodeError as error:
        kind = CutShort if _unfinished(text, at) else ClassAdError
        said = fail(text, error.pos, error.msg[:1].lower() + error.msg[1:], expected="JSON", file=file)
        raise kind(said.message, span=said.span, expected=said.expected) from None
    except RecursionError:
        _check_nesting(text, at, len(text), file)
        raise fail(text, at, "nested too deeply", file=file) from None
    except ClassAdError as error:
        if error.span is not None and error.span.file == file:
            raise
        inner = fail(text, at, f"in this ad: {error.message}", expected=error.expected, file=file)
        raise inner from None
    return found, end


def from_json(value: Any) -> Member:
    """What an ad stores for a decoded JSON value."""
    if value is None:
        return UNDEFINED
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, dict):
        return _ad([(name, item) for name, item in value.items()])
    return value  # type: ignore[no-any-return]


def _ad(pairs: list[tuple[str, Any]]) -> ClassAd:
    attrs = Attrs()
    for name, value in pairs:
        if not name:
            raise ClassAdError("an attribute without a name")
        if "\0" in name:
            raise ClassAdError("a name may not contain the character 0")
        key = name.lower()
        if key not in attrs:
            attrs.spell(key, name)
        attrs[key] = from_json(value)
    return ClassAd(attrs=attrs)


def _string(value: str) -> Member:
    if value.startswith(_START) and value.endswith(_END):
        return store(expr(value[len(_START) : -len(_END)]).node)
    if "\0" in value:
        raise ClassAdError("a string may not contain the character 0")
    return value


def _integer(digits: str) -> int:
    """Integers that do not fit are 0, as everywhere in the language."""
    if len(digits) > 20:
        return 0
    value = int(digits)
    return value if INT_MIN <= value <= INT_MAX else 0


def _constant(word: str) -> Any:
    raise ClassAdError(f"{word} is no JSON", expected='"/Expr(real(\\"NaN\\"))/"')


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_ad, parse_int=_integer, parse_constant=_constant)


#: Strings (the last one may be cut short) and brackets; everything else is passed over.
_MARKS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)


def _check_nesting(text: str, at: int, end: int, file: str) -> None:
    """Refuse what is nested deeper than any text may be."""
    if text.count("{", at, end) + text.count("[", at, end) <= MAX_NESTING:
        return
    depth = 0
    for found in _MARKS.finditer(text, at, end):
        mark = found[0]
        if mark in "{[":
            depth += 1
            if depth > MAX_NESTING:
                expected = f"at most {MAX_NESTING} levels"
                raise fail(text, found.start(), "nested too deeply", expected=expected, file=file)
        elif mark in "}]":
            depth -= 1


def _unfinished(text: str, at: int) -> bool:
    """Whether brackets or a string that began at `at` are still open at the end."""
    depth = 0
    for found in _MARKS.finditer(text, at):
        mark = found[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth <= 0:
                return False
    return True
