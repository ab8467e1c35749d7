"""Values as the tools print them: bare strings, times as `0+00:01:31`, dates as `11/20 23:35`, and printf formats."""

from __future__ import annotations

import math
import time

from pool.base.errors import ClassAdError
from pool.base.units import show_seconds
from pool.classad import ClassAd, Expr, Value, expr

_WIDTH = 80
_NO_DATE = "    ???    "


def literal(value: Value) -> str:
    """A value as it would be written in a long ad: strings in quotes."""
    return ClassAd({"X": value}).text("X")


def bare(value: Value) -> str:
    """A value for the eye: strings without quotes."""
    return value if isinstance(value, str) else literal(value)


def duration(seconds: float) -> str:
    """A time span: `  0+00:01:31`."""
    if not math.isfinite(seconds) or seconds <= -1:
        return "[?????]"
    total = int(seconds)
    return f"{show_seconds(total):>12}"


def date(seconds: float) -> str:
    """A date without the year: `11/20 23:35`; question marks for a moment that no calendar has."""
    when = local(seconds)
    return _NO_DATE if when is None else f"{when.tm_mon:2d}/{when.tm_mday:<2d} {when.tm_hour:02d}:{when.tm_min:02d}"


def span(seconds: float) -> str:
    """A time span as C divides it, so that a negative one shows: `  0+00:00:-5`."""
    if type(seconds) is int and seconds >= 0:  # as most are
        minutes, left = divmod(seconds, 60)
        return f"{minutes // 1440:3d}+{minutes // 60 % 24:02d}:{minutes % 60:02d}:{left:02d}"
    if not math.isfinite(seconds):
        return "[?????]"
    total = int(seconds)
    sign, total = (-1, -total) if total < 0 else (1, total)
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    days, hours, minutes, left = sign * days, sign * hours, sign * (rest // 60), sign * (rest % 60)
    return f"{days:3d}+{hours:02d}:{minutes:02d}:{left:02d}"


def clock_date(seconds: float) -> str:
    """A date without the year, or question marks for a moment before 1970."""
    return _NO_DATE if seconds < 0 else date(seconds)


def long_date(seconds: float) -> str:
    """A date with weekday and year: `Fri Nov 20 23:35:32 2026`."""
    when = local(seconds)
    return _NO_DATE.strip() if when is None else time.asctime(when)


def local(seconds: float) -> time.struct_time | None:
    """A moment in this host's zone; None where there is none such: what an ad gives for a time may be any number."""
    try:
        return time.localtime(seconds)
    except (OverflowError, ValueError, OSError):
        return None


def number(value: object) -> float | int | None:
    """A value as a number, as HTCondor counts booleans; None when it is none."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


class ColumnSource:
    """An attribute or an expression that a column shows, read once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_name = text.isascii() and text.isidentifier()
        self.target: ClassAd | None = None
        self._expr: Expr | None = None
        if not self.is_name:
            try:
                self._expr = expr(text)
            except ClassAdError:
                raise ClassAdError(f"Error: invalid expression: {text}") from None

    def value(self, ad: ClassAd) -> Value:
        """What it is in this ad, against the target where there is one; UNDEFINED when the attribute is absent."""
        return ad.eval(self.text, self.target) if self._expr is None else self._expr.eval(ad, self.target)

    def raw(self, ad: ClassAd) -> str:
        """The expression's text, not evaluated; `undefined` when the attribute is absent."""
        if self._expr is not None:
            return self._expr.old_text
        return ad.text(self.text) if self.text in ad else "undefined"

    def names(self) -> list[str]:
        """The attributes that have to be fetched for it."""
        if self._expr is None:
            return [self.text]
        internal, external = self._expr.references(ClassAd())
        return sorted({*internal, *external})


def wrapped(text: str, indent: int = 4, width: int = _WIDTH) -> str:
    """An expression over several lines, broken after `&&` and `||` and indented by its parentheses."""
    lines: list[str] = []
    line_start, break_at, break_indent, column, depth = 0, 0, indent, indent, indent
    margin = ""
    for at, letter in enumerate(text):
        after_operator = at >= 2 and text[at - 2 : at] in ("&&", "||")
        if letter == "(":
            depth += 2
        elif letter == ")":
            depth -= 2
        if column >= width and break_at > line_start:
            lines.append(margin + text[line_start:break_at])
            margin = " " * break_indent
            line_start = break_at + 1
            column = len(margin) + at - line_start
            break_at, break_indent = line_start, depth
        if after_operator:
            break_at, break_indent = at, depth
        column += 1
    lines.append(margin + text[line_start:])
    return "\n".join(lines)
