"""Functions of string lists: items of one string, parted by any of the delimiters, empty ones not counted."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from pool.classad.eval.budget import Budget
from pool.classad.eval.convert import leading_real
from pool.classad.eval.functions import SLOW, metered, plain, register
from pool.classad.eval.patterns import Pattern, compile_pattern
from pool.classad.values.value import ERROR, UNDEFINED, fold, int_of

_SPACES: Final = " \t\n\v\f\r"


def _one_of(characters: str) -> re.Pattern[str]:
    return re.compile("[" + re.escape(characters) + "]")


# Kept here, as `re` shares its own places among all patterns of the process.
_usual: Final = lru_cache(256)(_one_of)
_USUAL_MAX: Final = 16


def _delimiter(delimiters: str) -> re.Pattern[str] | None:
    if len(delimiters) > _USUAL_MAX:
        # Users may write a megabyte of delimiters: it is neither kept nor compiled as it is.
        return _one_of("".join(dict.fromkeys(delimiters)))
    return _usual(delimiters) if delimiters else None


def items_of(text: str, delimiters: str = ", \t\r\n") -> list[str]:
    """The items of a string list, without the spaces around them."""
    pattern = _delimiter(delimiters)
    pieces = [text] if pattern is None else pattern.split(text)
    return [item for piece in pieces if (item := piece.strip(_SPACES))]


@plain(1, 2, "stringListSize", cost=SLOW)
def string_list_size(text: Any, delimiters: Any = ", ") -> Any:
    """How many items there are."""
    if type(text) is not str or type(delimiters) is not str:
        return ERROR
    return len(items_of(text, delimiters))


def _summary(text: Any, delimiters: Any) -> tuple[list[float], bool] | None:
    """The items as numbers, and whether all look like integers; None when something is no number."""
    if type(text) is not str or type(delimiters) is not str:
        return None
    numbers: list[float] = []
    whole = True
    for item in items_of(text, delimiters):
        number = leading_real(item)
        if number is None:
            return None
        numbers.append(number)
        # Of digits and signs alone: `1e3` and `1.0` make the result a real.
        whole = whole and not item.strip("+-0123456789")
    return numbers, whole


def _typed(number: float, whole: bool) -> Any:
    return int_of(number) if whole else number


@plain(1, 2, "stringListSum", cost=SLOW)
def string_list_sum(text: Any, delimiters: Any = ", ") -> Any:
    """The sum: an integer if all items are."""
    found = _summary(text, delimiters)
    if found is None:
        return ERROR
    return _typed(_sum(found[0]), found[1]) if found[0] else 0.0


@plain(1, 2, "stringListAvg", cost=SLOW)
def string_list_avg(text: Any, delimiters: Any = ", ") -> Any:
    """The mean; 0.0 of an empty list."""
    found = _summary(text, delimiters)
    if found is None:
        return ERROR
    return _typed(_sum(found[0]) / len(found[0]), found[1]) if found[0] else 0.0


def _sum(numbers: list[float]) -> float:
    total = 0.0
    # From the left and one by one, as C does: sum() of Python 3.12 corrects the rounding.
    for number in numbers:
        total += number
    return total


#: Where HTCondor starts to look for a bound: the largest and the smallest positive 32-bit real.
_FLT_MAX: Final = 3.4028234663852886e38
_FLT_MIN: Final = 1.1754943508222875e-38


@plain(1, 2, "stringListMin", cost=SLOW)
def string_list_min(text: Any, delimiters: Any = ", ") -> Any:
    """The smallest item; undefined of an empty list."""
    found = _summary(text, delimiters)
    if found is None:
        return ERROR
    best = _FLT_MAX
    for number in found[0]:
        best = number if number < best else best
    return _typed(best, found[1]) if found[0] else UNDEFINED


@plain(1, 2, "stringListMax", cost=SLOW)
def string_list_max(text: Any, delimiters: Any = ", ") -> Any:
    """The largest item; undefined of an empty list."""
    found = _summary(text, delimiters)
    if found is None:
        return ERROR
    best = _FLT_MIN
    for number in found[0]:
        best = number if number > best else best
    return _typed(best, found[1]) if found[0] else UNDEFINED


def _set_function(name: str, subset: bool, caseless: bool) -> None:
    def test(item: Any, text: Any, delimiters: Any = ", \t\r\n") -> Any:
        if type(item) is str and type(text) is str and type(delimiters) is str:
            marks, wanted, present = delimiters, item, items_of(text, delimiters)
        else:
            if any(type(value) is not str and value is not UNDEFINED for value in (item, text, delimiters)):
                return ERROR
            if item is UNDEFINED and text is UNDEFINED:
                return UNDEFINED
            marks = delimiters if type(delimiters) is str else ", \t\r\n"
            wanted = item if type(item) is str else ""
            present = items_of(text, marks) if type(text) is str else []
        if caseless:
            wanted, present = fold(wanted), [fold(one) for one in present]
        if subset:
            items = set(items_of(wanted, marks))
            # Of delimiters alone nothing is a part; an empty string is a part of all.
            return not wanted or (bool(items) and items <= set(present))
        return wanted in present

    register(name, 2, 3, test, cost=SLOW)


_set_function("stringListMember", False, False)
_set_function("stringListIMember", False, True)
_set_function("stringListSubsetMatch", True, False)
_set_function("stringListISubsetMatch", True, True)


@plain(2, 3, "stringListsIntersect", cost=SLOW)
def string_lists_intersect(left: Any, right: Any, delimiters: Any = "") -> Any:
    """Whether the two have an item in common; here only the delimiters part items."""
    values = (left, right, delimiters)
    if ERROR in values:
        return ERROR
    if UNDEFINED in values:
        return UNDEFINED
    if any(type(value) is not str for value in values):
        return ERROR
    # Empty delimiters are the usual ones here, which is this function's alone.
    pattern = _delimiter(delimiters or " ,")
    assert pattern is not None
    common = set(pattern.split(left)) & set(pattern.split(right))
    return bool(common - {""})


@metered(2, 4, "stringList_regexpMember")
def string_list_regexp_member(
    budget: Budget, pattern: Any, text: Any, delimiters: Any = ", ", options: Any = ""
) -> Any:
    """Whether an item matches the pattern; undefined when there are no items."""
    if any(type(value) is not str for value in (pattern, text, delimiters, options)):
        return ERROR
    compiled = compile_pattern(pattern, fold(options), budget)
    if not isinstance(compiled, Pattern):
        return ERROR
    items = items_of(text, delimiters)
    if not items:
        return UNDEFINED
    budget.spend(len(items))
    return any(compiled.search(item, budget) for item in items)
