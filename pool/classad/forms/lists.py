"""Many ads in any form: told apart by how they begin, read one after another from a stream, and written.

Reading holds one ad at a time (and the piece of text that it is in), whatever the size of the file.

The forms are those of `-long`, `-json` and `-xml` of HTCondor's tools, and the new form of the manual page
classad-mechanism.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from pool.base.errors import ClassAdError, Span
from pool.classad.eval.ad import ClassAd
from pool.classad.forms.new_form import parse_ad
from pool.classad.forms.old_form import parse_longs
from pool.classad.syntax.lex import COMMENT, fail
from pool.classad.values.limits import MAX_TEXT

FORMS: Final = ("long", "new", "xml", "json")
PIECE: Final = 1 << 16
ENOUGH: Final = 1000
"""Characters from which the form of an ad can be told, with comments before it."""


class TextSource(Protocol):
    """A text file, open for reading."""

    def read(self, size: int, /) -> str: ...


_BLANKS: Final = re.compile(rf"(?:\s+|//[^\n]*\n|{COMMENT})*")


def detect(text: str) -> str:
    """The form of ads that begin with `text`: long, new, xml or json; of nothing at all, long."""
    start = text[_BLANKS.match(text).end() :]  # type: ignore[union-attr]
    inside = start[1:].lstrip()[:1]
    if start[:1] == "<":
        return "xml"
    if start[:1] == "[":
        return "json" if inside == "{" else "new"
    if start[:1] == "{":
        return "new" if inside == "[" else "json"
    return "long"


def read_ads(source: TextSource, *, form: str | None = None, file: str = "ads") -> Iterator[ClassAd]:
    """The ads of a stream, in the given form or the one it begins with; ClassAdError with the place of a mistake."""
    window = _Window(source, file)
    while len(window.text.lstrip()) < ENOUGH and window.more():
        pass
    if form is None:
        form = detect(window.text)
    if form == "long":
        return parse_longs(_lines(window), file=file)
    if form == "xml":
        return _read_xml(window, file)
    return _read_bracketed(window, json=form == "json")


def read_text(text: str, *, form: str | None = None, file: str = "ads") -> list[ClassAd]:
    """All ads in a text."""
    from io import StringIO

    return list(read_ads(StringIO(text), form=form, file=file))


class _Window:
    """The part of a stream that is being looked at, and where in the file it begins."""

    def __init__(self, source: TextSource, file: str) -> None:
        self.text = ""
        self.at = 0
        self.file = file
        self._source = source
        self._line, self._column = 0, 0
        self._piece = PIECE

    def more(self) -> bool:
        """Read on; False at the end. What lies before `at` is let go."""
        piece = self._source.read(self._piece)
        if self.at:
            gone = self.text[: self.at]
            lines = gone.count("\n")
            self._column = len(gone) - gone.rfind("\n") - 1 if lines else self._column + len(gone)
            self._line += lines
            self.text, self.at, self._piece = self.text[self.at :], 0, PIECE
        elif self.text:
            self._piece *= 2  # one ad fills the window: larger steps, so that the whole stays linear
        self.text += piece
        return bool(piece)

    def placed(self, error: ClassAdError, start: int = 0) -> ClassAdError:
        """`error`, which was found in the text from `start` on, with its place in the file."""
        span = error.span or Span(self.file, 1, 1)
        before = self.text[:start]
        lines = before.count("\n")
        column = len(before) - before.rfind("\n") - 1 if lines else self._column + len(before)
        line = self._line + lines + span.line
        place = Span(self.file, line, span.column + (column if span.line == 1 else 0))
        if span.text is not None:
            end = self.text.find("\n", start)
            first = self.text[self.text.rfind("\n", 0, start) + 1 : len(self.text) if end < 0 else end]
            whole = span.line > 1 or (not lines and self._column)
            place = place._replace(text=span.text if whole else first[:500])
            if whole and span.line == 1:
                place = place._replace(text=None)
        error.span = place
        return error


def _lines(window: _Window) -> Iterator[str]:
    while True:
        lines = window.text[window.at :].split("\n")
        yield from lines[:-1]
        window.at = len(window.text) - len(lines[-1])
        if len(lines[-1]) > MAX_TEXT:
            raise ClassAdError(f"{window.file}: a line is too long", expected=f"at most {MAX_TEXT} characters")
        if not window.more():
            yield window.text[window.at :]
            return


def _read_xml(window: _Window, file: str) -> Iterator[ClassAd]:
    from pool.classad.forms.xml_reader import XmlReader

    reader = XmlReader(file=file)
    while window.at < len(window.text):
        yield from reader.feed(window.text[window.at :])
        window.at = len(window.text)
        window.more()
    yield from reader.close()


def _read_bracketed(window: _Window, *, json: bool) -> Iterator[ClassAd]:
    """Ads one after another, or in a list: the list's brackets and commas may be there or not."""
    start, opening, closing = ("{", "[", "]") if json else ("[", "{", "}")
    listed = seen = comma = False
    while _skip(window):
        char = window.text[window.at]
        if char == start:
            yield _next_json(window) if json else _next_new(window)
            seen, comma = True, False
        elif char == opening and not listed and not seen:
            listed = True
            window.at += 1
        elif char == "," and seen and not comma:
            comma = True
            window.at += 1
        elif char == closing and listed:
            listed, seen, comma = False, False, False
            window.at += 1
        else:
            expected = f"an ad, which begins with {start}"
            error = fail(window.text[window.at :], 0, f"{char!r} has no place between ads", expected=expected)
            raise window.placed(error, window.at)
    if listed:
        error = fail(window.text, len(window.text), "the list of ads never ends", expected=closing)
        raise window.placed(error)


