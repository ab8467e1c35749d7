"""Ads as JSON, as HTCondor's tools print it: literals as JSON's own, any other expression as `"\\/Expr(text)\\/"`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from pool.classad.eval.ad import ClassAd
from pool.classad.eval.expression import Expr
from pool.classad.syntax.unparse import real, scalar
from pool.classad.values.value import AbsTime, Error, RelTime, Undefined


def to_json(ad: ClassAd, names: Iterable[str] | None = None, *, compact: bool = False) -> str:
    """The ad as one JSON object, attributes in the given order; a line for each unless `compact`."""
    return _object(ad, list(ad) if names is None else list(names), None if compact else 0)


def _object(ad: ClassAd, names: list[str], indent: int | None) -> str:
    pairs = [f"{json.dumps(name, ensure_ascii=False)}: {_member(ad[name], _deeper(indent))}" for name in names]
    return _wrapped("{", pairs, "}", indent)


def _member(value: Any, indent: int | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return real(value, old=True) if math.isfinite(value) else _quoted(real(value))
    if isinstance(value, str):
        # A string that looks like an expression to readers is written as the expression that it is: a literal.
        return _quoted(scalar(value)) if value.startswith("/Expr(") else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Undefined):
        return "null"
    if isinstance(value, RelTime):
        return real(value.secs, old=True)  # a time span that was written as a literal counts as its seconds
    if isinstance(value, Error | AbsTime):
        return _quoted(scalar(value))
    if isinstance(value, list):
        return _wrapped("[", [_member(item, _deeper(indent)) for item in value], "]", indent)
    if isinstance(value, ClassAd):
        return _object(value, list(value), indent)
    assert isinstance(value, Expr)
    return _quoted(value.text)


def _quoted(text: str) -> str:
    return '"\\/Expr(' + json.dumps(text, ensure_ascii=False)[1:-1] + ')\\/"'


def _wrapped(start: str, parts: list[str], end: str, indent: int | None) -> str:
    if indent is None:
        return start + ",".join(parts) + end
    margin = "\n" + " " * (indent + 2)
    return start + ",".join(margin + part for part in parts) + "\n" + " " * indent + end


def _deeper(indent: int | None) -> int | None:
    return None if indent is None else indent + 2
