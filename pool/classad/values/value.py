"""What expressions evaluate to, and how values compare, convert and wrap around.

Booleans, integers (64 bit), reals and strings are Python's own. Strings that were not UTF-8 carry their odd bytes as
surrogates, and lengths and order are those of the bytes, as in HTCondor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias, final

if TYPE_CHECKING:
    from pool.classad.eval.ad import ClassAd
    from pool.classad.eval.expression import Expr

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
_MASK: Final = 2**64 - 1


@final
class Undefined:
    """The value of what is not known. There is one, `UNDEFINED`; it counts as false in Python."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __reduce__(self) -> str:
        return "UNDEFINED"


@final
class Error:
    """The value of what cannot be computed. There is one, `ERROR`; it counts as false in Python."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ERROR"

    def __reduce__(self) -> str:
        return "ERROR"


UNDEFINED: Final = Undefined()
ERROR: Final = Error()


# Written out, because the dataclasses module would cost every command-line tool 10 ms.


@final
class AbsTime:
    """A moment: seconds since the epoch, and the offset from UTC (seconds) with which it is shown. Never changed."""

    __slots__ = ("offset", "secs")
    __match_args__ = ("secs", "offset")

    def __init__(self, secs: int, offset: int = 0) -> None:
        self.secs = secs
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTime) and (self.secs, self.offset) == (other.secs, other.offset)

    def __hash__(self) -> int:
        return hash((AbsTime, self.secs, self.offset))

    def __repr__(self) -> str:
        return f"AbsTime(secs={self.secs!r}, offset={self.offset!r})"


@final
class RelTime:
    """A span of time in seconds. As a literal in an ad it evaluates to a real, as HTCondor's does. Never changed."""

    __slots__ = ("secs",)
    __match_args__ = ("secs",)

    def __init__(self, secs: float) -> None:
        self.secs = secs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RelTime) and self.secs == other.secs

    def __hash__(self) -> int:
        return hash((RelTime, self.secs))

    def __repr__(self) -> str:
        return f"RelTime(secs={self.secs!r})"


Scalar: TypeAlias = bool | int | float | str | Undefined | Error | AbsTime | RelTime
Value: TypeAlias = "Scalar | list[Member] | ClassAd"
Member: TypeAlias = "Value | Expr"

#: Types that evaluate to themselves wherever they are stored.
PLAIN: Final = frozenset({bool, int, float, str, Undefined, Error, AbsTime})


def wrap(n: int) -> int:
    """`n` as a 64-bit signed integer; overflow wraps around."""
    if -0x8000000000000000 <= n <= 0x7FFFFFFFFFFFFFFF:
        return n
    # Once it is known not to fit: most numbers never come here.
    n &= _MASK
    return n - 2**64 if n > INT_MAX else n


def int_of(real: float) -> int:
    """`real` truncated to 64 bits; what does not fit (and NaN) is the smallest integer, as on x86."""
    if math.isfinite(real):
        n = int(real)
        if INT_MIN <= n <= INT_MAX:
            return n
    return INT_MIN


def whole_number(value: object) -> int | None:
    """The integer that a value comes to, as `int_of` and `eval_int` cut reals; None for what is no number."""
    if isinstance(value, float):
        return int_of(value)
    return int(value) if isinstance(value, int) else None


def int32_of(real: float) -> int:
    """`real` truncated to 32 bits; what does not fit is the smallest 32-bit integer."""
    if math.isfinite(real) and -(2**31) <= (n := int(real)) < 2**31:
        return n
    return -(2**31)


def wrap32(n: int) -> int:
    """The low 32 bits of `n`, signed."""
    n &= 0xFFFFFFFF
    return n - 2**32 if n >= 2**31 else n


def to_bytes(text: str) -> bytes:
    """The bytes that `text` stands for; half a surrogate pair, which stands for none, becomes U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # A half of a pair, as of JSON's "\ud800": no bytes stand for it, and no ad may fail for it.
        whole = "".join("\ufffd" if "\ud800" <= c <= "\udfff" and not "\udc80" <= c <= "\udcff" else c for c in text)
        return whole.encode("utf-8", "surrogateescape")


def from_bytes(data: bytes) -> str:
    """The string for `data`; bytes that are not UTF-8 survive as surrogates."""
    return data.decode("utf-8", "surrogateescape")


def fold(text: str) -> str:
    """`text` with A-Z in lower case; other letters keep their case, as with C's tolower."""
    # str.lower() changes letters of other alphabets, and C's tolower does not.
    return text.lower() if text.isascii() else from_bytes(to_bytes(text).lower())


def compare(a: str, b: str) -> int:
    """Order of two strings by their bytes: negative, zero or positive."""
    if a == b:
        return 0
    if a.isascii() and b.isascii():
        return -1 if a < b else 1
    return -1 if to_bytes(a) < to_bytes(b) else 1


def compare_folded(a: str, b: str) -> int:
    """Order of two strings by their bytes, letter case (A-Z) ignored."""
    if a == b:
        return 0
    if a.isascii() and b.isascii():
        left, right = a.lower(), b.lower()
        return 0 if left == right else -1 if left < right else 1
    one, other = to_bytes(a).lower(), to_bytes(b).lower()  # of bytes, only those of A-Z have another case
    return 0 if one == other else -1 if one < other else 1
