"""Files of ads, ad by ad: in the long form with the number of each line, so that whatever is wrong has a place.

Other forms are read as ads, whose attributes are then as in the long form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from pool.base.errors import ClassAdError, Span, UserError
from pool.classad import ClassAd, parse_long
from pool.classad.forms.lists import read_ads

_OTHER_FORMS: Final = ("<", "[", "{")
"""How ads in XML, JSON and the new form begin, and none in the long form."""


@dataclass(frozen=True, slots=True)
class Record:
    """One ad: its lines, of which the first has number `line`, and the text of each attribute by name in lower case.

    What was in another form than the long one has no line, but is the file's `nth` ad.
    """

    file: str
    line: int
    lines: list[str]
    texts: dict[str, str]
    nth: int = 0

    def error(self, message: str, name: str = "", expected: str | None = None) -> UserError:
        """What is wrong with an attribute, or with the ad."""
        if not self.line:
            return UserError(f"{self.file}: ad {self.nth}: {message}", expected=expected)
        for at, text in enumerate(self.lines):
            if name and _name(text) == name.lower():
                return UserError(message, span=Span(self.file, self.line + at, 1, text), expected=expected)
        return UserError(message, span=Span(self.file, self.line), expected=expected)

    def ad(self) -> ClassAd:
        """The ad; ClassAdError with the place of a mistake."""
        try:
            return parse_long("\n".join(self.lines), file=self.file)
        except ClassAdError as error:
            if error.span is not None:
                error.span = error.span._replace(line=error.span.line + self.line - 1)
            raise

    def number(self, name: str) -> float | None:
        """A number of the ad; None where there is none, UserError where it is something else."""
        text = self.texts.get(name.lower())
        if text is None or text.lower() == "undefined":
            return None
        try:
            return float(text)
        except ValueError:
            raise self.error(f"{name} = {text} is no number", name) from None

    def string(self, name: str) -> str:
        """A string of the ad; empty where there is none."""
        text = self.texts.get(name.lower(), "")
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else ""


def records(lines: Iterable[str], file: str) -> Iterator[Record]:
    """The ads of a file; in the long form empty lines and banners (`***`) end one."""
    lines = iter(lines)
    before: list[str] = []
    for line in lines:
        before.append(line)
        if line.strip():
            break
    everything = chain(before, lines)
    if before and before[-1].lstrip().startswith(_OTHER_FORMS):
        for number, ad in enumerate(read_ads(_Source(everything), file=file), 1):
            yield replace(_record(file, 0, ad.long().splitlines()), nth=number)
    else:
        yield from _long(everything, file)


def _long(lines: Iterable[str], file: str) -> Iterator[Record]:
    kept: list[str] = []
    number = 0
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if text.strip() and not text.startswith("***"):
            kept.append(text)
        elif kept:
            yield _record(file, number - len(kept), kept)
            kept = []
    if kept:
        yield _record(file, number - len(kept) + 1, kept)


class _Source:
    """Lines, as the readers of other forms take a file."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def read(self, size: int, /) -> str:
        """The next lines, of `size` characters together or a few more; nothing at the end."""
        found: list[str] = []
        while size > 0 and (line := next(self._lines, "")):
            found.append(line)
            size -= len(line)
        return "".join(found)


def _record(file: str, first: int, lines: list[str]) -> Record:
    texts = {}
    for at, line in enumerate(lines):
        # Split and no more: to parse all of a hundred thousand ads would take minutes.
        name, equals, value = line.partition("=")
        if not equals and not line.lstrip().startswith("#"):
            raise UserError(
                "this is no attribute", span=Span(file, first + at, 1, line), expected="Name = Value, as `-long` prints"
            )
        texts[name.strip().lower()] = value.strip()
    return Record(file, first, lines, texts)


def _name(line: str) -> str:
    return line.partition("=")[0].strip().lower()
