"""Functions of lists: membership, size, sums, bounds, comparisons with every member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pool.classad.eval.evaluate import CHARS_COMPARED
from pool.classad.eval.frame import BoundList, Frame, members
from pool.classad.eval.functions import framed, plain
from pool.classad.eval.operators import BINARY, add, divide, equal, greater, identical, less
from pool.classad.values.limits import LONG_STRING
from pool.classad.values.value import ERROR, UNDEFINED, to_bytes


def _compared(items: BoundList, with_value: Any, frame: Frame) -> Iterator[Any]:
    """The members of a list that are to be compared with a value; long strings count for more than a step."""
    if type(with_value) is str and len(with_value) > LONG_STRING:
        # Each comparison copies, where letter case is not looked at, as much as the value is long.
        frame.budget.spend(len(items) * (len(with_value) // CHARS_COMPARED))
    return members(items, frame)


@framed(2, 2, "member")
def member_of(frame: Frame, item: Any, items: Any) -> Any:
    """Whether a member equals `item` in the sense of `==`."""
    if items is UNDEFINED or item is UNDEFINED:
        return UNDEFINED
    if type(items) is not BoundList or type(item) in (BoundList, Frame) or item is ERROR:
        return ERROR
    return any(equal(value, item) is True for value in _compared(items, item, frame))


@framed(2, 2, "identicalMember")
def identical_member(frame: Frame, item: Any, items: Any) -> Any:
    """Whether a member equals `item` in the sense of `=?=`."""
    if items is UNDEFINED:
        return UNDEFINED
    if type(items) is not BoundList or type(item) in (BoundList, Frame):
        return ERROR
    return any(identical(value, item) is True for value in _compared(items, item, frame))


@plain(1, 1, "size")
def size(value: Any) -> Any:
    """Members of a list, attributes of an ad, bytes of a string."""
    kind = type(value)
    if kind is BoundList:
        return len(value)
    if kind is Frame:
        return len(value.attrs.keys_all())
    if kind is str:
        return len(value) if value.isascii() else len(to_bytes(value))
    return UNDEFINED if value is UNDEFINED else ERROR


def _numbers(frame: Frame, items: Any) -> Any:
    """The numbers in a list, undefined members left out; or the exceptional value."""
    if items is UNDEFINED:
        return UNDEFINED
    if type(items) is not BoundList:
        return ERROR
    found = []
    for value in members(items, frame):
        if type(value) in (int, float, bool):
            found.append(value)
        elif value is not UNDEFINED:
            return ERROR
    return found


def _total(numbers: list[Any]) -> Any:
    if not numbers:
        return 0
    total = numbers[0]
    for number in numbers[1:]:
        total = add(total, number)
    return total


@framed(1, 1, "sum")
def sum_of(frame: Frame, items: Any) -> Any:
    """The sum of a list of numbers; of none it is 0."""
    numbers = _numbers(frame, items)
    return _total(numbers) if type(numbers) is list else numbers


@framed(1, 1, "avg")
def average(frame: Frame, items: Any) -> Any:
    """The mean of a list of numbers; of none it is 0."""
    numbers = _numbers(frame, items)
    if type(numbers) is not list:
        return numbers
    # Not math.fsum: HTCondor adds from the left, and a rounding error is a part of the value.
    return divide(_total(numbers), float(len(numbers))) if numbers else 0


def _bound(frame: Frame, items: Any, better: Any) -> Any:
    numbers = _numbers(frame, items)
    if type(numbers) is not list:
        return numbers
    if not numbers:
        return UNDEFINED
    best = numbers[0]
    for number in numbers[1:]:
        # Comparing promotes both, and the bound stays promoted: of 3 and 2.5 the larger is 3.0.
        kind = float if float in (type(number), type(best)) else int
        number, best = kind(number), kind(best)
        if better(number, best):
            best = number
    return best


@framed(1, 1, "min")
def least(frame: Frame, items: Any) -> Any:
    """The smallest number of a list; undefined when there is none."""
    return _bound(frame, items, less)


@framed(1, 1, "max")
def largest(frame: Frame, items: Any) -> Any:
    """The largest number of a list; undefined when there is none."""
    return _bound(frame, items, greater)


_COMPARISONS = {op: BINARY[op] for op in ("<", "<=", "!=", "==", ">", ">=")} | {
    "is": BINARY["=?="],
    "isnt": BINARY["=!="],
}


def _compare(frame: Frame, op: Any, items: Any, value: Any, want_all: bool) -> Any:
    if op is UNDEFINED:
        return UNDEFINED
    test = _COMPARISONS.get(op) if type(op) is str else None
    if test is None:
        return ERROR
    if items is UNDEFINED:
        return UNDEFINED
    if type(items) is not BoundList:
        return ERROR
    for item in _compared(items, value, frame):
        found = test(item, value)
        if found is UNDEFINED:
            return False
        if found is ERROR:
            return ERROR
        if found is not want_all:
            return not want_all
    return want_all


@framed(3, 3, "anyCompare")
def any_compare(frame: Frame, op: Any, items: Any, value: Any) -> Any:
    """Whether `item op value` holds for some member."""
    return _compare(frame, op, items, value, False)


@framed(3, 3, "allCompare")
def all_compare(frame: Frame, op: Any, items: Any, value: Any) -> Any:
    """Whether `item op value` holds for every member."""
    return _compare(frame, op, items, value, True)
