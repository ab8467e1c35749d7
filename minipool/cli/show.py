"""Values as the tools print them: bare strings, times as `0+00:01:31`, dates as `11/20 23:35`, and printf formats."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from pool.classad import ERROR, UNDEFINED, ClassAd, Expr, Value, expr
from pool.errors import ClassAdError
from pool.late_pattern import late_pattern

_NAME: Final = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CONVERSION: Final = late_pattern(r"%([-+ #0]*)(\d*)((?:\.\d+)?)(?:hh|h|ll|l|q|j|z|t|L)?([a-zA-Z%])")
_ESCAPES: Final = late_pattern(r"\\([abfnrtv\\'\"?]|[0-7]{1,3}|x[0-9a-fA-F]{1,2})")
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "?": "?"}


def literal(value: Value) -> str:
    """A value as it would be written in a long ad: strings in quotes."""
    return ClassAd({"X": value}).text("X")


def bare(value: Value) -> str:
    """A value for the eye: strings without quotes."""
    return value if isinstance(value, str) else literal(value)


def duration(seconds: float) -> str:
    """A time span: `  0+00:01:31`."""
    total = int(seconds)
    if total < 0:
        return "[?????]"
    days, rest = divmod(total, 86400)
    return f"{days:3d}+{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"


def date(seconds: float) -> str:
    """A date without the year: `11/20 23:35`."""
    when = time.localtime(seconds)
    return f"{when.tm_mon:2d}/{when.tm_mday:<2d} {when.tm_hour:02d}:{when.tm_min:02d}"


def span(seconds: float) -> str:
    """A time span as C divides it, so that a negative one shows: `  0+00:00:-5`."""
    total = int(seconds)
    sign, total = (-1, -total) if total < 0 else (1, total)
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    days, hours, minutes, left = sign * days, sign * hours, sign * (rest // 60), sign * (rest % 60)
    return f"{days:3d}+{hours:02d}:{minutes:02d}:{left:02d}"


def clock_date(seconds: float) -> str:
    """A date without the year, or question marks for a moment before 1970."""
    return "    ???    " if seconds < 0 else date(seconds)


def number(value: object) -> float | int | None:
    """A value as a number, as HTCondor counts booleans; None when it is none."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


def unescape(text: str) -> str:
    """A format string from the command line with its `\\n`, `\\t`, `\\101` as the characters they mean."""

    def meant(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)

    return _ESCAPES.sub(meant, text)


class Source:
    """An attribute or an expression that a column shows, read once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_name = bool(_NAME.match(text))
        self._expr: Expr | None = None
        if not self.is_name:
            try:
                self._expr = expr(text)
            except ClassAdError:
                raise ClassAdError(f"Error: invalid expression: {text}") from None

    def value(self, ad: ClassAd, target: ClassAd | None = None) -> Value:
        """What it is in this ad; UNDEFINED when the attribute is absent."""
        return ad.eval(self.text, target) if self._expr is None else self._expr.eval(ad, target)

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


class Printf(NamedTuple):
    """One printf format with at most one conversion."""

    before: str
    flags: str
    width: str
    precision: str
    letter: str
    after: str

    @classmethod
    def read(cls, text: str) -> Printf:
        """Split a format; text without a conversion prints as it is."""
        at = 0
        while (found := _CONVERSION.search(text, at)) is not None:
            if found[4] != "%":
                before, after = text[: found.start()].replace("%%", "%"), text[found.end() :].replace("%%", "%")
                return cls(before, found[1], found[2], found[3], found[4], after)
            at = found.end()
        return cls(text.replace("%%", "%"), "", "", "", "", "")

    def text(self, source: Source, ad: ClassAd, target: ClassAd | None = None) -> str | None:
        """The format filled in, or None when the value is not of the kind that it wants."""
        if not self.letter:
            return self.before
        if self.letter == "r":
            shown: str | None = source.raw(ad)
        else:
            shown = self._converted(source.value(ad, target), source, ad)
        return None if shown is None else f"{self.before}{shown}{self.after}"

    def _converted(self, value: Value, source: Source, ad: ClassAd) -> str | None:
        letter = self.letter
        if letter in "sSvVo":
            return self._as_text(value, source, ad)
        amount = number(value)
        if amount is None or amount != amount:
            return None
        if letter in "T":
            return self._padded(duration(amount))
        if letter in "Y":
            return self._padded(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(amount)))
        if letter in "di":
            return f"%{self.flags}{self.width}{self.precision}d" % int(amount)
        if letter in "uxXc":
            return f"%{self.flags}{self.width}{letter.replace('u', 'd')}" % int(amount)
        if letter in "fFeEgG":
            return f"%{self.flags}{self.width}{self.precision}{letter}" % float(amount)
        return None

    def _as_text(self, value: Value, source: Source, ad: ClassAd) -> str | None:
        if isinstance(value, str) and self.letter in "sSv":
            shown = value
        elif self.letter == "s":
            if source.text not in ad:
                return None
            shown = source.raw(ad)
        else:
            shown = literal(value)
        return self._padded(shown)

    def _padded(self, text: str) -> str:
        flags = "-" if "-" in self.flags else ""
        return f"%{flags}{self.width}{self.precision}s" % text


def is_set(value: object) -> bool:
    """Whether an attribute says anything."""
    return value is not UNDEFINED and value is not ERROR


def names_of(sources: Sequence[Source]) -> list[str]:
    """All attributes that the sources need."""
    return sorted({name for source in sources for name in source.names()})
