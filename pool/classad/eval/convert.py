"""Values in evaluation to strings and numbers, as the conversion functions of the language do it."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from pool.classad.eval.evaluate import spend_on_parts
from pool.classad.eval.frame import BoundList, Frame
from pool.classad.syntax.unparse import scalar, unparse
from pool.classad.values.times import show_abstime, show_reltime
from pool.classad.values.value import ERROR, UNDEFINED, AbsTime, RelTime, int32_of, int_of

_NUMBER: Final = re.compile(
    r"[ \t\n\v\f\r]*([+-]?)(?:(inf(?:inity)?)|(nan)|(0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?)"
    r"|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?))",
    re.IGNORECASE | re.ASCII,
)


def leading_real(text: str) -> float | None:
    """The number that `text` begins with, as C's strtod reads it; None when there is none."""
    found = _NUMBER.match(text)
    if found is None:
        return None
    sign = -1.0 if found[1] == "-" else 1.0
    if found[2]:
        return sign * math.inf
    if found[3]:
        return math.copysign(math.nan, sign)
    if found[4]:
        try:
            return sign * float.fromhex(found[4])
        except OverflowError:
            return sign * math.inf
    return sign * float(found[5])


def show(value: Any) -> str:
    """A value in the new form, as it prints."""
    if value.__class__ is Frame or value.__class__ is BoundList:
        from pool.classad.eval.expression import node_of  # lists and ads print as what an ad would store
        from pool.classad.eval.pretty import arranged

        budget = value.budget if isinstance(value, Frame) else value.frame.budget
        spend_on_parts(budget, value)
        return unparse(arranged(node_of(value)))
    return scalar(value)


def to_string(value: Any) -> Any:
    """string(value): undefined and error stay what they are."""
    kind = type(value)
    if kind is str or value is UNDEFINED or value is ERROR:
        return value
    if kind is AbsTime:
        return show_abstime(value)
    if kind is RelTime:
        return show_reltime(float(int_of(value.secs)))
    return show(value)


def to_real(value: Any) -> Any:
    """real(value): undefined stays, what is no number is an error."""
    kind = type(value)
    if kind is float or value is UNDEFINED:
        return value
    if kind is int or kind is bool:
        return float(value)
    if kind is str:
        found = leading_real(value)
        return ERROR if found is None else found
    if kind is AbsTime:
        return float(value.secs)
    if kind is RelTime:
        return float(int32_of(value.secs))  # as many seconds as fit into 32 bits, as in HTCondor
    return ERROR


def to_int(value: Any) -> Any:
    """int(value): undefined stays, reals are truncated, what is no number is an error."""
    kind = type(value)
    if kind is int or value is UNDEFINED:
        return value
    if kind is bool:
        return int(value)
    if kind is float:
        return int_of(value)
    if kind is str:
        found = leading_real(value)
        return ERROR if found is None else int_of(found)
    if kind is AbsTime:
        return value.secs
    if kind is RelTime:
        return int32_of(value.secs)
    return ERROR
