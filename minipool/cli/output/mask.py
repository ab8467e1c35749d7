"""Rows of columns as HTCondor's tools print ads: what -format, -autoformat, -print-format and the views all are.

A row is made in two steps. `render` takes the values out of an ad, and widens the columns that grow with their values;
`display` lays the values out. A tool that renders all rows before it displays the first one has columns that fit all.

Source: the sections on -format, -autoformat and -print-format of HTCondor's manual page condor_q, and its layouts,
which `tests/cases/cli` holds.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from minipool.cli.output import printf
from minipool.cli.output.show import ColumnSource, clock_date, literal, number, span
from pool.classad import ClassAd

NO_PREFIX: Final = 0x01
NO_SUFFIX: Final = 0x02
NO_TRUNCATE: Final = 0x04
AUTO: Final = 0x08
LEFT: Final = 0x10
MULTI_LINE: Final = 0x40
ALWAYS: Final = 0x80
FIT: Final = 0x200


class _Missing:
    """What a column has when its ad has no value of the column's kind."""

    __slots__ = ()


MISSING: Final = _Missing()
Show = Callable[[Any, "Column"], str]
"""A formatter: the text of a value."""
Render = Callable[[Any, ClassAd, "Column"], Any]
"""A renderer: the value to print, from the column's value and the whole ad; MISSING when there is none."""
Cell = Any


class PrintAs(NamedTuple):
    """A function that PRINTAS names. `takes` is the kind of its value: "i", "f", "s" or "v" (any)."""

    takes: str
    show: Show | None = None
    render: Render | None = None
    printf: str | None = None
    needs: tuple[str, ...] = ()
    whole: Callable[..., Cell] | None = None
    """What `render` comes to where the attribute and all of `needs`, in this order, are whole numbers."""


class Column(NamedTuple):
    """One column. `width` 0: as long as its value. `alt` stands for a missing value; doubled, it fills the field."""

    heading: str
    expression: str
    width: int = 0
    flags: int = 0
    printf: str | None = None
    how: PrintAs | None = None
    alt: str = ""


def column(
    expression: str,
    heading: str | None = None,
    *,
    width: int = 0,
    flags: int = 0,
    printf_text: str | None = None,
    how: PrintAs | None = None,
    alt: str = "",
) -> Column:
    """A column; a negative width puts values to the left, and without a width that of the printf format counts."""
    if width < 0:
        flags |= LEFT
    if printf_text is not None:
        printf_text = printf.unescape(printf_text)
        conversion = printf.read(printf_text)
        # `-format "%-8s" X` has its width in the format; a WIDTH of its own wins.
        if conversion is not None and not width:
            width = conversion.width
            flags |= LEFT if conversion.is_left else 0
    return Column(heading if heading is not None else expression, expression, abs(width), flags, printf_text, how, alt)


class Part(NamedTuple):
    """How a column gets its values and shows them."""

    source: ColumnSource
    fetch: Callable[[ClassAd], Cell]
    show: Callable[[Cell, int], str]
    conversion: printf.Conversion | None


