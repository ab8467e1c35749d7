"""Functions of strings: joining, cutting, comparing, splitting, and versions.

As HTCondor's manual page classad-builtin-functions has them. Strings are cut and compared as bytes of UTF-8, and only
a to z have two cases. strcat and join take numbers as their text. No string grows beyond MAX_STRING.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pool.classad.eval.convert import to_string
from pool.classad.eval.evaluate import CHARS_BUILT
from pool.classad.eval.frame import BoundList, Frame, members
from pool.classad.eval.functions import MANY, SLOW, SLOWEST, framed, plain, register
from pool.classad.values.limits import MAX_STRING
from pool.classad.values.value import ERROR, UNDEFINED, compare, compare_folded, from_bytes, to_bytes, wrap32

_UPPER: Final = {i: i - 32 for i in range(97, 123)}
_LOWER: Final = {i: i + 32 for i in range(65, 91)}


@plain(0, MANY, "strcat")
def strcat(*values: Any) -> Any:
    """All arguments as one string; undefined as soon as one is."""
    parts: list[str] = []
    size = 0
    for value in values:
        text = value if type(value) is str else to_string(value)
        if type(text) is not str:
            return text
        parts.append(text)
        # Counted while parts are collected: strcat(x, x, ...) could else fill the memory before anybody looks.
        size += len(text)
        if size > MAX_STRING:
            return ERROR
    return "".join(parts)


@framed(0, MANY, "join")
def join(frame: Frame, *values: Any) -> Any:
    """The arguments after the first, or the members of a list, with the first between them; undefined ones left out."""
    items: list[Any] = list(values)
    if 0 < len(items) <= 2 and type(items[-1]) is BoundList:
        inside = list(members(items[-1], frame))
        items = [items[0] if len(items) > 1 else "", *inside]
    joined, between, some, missing = "", "", False, False
    for i, item in enumerate(items):
        text = to_string(item)
        if text is UNDEFINED:
            missing = True
        elif text is ERROR:
            return ERROR
        elif i == 0:
            between = text
        else:
            joined += (between if joined else "") + text
            some = True
            frame.budget.spend((len(between) + len(text)) // CHARS_BUILT)
            if len(joined) > MAX_STRING:
                return ERROR
    return UNDEFINED if missing and not some else joined


@plain(1, 1, "toUpper")
def to_upper(value: Any) -> Any:
    """a-z in upper case."""
    text = to_string(value)
    return text.translate(_UPPER) if type(text) is str else text


@plain(1, 1, "toLower")
def to_lower(value: Any) -> Any:
    """A-Z in lower case."""
    text = to_string(value)
    return text.translate(_LOWER) if type(text) is str else text


@plain(2, 3, "substr")
def substr(text: Any, offset: Any, length: Any = None) -> Any:
    """Bytes from `offset`; negative offsets and lengths count from the end."""
    if text is UNDEFINED or offset is UNDEFINED or length is UNDEFINED:
        return UNDEFINED
    if type(text) is not str or type(offset) is not int or type(length) not in (int, type(None)):
        return ERROR
    # Bytes, as HTCondor cuts them: of a two-byte letter one half may remain.
    data: Any = text if text.isascii() else to_bytes(text)
    start = wrap32(offset)
    start = max(0, len(data) + start) if start < 0 else min(start, len(data))
    room = len(data) - start
    if length is None:
        count = room
    else:
        count = wrap32(length)
        count = 0 if count == 0 else max(0, room + count) if count < 0 else min(count, room)
    piece = data[start : start + count]
    return piece if type(piece) is str else from_bytes(piece)


def _compared(order: Any) -> Any:
    def compare_strings(a: Any, b: Any) -> Any:
        if a is UNDEFINED or b is UNDEFINED:
            return UNDEFINED
        left, right = to_string(a), to_string(b)
        return order(left, right) if type(left) is str and type(right) is str else ERROR

    return compare_strings


def _sign(n: int) -> int:
    return (n > 0) - (n < 0)


register("strcmp", 2, 2, _compared(lambda a, b: _sign(compare(a, b))))
register("stricmp", 2, 2, _compared(lambda a, b: _sign(compare_folded(a, b))))


def compare_versions(a: str, b: str) -> int:
    """Order of two strings in which runs of digits count as numbers, as glibc's strverscmp has it."""
    # With C's end, which compares smaller than all and ends every run of digits.
    left, right = to_bytes(a) + b"\0", to_bytes(b) + b"\0"
    at = 0
    while left[at] and left[at] == right[at]:
        at += 1
    if left[at] == right[at]:
        return 0
    # char is signed on x86: letters beyond ASCII come before all others.
    difference = _signed(left[at]) - _signed(right[at])
    start = at
    while start > 0 and _digit(left[start - 1]):
        start -= 1
    if start == at and not (_digit(left[at]) and _digit(right[at])):
        return difference
    zeros = [_zeros(text, start) for text in (left, right)]
    if zeros[0] != zeros[1]:
        return zeros[1] - zeros[0]
    # Behind leading zeros digits are a fraction, "0.01" before "0.1": the first difference decides, not the length.
    if zeros[0]:
        return difference
    lengths = [_digits(text, start) for text in (left, right)]
    return lengths[0] - lengths[1] or difference


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _digit(byte: int) -> bool:
    return 48 <= byte <= 57


