"""From one type to another: int, real, string, bool, absTime, relTime."""

from __future__ import annotations

from typing import Any

from pool.classad.eval.convert import to_int, to_real, to_string
from pool.classad.eval.functions import plain, register
from pool.classad.values.environment import ENV, now
from pool.classad.values.value import ERROR, UNDEFINED, AbsTime, RelTime, fold, int32_of, int_of, wrap32

register("int", 1, 1, to_int)
register("real", 1, 1, to_real)
register("string", 1, 1, to_string)


@plain(1, 1, "bool")
def to_bool(value: Any) -> Any:
    """Zero is false, any other number true; of strings only "true" and "false" mean something."""
    kind = type(value)
    if kind is bool or value is UNDEFINED:
        return value
    if kind is int or kind is float:
        return value != 0
    if kind is str:
        return {"true": True, "false": False}.get(fold(value), UNDEFINED)
    if kind is RelTime:
        return int_of(value.secs) != 0
    return ERROR


@plain(0, 2, "absTime")
def abs_time(when: Any = None, offset: Any = None) -> Any:
    """A moment from epoch seconds, shown with `offset` seconds from UTC; now, when nothing is given."""
    if when is None:
        secs = now()
        return AbsTime(secs, ENV.zone(secs, False))
    shift = None
    if offset is not None:
        shift = _whole(offset)
        if shift is None:
            return ERROR
    if when is UNDEFINED or type(when) in (AbsTime, str):
        # Only a literal string is read, when it is parsed; HTCondor gives a computed one back as it is.
        return when
    found = _whole(when)
    if found is None:
        return ERROR
    if type(when) is RelTime:
        found = int_of(when.secs)
    return AbsTime(found, ENV.zone(found, False) if shift is None else shift)


def _whole(value: Any) -> int | None:
    kind = type(value)
    if kind is int:
        return wrap32(value)
    if kind is float:
        return int32_of(value)
    if kind is RelTime:
        return wrap32(int_of(value.secs))
    return None


@plain(1, 1, "relTime")
def rel_time(value: Any) -> Any:
    """A span of time from seconds."""
    kind = type(value)
    if value is UNDEFINED or kind is RelTime:
        return value
    if kind is int:
        return RelTime(float(wrap32(value)))
    if kind is float:
        return RelTime(value)
    if kind is AbsTime:
        return RelTime(float(value.secs))
    if kind is str:
        # As with absTime(), only literals are read; HTCondor takes a computed string for no time at all.
        return RelTime(0.0)
    return ERROR
