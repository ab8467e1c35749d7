"""Ads as XML elements, as HTCondor's tools print them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pool.classad.eval.ad import ClassAd
from pool.classad.eval.expression import Expr
from pool.classad.syntax.unparse import quote, real
from pool.classad.values.value import AbsTime, Error, RelTime, Undefined


def to_xml(ad: ClassAd, names: Iterable[str] | None = None, *, indent: int = 0) -> str:
    """The ad as a `<c>` element with a line for each attribute, in the given order."""
    margin = " " * (indent + 4)
    lines = [
        f'{margin}<a n="{_attribute(name)}">{_member(ad[name], indent + 4)}</a>\n'
        for name in (ad if names is None else names)
    ]
    return "<c>\n" + "".join(lines) + " " * indent + "</c>"


def _member(value: Any, indent: int) -> str:
    if isinstance(value, bool):
        return '<b v="t"/>' if value else '<b v="f"/>'
    if isinstance(value, int):
        return f"<i>{value}</i>"
    if isinstance(value, float):
        return f"<r>{_real(value)}</r>"
    if isinstance(value, str):
        return f"<s>{_escaped(quote(value)[1:-1].replace(chr(92) + chr(34), chr(34)))}</s>"
    if isinstance(value, Undefined):
        return "<un/>"
    if isinstance(value, Error):
        return "<er/>"
    if isinstance(value, AbsTime | RelTime):
        return _time(value)
    if isinstance(value, list):
        return "<l>" + "".join(_member(item, indent) for item in value) + "</l>"
    if isinstance(value, ClassAd):
        return to_xml(value, indent=indent)
    assert isinstance(value, Expr)
    return f"<e>{_escaped(value.text)}</e>"


def _real(value: float) -> str:
    if math.isfinite(value):
        return real(value)
    return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"


def _time(value: AbsTime | RelTime) -> str:
    from pool.classad.syntax.unparse import scalar

    inside = scalar(value)[len('absTime("') : -len('")')]
    return f"<at>{inside}</at>" if isinstance(value, AbsTime) else f"<rt>{inside}</rt>"


def _attribute(name: str) -> str:
    return _escaped(quote(name)[1:-1]).replace('\\"', "&quot;")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
