"""Ads from XML, as HTCondor's tools print it: a push parser, so that a file of millions of ads is never held.

Entities and external subsets are refused: an ad needs none, and they are how XML readers are attacked.
"""

from __future__ import annotations

from typing import Any, Final
from xml.parsers import expat

from pool.base.errors import ClassAdError, Span
from pool.classad.eval.ad import ClassAd
from pool.classad.eval.convert import leading_real
from pool.classad.eval.expression import expr, store
from pool.classad.syntax.lex import unescape
from pool.classad.values.attrs import Attrs
from pool.classad.values.limits import MAX_NESTING
from pool.classad.values.times import read_abstime, read_reltime
from pool.classad.values.value import ERROR, INT_MAX, INT_MIN, UNDEFINED, Member

_AROUND: Final = frozenset({"classads"})
_LEAVES: Final = frozenset({"i", "r", "s", "b", "un", "er", "at", "rt", "e"})


def parse_xml(text: str, *, file: str = "ad") -> ClassAd:
    """Read the one ad in `text`; ClassAdError with line and column when it is none."""
    reader = XmlReader(file=file)
    ads = [*reader.feed(text), *reader.close()]
    if len(ads) != 1:
        raise ClassAdError(f"{len(ads)} ads", span=Span(file, 1, 1), expected="one <c> element")
    return ads[0]


class _Open:
    """An element that is being read: its tag, its attribute `n` or `v`, and what is inside."""

    __slots__ = ("items", "said", "tag", "text")

    def __init__(self, tag: str, said: str) -> None:
        self.tag, self.said = tag, said
        self.text: list[str] = []
        self.items: list[Any] = []


class XmlReader:
    """Takes text piece by piece and gives the ads that are complete."""

    def __init__(self, *, file: str = "ads") -> None:
        self._file = file
        self._open: list[_Open] = []
        self._done: list[ClassAd] = []
        parser = self._parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.EntityDeclHandler = self._entity
        self._wrapped = False

    def feed(self, text: str) -> list[ClassAd]:
        """The ads that end in `text`."""
        if not self._wrapped and text:
            text = self._wrap(text)
        return self._parse(text.encode("utf-8", "replace"), False)

    def close(self) -> list[ClassAd]:
        """The end of the text: ClassAdError when an element is still open."""
        if not self._wrapped:
            return []
        return self._parse(b"</ads>" if self._bare else b"", True)

    def _wrap(self, text: str) -> str:
        """Several <c> elements without one around them get one; with a head, there is one already."""
        self._wrapped = True
        start = text.lstrip()
        self._bare = not start.startswith(("<?xml", "<!DOCTYPE", "<classads"))
        return "<ads>" + text if self._bare else start

    def _parse(self, data: bytes, final: bool) -> list[ClassAd]:
        try:
            self._parser.Parse(data, final)
        except expat.ExpatError as error:
            raise self._error(expat.ErrorString(error.code), error.lineno, error.offset) from None
        done, self._done = self._done, []
        return done

    def _error(self, message: str, line: int = 0, column: int = -1, *, expected: str | None = None) -> ClassAdError:
        line = line or self._parser.CurrentLineNumber
        column = (column if column >= 0 else self._parser.CurrentColumnNumber) + 1
        if self._wrapped and self._bare and line == 1:
            column = max(1, column - len("<ads>"))
        return ClassAdError(message, span=Span(self._file, line, column), expected=expected)

    def _entity(self, *_about: object) -> None:
        raise self._error("an entity is declared", expected="ads, which need none")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        inside = self._open[-1].tag if self._open else ""
        if tag in _AROUND or (tag == "ads" and inside == "" and self._bare and self._parser.CurrentColumnNumber == 0):
            if self._open:
                raise self._error(f"<{tag}> has no place in <{inside}>")
            return
        if tag == "a":
            if inside != "c" or "n" not in attributes:
                raise self._error("an attribute out of place", expected='<a n="Name"> inside <c>')
        elif tag != "c" and tag != "l" and tag not in _LEAVES:
            raise self._error(f"<{tag}> is no element of an ad", expected="c, a, i, r, s, b, un, er, at, rt, e or l")
        elif not (inside in ("a", "l") or (tag == "c" and not inside)):
            raise self._error(f"<{tag}> has no place " + (f"in <{inside}>" if inside else "outside of an ad"))
        if len(self._open) > 2 * MAX_NESTING:
            raise self._error("nested too deeply", expected=f"at most {MAX_NESTING} levels")
        self._open.append(_Open(tag, attributes.get("n", attributes.get("v", ""))))

    def _data(self, text: str) -> None:
        if self._open and self._open[-1].tag in _LEAVES:
            self._open[-1].text.append(text)
        elif not text.isspace():
            raise self._error("text out of place", expected="an element")

    def _end(self, tag: str) -> None:
        if not self._open:
            return  # the element around all ads
        element = self._open.pop()
        if tag == "a":
            if len(element.items) != 1:
                raise self._error(f"{len(element.items)} values for {element.said}", expected="one")
            name = unescape(element.said)
            if not name:
                raise self._error("an attribute without a name")
            self._open[-1].items.append((name, element.items[0]))
            return
        value = self._value(element)
        if self._open:
            self._open[-1].items.append(value)
        else:
            self._done.append(value)  # type: ignore[arg-type]  # only <c> is outermost

    def _value(self, element: _Open) -> Member:
        match element.tag:
            case "c":
                return _ad(element.items)
            case "l":
                return element.items
            case "b":
                return element.said in ("t", "T")
            case "un":
                return UNDEFINED
            case "er":
                return ERROR
        return self._text(element.tag, "".join(element.text))

    def _text(self, tag: str, text: str) -> Member:
        found: Member | None = None
        if tag == "s":
            found = unescape(text)
        elif tag == "i":
            found = _integer(text)
        elif tag == "r":
            found = leading_real(text)
        elif tag == "at":
            found = read_abstime(text)
        elif tag == "rt":
            found = read_reltime(text)
        else:
            try:
                return store(expr(text).node)
            except ClassAdError as error:
                raise self._error(f"in this expression: {error.message}", expected=error.expected) from None
        if found is None:
            raise self._error(f"{text[:80]!r} is no value for <{tag}>")
        return found


def _integer(text: str) -> int | None:
    digits = text.strip()
    if not digits.removeprefix("-").isdecimal() or not digits.isascii():
        return None
    if len(digits) > 20:
        return 0
    value = int(digits)
    return value if INT_MIN <= value <= INT_MAX else 0


def _ad(pairs: list[tuple[str, Member]]) -> ClassAd:
    attrs = Attrs()
    for name, value in pairs:
        key = name.lower()
        if key not in attrs:
            attrs.spell(key, name)
        attrs[key] = value
    return ClassAd(attrs=attrs)