def _skip(window: _Window) -> bool:
    """Go on to the next character that counts; False at the end."""
    while True:
        found = _BLANKS.match(window.text, window.at)
        assert found is not None
        window.at = found.end()
        rest = len(window.text) - window.at
        if rest > 1 or (rest and window.text[window.at] != "/"):
            if not window.text.startswith("/*", window.at) or not window.more():
                return True
        elif not window.more():
            return window.at < len(window.text)


def _next_json(window: _Window) -> ClassAd:
    from pool.classad.forms.json_reader import CutShort, next_ad

    while True:
        start = window.at
        try:
            ad, window.at = next_ad(window.text, start, file=window.file)
            return ad
        except ClassAdError as error:
            place = _at_file(window, error)
            if isinstance(error, CutShort) and len(window.text) - start <= MAX_TEXT and window.more():
                continue
            raise ClassAdError(error.message, span=place, expected=error.expected) from None


def _at_file(window: _Window, error: ClassAdError) -> Span | None:
    """The place in the file of an error whose place is in the window."""
    text = error.span.text if error.span is not None else None
    placed = window.placed(error)
    return placed.span if placed.span is None else placed.span._replace(text=text)


_INSIDE: Final = re.compile(
    rf"[^\"'/\[\]]++|\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+'|//[^\n]*+|{COMMENT}|/(?![/*])|[\[\]]", re.DOTALL
)


def _next_new(window: _Window) -> ClassAd:
    """The ad at the window's place: to the bracket that closes it."""
    while True:
        end = _closing(window.text, window.at)
        if end > 0 or len(window.text) - window.at > MAX_TEXT or not window.more():
            break
    start = window.at
    text = window.text[start:end] if end > 0 else window.text[start:]
    try:
        ad = parse_ad(text, file=window.file)
    except ClassAdError as error:
        raise window.placed(error, start) from None
    window.at = start + len(text)
    return ad


def _closing(text: str, at: int) -> int:
    """Where the ad that begins at `at` ends; 0 when that is not in the text."""
    depth, size = 0, len(text)
    while at < size:
        found = _INSIDE.match(text, at)
        if found is None:
            return 0
        at = found.end()
        char = found[0]
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return at
    return 0


def write_ads(ads: Iterable[ClassAd], form: str) -> Iterator[str]:
    """The text of many ads in a form, piece by piece, as read_ads reads it."""
    if form == "long":
        for ad in ads:
            yield ad.long() + "\n"
        return
    if form == "xml":
        from pool.classad.forms.xml_form import to_xml

        yield '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
        for ad in ads:
            yield to_xml(ad) + "\n"
        yield "</classads>\n"
        return
    opening, closing = ("[\n", "]\n") if form == "json" else ("{\n", "}\n")
    between = opening
    for ad in ads:
        yield f"{between}{_one(ad, form)}\n"
        between = ",\n"
    yield closing if between != opening else opening + closing


def _one(ad: ClassAd, form: str) -> str:
    if form == "json":
        from pool.classad.forms.json_form import to_json

        return to_json(ad)
    return ad.new()
