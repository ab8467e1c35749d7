"""What each operator does with two values, after both were computed. The lazy ones (&&, ||, ?:, ? :) are with the
evaluator; here is the rest: types, promotion, 64-bit wrap-around, three-valued logic.

A nested ad and a list arrive here as opaque values (`Frame`, `BoundList`), for which every operator gives an error.

The rules are those of HTCondor's manual page classad-mechanism: an error among the operands makes an error, and an
undefined one an undefined value, except for `=?=` and `=!=`, which always answer yes or no. `==` on strings looks past
letter case, `=?=` does not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from pool.classad.eval.budget import Uncounted
from pool.classad.values.limits import LONG_STRING
from pool.classad.values.value import (
    ERROR,
    INT_MAX,
    INT_MIN,
    UNDEFINED,
    AbsTime,
    RelTime,
    compare_folded,
    int32_of,
    wrap,
)

# Any stands for a value in evaluation: a scalar, a RelTime, a Frame or a BoundList.
Operator = Callable[[Any, Any], Any]

_NUMBERS: Final = frozenset({int, float, bool})


def _ordering(test: Callable[[Any, Any], bool], longest: int = INT_MAX) -> Operator:
    """`<` and its kin: numbers (booleans count as 0 and 1), strings without case, times with times.

    Strings that are both longer than `longest` are left to one who counts what that costs.
    """

    def compare_values(a: Any, b: Any) -> Any:
        ta, tb = type(a), type(b)
        if ta in _NUMBERS and tb in _NUMBERS:
            if ta is not tb and (ta is float or tb is float):
                return test(float(a), float(b))
            return test(a, b)
        if a is ERROR or b is ERROR:
            return ERROR
        if a is UNDEFINED or b is UNDEFINED:
            return UNDEFINED
        if ta is str and tb is str:
            if len(a) > longest and len(b) > longest:
                raise Uncounted
            return test(compare_folded(a, b), 0)
        # Moments compare by their seconds since the epoch: the zone is for showing them.
        if ta is tb and ta in (AbsTime, RelTime):
            return test(a.secs, b.secs)
        return ERROR

    return compare_values


less = _ordering(operator.lt)
less_equal = _ordering(operator.le)
greater = _ordering(operator.gt)
greater_equal = _ordering(operator.ge)
equal = _ordering(operator.eq)
not_equal = _ordering(operator.ne)


def identical(a: Any, b: Any) -> Any:
    """`=?=`: the same type and value, letter case included; lists and ads cannot be compared."""
    ta = type(a)
    if ta is not type(b):
        return False
    if ta is str or ta is int or ta is bool or ta is float or ta is AbsTime or ta is RelTime:
        return a == b
    if a is UNDEFINED or a is ERROR:
        return True
    # HTCondor has two kinds of lists; lists of one kind cannot be compared, and of two kinds they are never the same.
    return ERROR if getattr(a, "fresh", None) is getattr(b, "fresh", None) else False


def not_identical(a: Any, b: Any) -> Any:
    """`=!=`: the opposite of `=?=`."""
    same = identical(a, b)
    return same if same is ERROR else not same


def _quick(same: Operator) -> Operator:
    """`=?=` or `=!=` of anything but two long strings."""

    def compare_short(a: Any, b: Any) -> Any:
        if type(a) is str and type(b) is str and len(a) == len(b) > LONG_STRING:
            raise Uncounted
        return same(a, b)

    return compare_short


def _operand(value: Any) -> Any:
    return int(value) if type(value) is bool else value


def _strict(a: Any, b: Any) -> Any:
    """The exceptional result of a strict operator's operands, else None."""
    if a is ERROR or b is ERROR:
        return ERROR
    if a is UNDEFINED or b is UNDEFINED:
        return UNDEFINED
    return None


def _real(value: float) -> Any:
    # Only the positive infinity, as in HTCondor: -INF and NaN are values (found on 25.14).
    return ERROR if value == math.inf else value


def add(a: Any, b: Any) -> Any:
    """`a + b`."""
    ta, tb = type(a), type(b)
    if ta is int and tb is int:
        return wrap(a + b)
    if ta in _NUMBERS and tb in _NUMBERS:
        return _real(float(a) + float(b)) if float in (ta, tb) else int(a) + int(b) if ta is tb else wrap(a + b)
    if (odd := _strict(a, b)) is not None:
        return odd
    if ta is AbsTime and tb is RelTime:
        return AbsTime(a.secs + int32_of(b.secs), a.offset)
    if ta is RelTime and tb is AbsTime:
        return AbsTime(b.secs + int32_of(a.secs), b.offset)
    if ta is RelTime and tb is RelTime:
        return RelTime(a.secs + b.secs)
    return ERROR


def subtract(a: Any, b: Any) -> Any:
    """`a - b`."""
    ta, tb = type(a), type(b)
    if ta is int and tb is int:
        return wrap(a - b)
    if ta in _NUMBERS and tb in _NUMBERS:
        return _real(float(a) - float(b)) if float in (ta, tb) else wrap(int(a) - int(b))
    if (odd := _strict(a, b)) is not None:
        return odd
    if ta is AbsTime and tb is AbsTime:
        return RelTime(float(a.secs - b.secs))
    if ta is AbsTime and tb is RelTime:
        return AbsTime(a.secs - int32_of(b.secs), a.offset)
    if ta is RelTime and tb is RelTime:
        return RelTime(a.secs - b.secs)
    return ERROR


