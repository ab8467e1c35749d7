"""The long form: a line `Name = expression` for each attribute, an empty line between ads.

Lines whose value is a plain literal, nearly all of them, never see the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pool.classad.ad import ClassAd
from pool.classad.attrs import Attrs
from pool.classad.expression import expr, store
from pool.classad.lex import fail
from pool.classad.values import INT_MAX, INT_MIN, UNDEFINED
from pool.errors import ClassAdError, Span

_LINE: Final = re.compile(r"[ \t]*(?:'((?:[^'\\]|\\.)+)'|([A-Za-z_][A-Za-z0-9_]*))[ \t]*=(?![=?!])[ \t]*")
_LITERAL: Final = re.compile(
    r"(?:(-?(?:[1-9][0-9]{0,17}|0))"
    r"|\"([^\"\\\n\0]*)\""
    r"|(-?(?:[1-9][0-9]*|0)\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|([tT][rR][uU][eE])|([fF][aA][lL][sS][eE])|(undefined))[ \t\r]*\Z"
)
_KNOWN: Final[dict[str, tuple[str, str, object]]] = {}
_MAX_KNOWN: Final = 100_000


def parse_long(text: str, *, file: str = "ad") -> ClassAd:
    """Read one ad; empty lines and lines that begin with # do not count."""
    attrs = Attrs()
    spell = attrs.spell
    known = _KNOWN.get
    for number, line in enumerate(text.split("\n"), 1):
        found = known(line)
        if found is None:
            if not line or line.isspace() or line.lstrip()[0] == "#":
                continue
            found = _read(line, number, file)
        key, name, value = found
        if key not in attrs:
            spell(key, name)
        attrs[key] = value
    return ClassAd(attrs=attrs)


def _read(line: str, number: int, file: str) -> tuple[str, str, object]:
    """Key, name and stored value of a line."""
    start = _LINE.match(line)
    if start is None:
        raise ClassAdError(
            "this line has no attribute", span=Span(file, number, 1, line[:500]), expected="Name = expression"
        )
    name = start[2] or start[1].replace("\\'", "'")
    rest = line[start.end() :]
    literal = _LITERAL.match(rest)
    if literal is None:
        value: object = _parse(line, start.end(), number, file)
    elif (which := literal.lastindex) == 1:
        value = int(rest)
        assert INT_MIN <= value <= INT_MAX
    elif which == 2:
        value = literal[2]
    elif which == 3:
        value = float(literal[3])
    else:
        value = True if which == 4 else False if which == 5 else UNDEFINED
    found = name.lower(), name, value
    if len(line) < 200:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        _KNOWN[line] = found
    return found


def _parse(line: str, at: int, number: int, file: str) -> object:
    try:
        return store(expr(line[at:].rstrip(" \t\r"), old=True).node)
    except ClassAdError as error:
        span = error.span
        column = at + (span.column if span is not None else 1)
        found = fail(line, column - 1, error.message, expected=error.expected, file=file)
        assert found.span is not None
        found.span = Span(file, number, column, found.span.text)
        raise found from None


def parse_longs(lines: Iterable[str], *, file: str = "ads") -> Iterator[ClassAd]:
    """Read ads one after another, a line at a time; empty lines part them."""
    block: list[str] = []
    for line in lines:
        line = line.rstrip("\r\n")
        if line.strip():
            block.append(line)
        elif block:
            yield parse_long("\n".join(block), file=file)
            block.clear()
    if block:
        yield parse_long("\n".join(block), file=file)