def _zeros(text: bytes, at: int) -> int:
    """Leading zeros; the last one of a run that is nothing else does not lead."""
    end = at
    while text[end] == 48:
        end += 1
    return end - at - (end > at and not _digit(text[end]))


def _digits(text: bytes, at: int) -> int:
    end = at
    while _digit(text[end]):
        end += 1
    return end - at


register("versionCmp", 2, 2, _compared(compare_versions), cost=SLOWEST)
register("versionLE", 2, 2, _compared(lambda a, b: compare_versions(a, b) <= 0), cost=SLOWEST)
register("versionLT", 2, 2, _compared(lambda a, b: compare_versions(a, b) < 0), cost=SLOWEST)
register("versionGE", 2, 2, _compared(lambda a, b: compare_versions(a, b) >= 0), cost=SLOWEST)
register("versionGT", 2, 2, _compared(lambda a, b: compare_versions(a, b) > 0), cost=SLOWEST)
register("versionEQ", 2, 2, _compared(lambda a, b: compare_versions(a, b) == 0), cost=SLOWEST)


@plain(3, 3, "version_in_range", cost=SLOWEST)
def version_in_range(version: Any, least: Any, most: Any) -> Any:
    """Whether `least <= version <= most`."""
    if least is UNDEFINED or most is UNDEFINED:
        return UNDEFINED
    texts = [to_string(value) for value in (version, least, most)]
    if any(type(text) is not str for text in texts):
        return ERROR
    return compare_versions(texts[1], texts[0]) <= 0 and compare_versions(texts[0], texts[2]) <= 0


@framed(1, 1, "splitUserName")
def split_user_name(frame: Frame, value: Any) -> Any:
    """`user@domain` as a list of both; without @ the domain is empty."""
    if type(value) is not str:
        return ERROR
    user, _, domain = value.partition("@")
    return BoundList([user, domain], frame, fresh=True)


@framed(1, 1, "splitSlotName")
def split_slot_name(frame: Frame, value: Any) -> Any:
    """`slot@machine` as a list of both; without @ the slot is empty."""
    if type(value) is not str:
        return ERROR
    slot, at, machine = value.partition("@")
    return BoundList([slot, machine] if at else ["", slot], frame, fresh=True)


_SPACES: Final = " \t\n\v\f\r"


@framed(1, 2, "split", cost=SLOW)
def split(frame: Frame, value: Any, separators: Any = ", \t") -> Any:
    """The items between separators: one of the same twice has an empty item between, spaces do not add any."""
    if type(value) is not str or type(separators) is not str:
        return ERROR
    if not separators:
        return BoundList([value] if value else [], frame, fresh=True)
    items: list[str] = []
    last, previous = 0, ""
    for found in re.finditer("[" + re.escape("".join(dict.fromkeys(separators))) + "]", value):
        at, mark = found.start(), found[0]
        if at > last:
            items.append(value[last:at])
        # Blanks between do not count: `a, ,b` has an empty item as `a,,b` has.
        elif previous and previous not in _SPACES and previous == mark:
            items.append("")
        if mark not in _SPACES:
            previous = mark
        last = at + 1
    if last < len(value):
        items.append(value[last:])
    return BoundList(items, frame, fresh=True)