def multiply(a: Any, b: Any) -> Any:
    """`a * b`."""
    ta, tb = type(a), type(b)
    if ta is int and tb is int:
        return wrap(a * b)
    if ta in _NUMBERS and tb in _NUMBERS:
        return _real(float(a) * float(b)) if float in (ta, tb) else wrap(int(a) * int(b))
    if (odd := _strict(a, b)) is not None:
        return odd
    if ta is RelTime and tb in (int, float):
        return RelTime(a.secs * b)
    if tb is RelTime and ta in (int, float):
        return RelTime(b.secs * a)
    return ERROR


def _quotient(a: float, b: float) -> float:
    """IEEE division, which Python refuses for zero divisors."""
    if b:
        return a / b
    # 0/0 and NaN/0 are NaN, everything else by zero is infinite (IEEE 754, 7.3).
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def divide(a: Any, b: Any) -> Any:
    """`a / b`: integers towards zero; division by integer zero is an error."""
    ta, tb = type(a), type(b)
    if ta in _NUMBERS and tb in _NUMBERS:
        if ta is float or tb is float:
            return _real(_quotient(float(a), float(b)))
        if not b:
            return ERROR
        # The one quotient that does not fit; HTCondor has the largest integer there, where C would trap.
        if a == INT_MIN and b == -1:
            return INT_MAX
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    if (odd := _strict(a, b)) is not None:
        return odd
    if ta is RelTime and tb in (int, float):
        return RelTime(_quotient(a.secs, float(b)))
    return ERROR


def modulus(a: Any, b: Any) -> Any:
    """`a % b` on integers; the sign is the dividend's."""
    ta, tb = type(a), type(b)
    # Integers alone: `5.0 % 3` is an error in HTCondor, whatever the manual says.
    if ta in _NUMBERS and tb in _NUMBERS:
        if ta is float or tb is float or not b:
            return ERROR
        rest = abs(a) % abs(b)
        return rest if a >= 0 else -rest
    odd = _strict(a, b)
    return ERROR if odd is None else odd


def _bitwise(compute: Callable[[int, int], int]) -> Operator:
    def on_integers(a: Any, b: Any) -> Any:
        if type(a) is int and type(b) is int:
            return compute(a, b)
        odd = _strict(a, b)
        return ERROR if odd is None else odd

    return on_integers


def _shift_right_unsigned(a: int, b: int) -> int:
    # Python's integers have no width: the sign bit is shifted in once by hand.
    return a >> (b & 63) if a >= 0 else ((a >> 1) & INT_MAX) >> ((b - 1) & 63)


def _shift_right(a: int, b: int) -> int:
    if a >= 0:
        return a >> (b & 63)
    # Negative numbers keep their sign: from 64 places on nothing else is left.
    return a >> min(64, b) if b > 0 else a


bit_or = _bitwise(operator.or_)
bit_xor = _bitwise(operator.xor)
bit_and = _bitwise(operator.and_)
shift_left = _bitwise(lambda a, b: wrap(a << (b & 63)))
shift_right = _bitwise(_shift_right)
shift_right_unsigned = _bitwise(_shift_right_unsigned)


def negative(a: Any) -> Any:
    """`-a`."""
    ta = type(a)
    if ta is int:
        return wrap(-a)
    if ta is float:
        return -a
    if ta is RelTime:
        return RelTime(-a.secs)
    return a if a is UNDEFINED else ERROR


def positive(a: Any) -> Any:
    """`+a`."""
    # Not of booleans: `+true` is an error, though `true + 0` is 1.
    return a if type(a) in (int, float, RelTime) or a is UNDEFINED else ERROR


def truth(a: Any) -> Any:
    """What a value is to the logical operators: true, false, undefined, or error (strings, times, lists, ads)."""
    ta = type(a)
    if ta is bool:
        return a
    if ta is int or ta is float:
        return a != 0
    return a if a is UNDEFINED else ERROR


def logical_not(a: Any) -> Any:
    """`!a`."""
    t = truth(a)
    return not t if type(t) is bool else t


def bit_not(a: Any) -> Any:
    """`~a`."""
    return ~a if type(a) is int else a if a is UNDEFINED else ERROR


BINARY: Final[dict[str, Operator]] = {
    "<": less,
    "<=": less_equal,
    ">": greater,
    ">=": greater_equal,
    "==": equal,
    "!=": not_equal,
    "=?=": identical,
    "=!=": not_identical,
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": modulus,
    "|": bit_or,
    "^": bit_xor,
    "&": bit_and,
    "<<": shift_left,
    ">>": shift_right,
    ">>>": shift_right_unsigned,
}
QUICK_BINARY: Final[dict[str, Operator]] = {
    **BINARY,
    "<": _ordering(operator.lt, LONG_STRING),
    "<=": _ordering(operator.le, LONG_STRING),
    ">": _ordering(operator.gt, LONG_STRING),
    ">=": _ordering(operator.ge, LONG_STRING),
    "==": _ordering(operator.eq, LONG_STRING),
    "!=": _ordering(operator.ne, LONG_STRING),
    "=?=": _quick(identical),
    "=!=": _quick(not_identical),
}
"""The same for code that does not count: none of these takes long."""
UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "-": negative,
    "+": positive,
    "!": logical_not,
    "~": bit_not,
}
