"""The long form: a line `Name = expression` for each attribute, an empty line between ads.

Lines whose value is a plain literal, nearly all of them, never see the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from re import Pattern
from typing import Any, Final

from pool.base.errors import ClassAdError, Span
from pool.classad.eval.ad import ClassAd
from pool.classad.eval.expression import expr, store
from pool.classad.values.attrs import Attrs, is_usual

_LINE: Final = r"[ \t]*(?:'((?:[^'\\]++|\\.)++)'|([A-Za-z_][A-Za-z0-9_]*))[ \t]*=(?!=|[?!]=)[ \t]*"
_PLAIN: Final = (
    r"([A-Za-z_][A-Za-z0-9_]*) = "
    r"(?:(-?(?:[1-9][0-9]{0,17}|0))|\"([^\"\\\n\0]*)\"|(true|false)|(-?(?:[1-9][0-9]*|0)\.[0-9]+(?:E[+-]?[0-9]+)?))\Z"
)
#: Lines seen before that are likely to be seen again: their key and value.
_KNOWN: Final[dict[str, tuple[str, Any]]] = {}
_MAX_KNOWN: Final = 100_000


@cache
def _plain() -> Pattern[str]:
    """A whole line with a plain literal, as ads print it; most tools read none."""
    return re.compile(_PLAIN)


def parse_long(text: str, *, file: str = "ad") -> ClassAd:
    """Read one ad; empty lines and lines that begin with # do not count."""
    return ClassAd(attrs=_read(text.split("\n"), 1, file))


def _read(lines: list[str], first: int, file: str) -> Attrs:
    """The attributes in `lines`, of which the first has number `first`."""
    attrs = Attrs()
    known = _KNOWN.get
    try:
        pairs = [pair for line in lines if (pair := known(line) or _line(line, attrs)) is not None]
        attrs.update(pairs)
        if attrs.names is not None and len(attrs) < len(pairs):
            # Of one name in two spellings, the first one counts.
            attrs = Attrs()
            for line in lines:
                if (pair := _line(line, attrs)) is not None:
                    attrs[pair[0]] = pair[1]
    except ClassAdError:
        # Again, to tell which line it was.
        for number, line in enumerate(lines, first):
            _line(line, attrs, number, file)
        raise
    return attrs


def _line(line: str, attrs: Attrs, number: int = 1, file: str = "ad") -> tuple[str, Any] | None:
    """Key and stored value of a line; None when there is none in it. An unusual spelling is noted in `attrs`."""
    fast = _plain().match(line)
    lasting = len(line) < 200
    value: Any
    if fast is not None:
        name, integer, string, word, real = fast.groups()
        if integer is not None:
            value = int(integer)
            lasting = len(integer) < 7
        elif string is not None:
            value = string
        elif word is not None:
            value = word == "true"
        else:
            value = float(real)
            lasting = False
    else:
        if not line or line.isspace() or line.lstrip()[0] == "#":
            return None
        start = re.match(_LINE, line)
        if start is None:
            raise ClassAdError(
                "this line has no attribute", span=Span(file, number, 1, line[:500]), expected="Name = expression"
            )
        name = start[2] or start[1].replace("\\'", "'")
        value = _parse(line, start.end(), number, file)
    key = name.lower()
    if is_usual(key, name):
        if lasting:
            if len(_KNOWN) >= _MAX_KNOWN:
                _KNOWN.clear()
            _KNOWN[line] = key, value
    elif key not in attrs:
        attrs.spell(key, name)
    return key, value


def _parse(line: str, at: int, number: int, file: str) -> object:
    try:
        return store(expr(line[at:].rstrip(" \t\r"), old=True).node)
    except ClassAdError as error:
        from pool.classad.syntax.lex import fail

        span = error.span
        column = at + (span.column if span is not None else 1)
        found = fail(line, column - 1, error.message, expected=error.expected, file=file)
        assert found.span is not None
        found.span = Span(file, number, column, found.span.text)
        raise found from None


def parse_longs(lines: Iterable[str], *, file: str = "ads") -> Iterator[ClassAd]:
    """Read ads one after another, a line at a time; empty lines part them."""
    block: list[str] = []
    first = 1
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        if line.strip():
            if not block:
                first = number
            block.append(line)
        elif block:
            yield ClassAd(attrs=_read(block, first, file))
            block = []
    if block:
        yield ClassAd(attrs=_read(block, first, file))