class Mask:
    """Columns, what stands between them, and how wide they have become."""

    def __init__(
        self,
        columns: Iterable[Column] = (),
        *,
        row_prefix: str = "",
        prefix: str = " ",
        suffix: str = "",
        row_suffix: str = "\n",
        width: int = 0,
        trim: bool = False,
    ) -> None:
        self.row_prefix, self.prefix, self.suffix, self.row_suffix = row_prefix, prefix, suffix, row_suffix
        self.width = width
        """How many characters of a line are printed; 0 for all."""
        self.trim = trim
        """Whether blanks at the end of a row are left out."""
        self.has_heading = False
        self.needs: set[str] = set()
        self.columns: list[Column] = []
        self.widths: list[int] = []
        self.parts: list[Part] = []
        for one in columns:
            self.add(one)

    def __bool__(self) -> bool:
        return bool(self.columns)

    def add(self, one: Column) -> None:
        """One more column, at the right."""
        conversion = printf.read(one.printf) if one.printf is not None else None
        source = ColumnSource(one.expression)
        self.columns.append(one)
        self.widths.append(one.width)
        self.parts.append(Part(source, _fetcher(one, source, conversion), _shower(one, conversion), conversion))
        self.needs.update(source.names())
        if one.how is not None:
            self.needs.update(one.how.needs)

    def replace(self, columns: Iterable[Column]) -> None:
        """Other columns in place of these."""
        self.columns, self.widths, self.parts = [], [], []
        for one in columns:
            self.add(one)

    def keep_widths(self, at: Iterable[int]) -> None:
        """Columns that from now on neither grow nor let longer values through."""
        for index in at:
            one = self.columns[index]
            self.columns[index] = one._replace(flags=one.flags & ~(AUTO | NO_TRUNCATE))

    def aim(self, target: ClassAd) -> None:
        """Evaluate the columns against this ad (`TARGET.`)."""
        for part in self.parts:
            part.source.target = target

    def names(self) -> list[str]:
        """The attributes that have to be fetched to fill the columns."""
        return sorted(self.needs)

    def render(self, ad: ClassAd) -> list[Cell]:
        """The values of one ad's row; columns that fit their values grow."""
        row = []
        for at, part in enumerate(self.parts):
            value = part.fetch(ad)
            self.widen(at, value)
            row.append(value)
        return row

    def widen(self, at: int, value: Cell) -> None:
        """Let a column that fits its values grow for this one."""
        # Only what there is widens a column: `OR ??` fits any.
        if value is not MISSING and self.columns[at].flags & AUTO:
            part = self.parts[at]
            wide = _value_width(value, self.columns[at], part.conversion, part.show, self.widths[at])
            if wide > self.widths[at]:
                self.widths[at] = wide

    def display(self, row: Sequence[Cell]) -> str:
        """The line of a row, or its lines."""
        out, lines, last = [], 1, len(self.columns) - 1
        for at, (one, value) in enumerate(zip(self.columns, row, strict=True)):
            if at and self.prefix and not one.flags & NO_PREFIX:
                out.append(self.prefix)
            text = self.cell_text(at, value)
            if one.flags & AUTO and len(text) > self.widths[at] and not one.flags & MULTI_LINE:
                self.widths[at] = len(text)
            if one.flags & MULTI_LINE and "\n" in text:
                margin = " " * sum(map(len, out))
                text = text.replace("\n", f"\n{margin}")
                lines += 1
            out.append(aligned(text, self.widths[at], one.flags))
            if at < last and self.suffix and not one.flags & NO_SUFFIX:
                out.append(self.suffix)
        line = self.row_prefix + "".join(out)
        # A row of several lines has been broken by whoever made it; to cut it would lose the others.
        if self.width and lines == 1:
            line = line[: self.width]
        return (line.rstrip() if self.trim else line) + self.row_suffix

    def cell_text(self, at: int, value: Cell) -> str:
        """The text of one value, or what stands for it where it is missing."""
        if value is MISSING:
            return _alternative(self.columns[at].alt, self.widths[at])
        return self.parts[at].show(value, self.widths[at])

    def heading(self) -> str:
        """The line of headings."""
        out, last = [self.row_prefix], len(self.columns) - 1
        for at, one in enumerate(self.columns):
            if at and not one.flags & NO_PREFIX:
                out.append(self.prefix)
            out.append(one.heading.ljust(self.widths[at]))
            if at < last and not one.flags & NO_SUFFIX:
                out.append(self.suffix)
        line = "".join(out)
        return (line[: self.width] if self.width else line) + self.row_suffix

    def text(self, ads: Iterable[ClassAd]) -> str:
        """The heading, where there is one, and the rows, with columns that fit all of them."""
        rows = [self.render(ad) for ad in ads]
        return (self.heading() if self.has_heading else "") + "".join(self.display(row) for row in rows)

    def lines(self, ads: Iterable[ClassAd]) -> Iterable[str]:
        """The rows as they come; columns grow on the way."""
        for ad in ads:
            yield self.display(self.render(ad))


