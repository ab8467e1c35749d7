"""Tables: columns of ads, as wide as their heading, a fixed width or their widest value, in HTCondor's layout.

A blank stands before each column but the first, unless the column is glued to the one before it. A table is as wide as
its lines, or cut at the width of the terminal when standard output is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from minipool.cli.show import Printf, Source, bare, is_set
from pool.classad import ClassAd

Render = Callable[[ClassAd], str | None]
"""The text of one cell; None where the ad has nothing to show."""


class Light(str):
    """A text that does not widen its column beforehand, only from its row on (HTCondor's undefined and true do so)."""

    __slots__ = ()


class Col(NamedTuple):
    """One column. `width` 0: as long as its value. A negative one: to the left. `alt` stands for a missing value."""

    heading: str
    source: str | Render
    width: int | None = None
    printf: str = ""
    auto: bool = False
    glued: bool = False
    truncate: bool = False
    alt: str = ""
    fit: bool = False
    needs: tuple[str, ...] = ()


class Table:
    """Rows of some columns, laid out once all of them are known."""

    def __init__(self, columns: Sequence[Col], *, width: int = 0) -> None:
        self.columns = list(columns)
        self.width = width
        self._cells = [_cell(column) for column in columns]

    def names(self) -> list[str]:
        """The attributes that have to be fetched to fill the table."""
        found: set[str] = set()
        for column in self.columns:
            found.update(column.needs)
            if isinstance(column.source, str):
                found.update(Source(column.source).names())
        return sorted(found)

    def row(self, ad: ClassAd) -> list[str | None]:
        """The cells of one ad, not yet padded."""
        return [cell(ad) for cell in self._cells]

    def lines(self, rows: Iterable[Sequence[str | None]], *, heading: bool = True) -> list[str]:
        """The heading and the rows, each ended by a newline."""
        rows = list(rows)
        widths = self._fitted([self._width(at, rows) for at in range(len(self.columns))])
        out = [self._heading(widths)] if heading else []
        for row in rows:
            for at, value in enumerate(row):
                if isinstance(value, Light) and len(value) > abs(widths[at]):
                    widths[at] = -len(value) if widths[at] < 0 else len(value)
            out.append(self._cut("".join(self._laid_out(row, widths))) + "\n")
        return out

    def _width(self, at: int, rows: Sequence[Sequence[str | None]]) -> int:
        column = self.columns[at]
        if column.width == 0:
            return 0
        given = column.width if column.width is not None else _own_width(column)
        if column.auto:
            longest = max((len(row[at] or "") for row in rows if not isinstance(row[at], Light)), default=0)
            return -max(abs(given), longest) if given < 0 else max(given, longest)
        return given

    def _fitted(self, widths: list[int]) -> list[int]:
        """The widths, with the column that may shrink narrow enough for the terminal."""
        shrinking = next((at for at, column in enumerate(self.columns) if column.fit), None)
        if not self.width or shrinking is None:
            return widths
        gaps = sum(not column.glued for column in self.columns[1:])
        excess = sum(abs(width) for width in widths) + gaps - self.width
        if excess > 0:
            widths[shrinking] = -max(12, abs(widths[shrinking]) - excess)
            self.columns[shrinking] = self.columns[shrinking]._replace(truncate=True)
        return widths

    def _heading(self, widths: Sequence[int]) -> str:
        parts = []
        for at, (column, width) in enumerate(zip(self.columns, widths, strict=True)):
            if at and not column.glued:
                parts.append(" ")
            parts.append(column.heading.ljust(abs(width)))
        return self._cut("".join(parts)) + "\n"

    def _laid_out(self, row: Sequence[str | None], widths: Sequence[int]) -> Iterable[str]:
        for at, (column, width) in enumerate(zip(self.columns, widths, strict=True)):
            if at and not column.glued:
                yield " "
            value = row[at]
            text = _alternative(column.alt, width) if value is None else value
            if column.truncate and width:
                text = text[: abs(width)]
            yield text.ljust(-width) if width < 0 else text.rjust(width)

    def _cut(self, line: str) -> str:
        return line[: self.width] if self.width and len(line) > self.width else line


def _alternative(alt: str, width: int) -> str:
    """What stands for a missing value: a character, or a field of them in brackets when it is written twice."""
    if len(alt) < 2 or alt[0] != alt[1]:
        return alt
    wide = abs(width)
    if wide < 3:
        return alt[0]
    return f"[{'?' * (wide - 2)}]" if alt[0] == "?" else alt[0] * wide


def _own_width(column: Col) -> int:
    """The width of a column that does not name one: of its format, or of its heading."""
    if column.printf:
        form = Printf.read(column.printf)
        if form.width:
            extra = len(form.before) + len(form.after)
            width = max(int(form.width) + extra, len(column.heading))
            return -width if "-" in form.flags else width
    return -len(column.heading)


def _cell(column: Col) -> Render:
    if callable(column.source):
        return column.source
    source = Source(column.source)
    if column.printf:
        form = Printf.read(column.printf)
        return lambda ad: form.text(source, ad)

    def plain(ad: ClassAd) -> str | None:
        value = source.value(ad)
        return bare(value) if is_set(value) else None

    return plain


def terminal_width() -> int:
    """The width of the terminal on standard output; 0 when it is none, and nothing is to be cut."""
    if not sys.stdout.isatty():
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns
