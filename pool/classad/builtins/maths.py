"""Functions of numbers: rounding, powers, quantize, chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pool.classad.eval.convert import to_real
from pool.classad.eval.frame import BoundList, Frame, members
from pool.classad.eval.functions import framed, plain, register
from pool.classad.values.environment import chance
from pool.classad.values.value import ERROR, INT_MIN, int_of, wrap, wrap32


def _rounded(to_whole: Callable[[float], float]) -> Callable[[Any], Any]:
    def round_value(value: Any) -> Any:
        if type(value) is int:
            return value
        real = to_real(value)
        if type(real) is not float:
            return ERROR
        return int_of(to_whole(real)) if math.isfinite(real) else INT_MIN

    return round_value


register("floor", 1, 1, _rounded(math.floor))
register("ceil", 1, 1, _rounded(math.ceil))
register("ceiling", 1, 1, _rounded(math.ceil))
register("round", 1, 1, _rounded(round))


@plain(2, 2, "pow")
def power(base: Any, exponent: Any) -> Any:
    """An integer for an integer to a power that is not negative, else a real."""
    if type(base) is int and type(exponent) is int and exponent >= 0:
        return int_of(_pow(float(base), float(exponent)) + 0.5)
    left, right = to_real(base), to_real(exponent)
    if type(left) is not float or type(right) is not float:
        return ERROR
    return _pow(left, right)


def _pow(base: float, exponent: float) -> float:
    """C's pow: infinite where Python refuses."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        if base == 0:
            odd = exponent % 2 == 1
            return math.copysign(math.inf, base) if odd else math.inf
        return math.nan


@framed(2, 2, "quantize")
def quantize(frame: Frame, value: Any, step: Any) -> Any:
    """The next multiple of `step`, or the first member of a list that is as large."""
    real = to_real(value)
    if type(real) is not float:
        return ERROR
    if type(step) is BoundList:
        last: Any = 0.0
        for item in members(step, frame):
            last = item
            bound = to_real(item)
            if type(bound) is not float:
                return ERROR
            if bound >= real:
                return item
        step = last
    width = to_real(step)
    if type(width) is not float:
        return ERROR
    if type(step) is int:
        if step == 0:
            return value
        if type(value) is int:
            return wrap(_towards_zero(wrap(value + step - 1), step) * step)
        return _ceil(real / step) * step
    if -1e-8 <= width <= 1e-8:
        return value
    return _ceil(real / width) * width


def _ceil(value: float) -> float:
    if not math.isfinite(value):
        return value
    up = float(math.ceil(value))
    return math.copysign(up, value) if up == 0 else up


def _towards_zero(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


@plain(0, 1, "random")
def random_number(limit: Any = 1.0) -> Any:
    """A number from 0 up to, not including, the limit, and of its type."""
    if type(limit) is int:
        most = wrap32(limit)
        return chance().randrange(most) if most > 0 else ERROR
    if type(limit) is float and limit > 0:
        return chance().random() * limit
    return ERROR