def _fetcher(one: Column, source: ColumnSource, conversion: printf.Conversion | None) -> Callable[[ClassAd], Cell]:
    """What takes the column's value out of an ad."""
    how = one.how
    if how is not None and how.render is not None:
        return _renderer(one, source, how.takes, how.render)
    if how is not None:
        kind = {"i": printf.INT, "f": printf.FLOAT, "s": printf.STRING}.get(how.takes, printf.VALUE)
        missing: Cell = 0 if how.takes in "if" else None
        fetch = _of_kind(kind, source)
        if one.flags & ALWAYS:
            return lambda ad: missing if (value := fetch(ad)) is MISSING else value
        return fetch
    if one.printf is None:
        return source.value
    if conversion is None:
        text = one.printf
        return lambda ad: text
    # `%s` of an attribute that is no string prints its expression, as in HTCondor; of an expression that is none,
    # nothing.
    if conversion.kind == printf.STRING and source.is_name:

        def text_of(ad: ClassAd) -> Cell:
            value = source.value(ad)
            return value if isinstance(value, str) else source.raw(ad) if source.text in ad else MISSING

        return text_of
    return _of_kind(conversion.kind, source)


def _of_kind(kind: str, source: ColumnSource) -> Callable[[ClassAd], Cell]:
    if kind == printf.RAW:
        return source.raw
    if kind == printf.VALUE:
        return source.value
    if kind == printf.STRING:
        return lambda ad: value if isinstance(value := source.value(ad), str) else MISSING

    def amount(ad: ClassAd) -> Cell:
        found = number(source.value(ad))
        if found is None or not math.isfinite(found):
            return MISSING
        return float(found) if kind == printf.FLOAT else int(found)

    return amount


def _renderer(one: Column, source: ColumnSource, takes: str, render: Render) -> Callable[[ClassAd], Cell]:
    if takes == "v":
        return lambda ad: render(source.value(ad), ad, one)
    if takes == "s":
        return lambda ad: render(value if isinstance(value := source.value(ad), str) else "", ad, one)
    return lambda ad: render(number(source.value(ad)) or 0, ad, one)


def _shower(one: Column, conversion: printf.Conversion | None) -> Callable[[Cell, int], str]:
    """What turns the column's value into text."""
    if one.how is not None and one.how.show is not None:
        show = one.how.show
        return lambda value, width: show(value, one)
    if one.printf in (None, "", "%s"):
        return lambda value, width: value if isinstance(value, str) else ""
    if conversion is None:
        text = one.printf or ""
        return lambda value, width: text
    kind = conversion.kind
    if kind == printf.TIME:
        return lambda value, width: span(number(value) or 0).rjust(width)
    if kind == printf.DATE:
        return lambda value, width: clock_date(number(value) or 0).rjust(width)
    if kind in (printf.INT, printf.FLOAT, printf.CHAR):
        return lambda value, width: conversion.number(number(value) or 0).rjust(width)
    quoted = conversion.letter == "V"
    if conversion == _PLAIN_VALUE:
        return lambda value, width: value if isinstance(value, str) else literal(value)
    return lambda value, width: conversion.string(value if isinstance(value, str) and not quoted else literal(value))


_PLAIN_VALUE: Final = printf.read("%v")


def _value_width(
    value: Cell, one: Column, conversion: printf.Conversion | None, show: Callable[[Cell, int], str], width: int
) -> int:
    """How wide a value makes its column before anything is displayed: values of other kinds widen it only then."""
    if isinstance(value, str):
        if one.flags & MULTI_LINE:
            return max(map(len, value.split("\n")), default=0)
        return len(value)
    if conversion is None or isinstance(value, bool) or not isinstance(value, int | float):
        return width
    if conversion.kind in (printf.INT, printf.FLOAT, printf.TIME, printf.DATE):
        return len(show(value, width)) if one.how is None or one.how.show is None else len(conversion.number(value))
    if conversion.kind == printf.CHAR:
        return width
    # A real in %v prints as ClassAds write it, which is the longest form that it can have.
    return len(str(value)) if isinstance(value, int) else len(f"{value:.15E}")


def _alternative(alt: str, width: int) -> str:
    """What stands for a missing value: a character, or a field of them (`?` in brackets) when it is written twice."""
    # `OR ?` is one mark, `OR ??` a field of them (Print Formats in the manual).
    if len(alt) < 2 or alt[0] != alt[1]:
        return alt.strip()
    if width < 3:
        return alt[0] if width else ""
    return f"[{'?' * (width - 2)}]" if alt[0] == "?" else alt[0] * width


def aligned(text: str, width: int, flags: int) -> str:
    """A text in its field."""
    if not width or flags & MULTI_LINE:
        return text
    if len(text) > width:
        return text if flags & NO_TRUNCATE else text[:width]
    return text.ljust(width) if flags & LEFT else text.rjust(width)
