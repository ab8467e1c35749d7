"""The rows of a mask, made column by column: what `Mask` prints of the same ads, in a fraction of the time.

Most columns of a large pool's table repeat a few values, so that a value is taken out of an ad, widened for and laid
out once for all rows that have it. That is so for plain values alone (texts, numbers, truth values): where an ad has
an expression, a list or an ad for one of the attributes, `Unsuited` sends the caller back to the ads themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from minipool.cli.output import printf
from minipool.cli.output.mask import AUTO, LEFT, MULTI_LINE, NO_PREFIX, NO_SUFFIX, NO_TRUNCATE, Cell, Mask, aligned
from minipool.cli.output.show import span
from pool.classad import UNDEFINED, ClassAd
from pool.classad.values.attrs import SCOPE_NAMES, Attrs

if TYPE_CHECKING:
    from protocol.wire.ad_table import AdTable

_NUMBERS: Final = frozenset({bool, int, float})
_PLAIN: Final = _NUMBERS | {str, type(None)}
_NEVER_MIXED: Final = frozenset({str, type(None), type(UNDEFINED)})
_INT_END: Final = 2**63


class Unsuited(Exception):
    """These ads, or this table, have to be gone through row by row."""


class AdColumns:
    """Some attributes of many ads, each a list with a value an ad; None where an ad has none."""

    def __init__(self, names: Iterable[str]) -> None:
        self.values: dict[str, list[Any]] = {name.lower(): [] for name in names}
        self.rows = 0
        if not self.values.keys().isdisjoint(SCOPE_NAMES):
            raise Unsuited

    def add(self, batch: AdTable | list[ClassAd]) -> None:
        """More ads; Unsuited when one has something else than a plain value."""
        if isinstance(batch, list) or batch.shared:
            ads = batch if isinstance(batch, list) else batch.ads()
            found = {key: [ad.attrs.get(key) for ad in ads] for key in self.values}
            count = len(ads)
        else:
            found = {name.lower(): column for name, column in zip(batch.names, batch.columns, strict=True)}
            count = batch.rows
        none = [None] * count
        for key, column in self.values.items():
            more = found.get(key, none)
            if not _is_plain(more):
                raise Unsuited
            column += more
        self.rows += count

    def arrange(self, order: Sequence[int]) -> None:
        """Put the ads into this order."""
        for key, column in self.values.items():
            self.values[key] = [column[row] for row in order]

    def texts(self, name: str, default: Sequence[str]) -> list[str]:
        """An attribute where it is a text, as `ClassAd.eval_str` has it."""
        return [
            value if type(value) is str else other
            for value, other in zip(self.values[name.lower()], default, strict=True)
        ]


def _is_plain(column: list[Any]) -> bool:
    kinds = set(map(type, column))
    if int in kinds:
        whole = column if len(kinds) == 1 else [value for value in column if type(value) is int]
        if min(whole) < -_INT_END or max(whole) >= _INT_END:
            return False
    return kinds <= _PLAIN


def are_told_apart(values: Iterable[Any]) -> bool:
    """Whether values that are equal are the same: 1, 1.0 and true are not, nor are 0.0 and -0.0."""
    kinds = set(map(type, values))
    numbers = kinds & _NUMBERS
    return float not in numbers and len(numbers) < 2


class RowOf:
    """One ad that stands for each row in turn."""

    def __init__(self, names: Iterable[str]) -> None:
        self.keys = [*dict.fromkeys(name.lower() for name in names)]
        self._attrs = Attrs()
        self._ad = ClassAd(attrs=self._attrs)

    def ad(self, row: Sequence[Any]) -> ClassAd:
        """The ad with these values; the next call changes it."""
        self._attrs.clear()
        for key, value in zip(self.keys, row, strict=True):
            if value is not None:
                self._attrs[key] = value
        return self._ad

    def columns(self, of: AdColumns) -> list[list[Any]]:
        """The columns whose values these are."""
        return [of.values[key] for key in self.keys]


def render(mask: Mask, columns: AdColumns) -> list[list[Cell]]:
    """The values of each of the mask's columns; those that fit their values grow."""
    cells = []
    for at in range(len(mask.columns)):
        values = _fetched(mask, at, columns)
        flags = mask.columns[at].flags
        if flags & AUTO and values and set(map(type, values)) == {str} and not flags & MULTI_LINE:
            mask.widen(at, max(values, key=len))
        elif flags & AUTO:
            for value in set(values) if _can_be_keys(values) else values:
                mask.widen(at, value)
        cells.append(values)
    return cells


def display(mask: Mask, cells: Sequence[Sequence[Cell]]) -> list[str]:
    """The lines of all rows; Unsuited where one row has several, or a column would grow on the way."""
    pieces = [_laid_out(mask, at, values) for at, values in enumerate(cells)]
    lines = ["".join(row) for row in zip(*pieces, strict=True)]
    if mask.row_prefix:
        lines = [mask.row_prefix + line for line in lines]
    if mask.width:
        lines = [line[: mask.width] for line in lines]
    if mask.trim:
        lines = [line.rstrip() for line in lines]
    return [line + mask.row_suffix for line in lines]


def _fetched(mask: Mask, at: int, columns: AdColumns) -> list[Cell]:
    part, how = mask.parts[at], mask.columns[at].how
    if part.source.is_name and (how is None or how.render is None) and (mask.columns[at].printf or how) is not None:
        same = columns.values[part.source.text.lower()]
        if _is_its_own_value(same, how.takes if how is not None else part.conversion):
            return same
    if how is not None and how.whole is not None and part.source.is_name:
        inputs = [columns.values[name.lower()] for name in (part.source.text, *how.needs)]
        if all(set(map(type, column)) == {int} for column in inputs):
            return [*map(how.whole, *inputs)]
    row = RowOf([*part.source.names(), *(how.needs if how is not None else ())])
    fetch, ad = part.fetch, row.ad
    return _mapped(lambda values: fetch(ad(values)), row.columns(columns), columns.rows)


def _is_its_own_value(column: list[Any], takes: str | printf.Conversion | None) -> bool:
    """Whether the column's values are what would be taken out of ads that have them."""
    kinds = set(map(type, column))
    kind = takes if isinstance(takes, str) or takes is None else takes.kind
    if kind in ("s", printf.STRING, "v", printf.VALUE):
        return kinds == {str}
    if kind in ("i", printf.INT):
        return kinds == {int}
    return kind in ("f", printf.FLOAT) and kinds == {float} and all(map(math.isfinite, column))


def _mapped(make: Callable[[tuple[Any, ...]], Cell], inputs: list[list[Any]], count: int) -> list[Cell]:
    """What is made of each row, once for rows that are the same."""
    rows = zip(*inputs, strict=True) if inputs else iter([()] * count)
    if not all(map(are_told_apart, inputs)):
        return [make(row) for row in rows]
    made: dict[tuple[Any, ...], Cell] = {}
    out = []
    for row in rows:
        if row not in made:
            made[row] = make(row)
        out.append(made[row])
    return out


def _can_be_keys(values: Iterable[Cell]) -> bool:
    """Whether a value of a column may stand for all that are equal to it."""
    kinds = set(map(type, values)) - _NEVER_MIXED
    return float not in kinds and len(kinds & _NUMBERS) < 2 and list not in kinds and ClassAd not in kinds


def _is_span(mask: Mask, at: int) -> bool:
    """Whether the column shows numbers as spans of time, and nothing else of them."""
    conversion, how = mask.parts[at].conversion, mask.columns[at].how
    return conversion is not None and conversion.kind == printf.TIME and (how is None or how.show is None)


def _laid_out(mask: Mask, at: int, values: Sequence[Cell]) -> list[str]:
    """The column's text in each row, with what stands before and after it."""
    one, width = mask.columns[at], mask.widths[at]
    before = mask.prefix if at and mask.prefix and not one.flags & NO_PREFIX else ""
    after = mask.suffix if at < len(mask.columns) - 1 and mask.suffix and not one.flags & NO_SUFFIX else ""

    def piece(value: Cell) -> str:
        text = mask.cell_text(at, value)
        if (one.flags & AUTO and len(text) > width) or (one.flags & MULTI_LINE and "\n" in text):
            raise Unsuited
        return f"{before}{aligned(text, width, one.flags)}{after}"

    # Names: each is another, and stands there as it is.
    as_it_is = one.how is None and mask.parts[at].conversion is not None and one.printf in ("%v", "%s")
    if as_it_is and set(map(type, values)) == {str} and not one.flags & MULTI_LINE:
        justify = str.ljust if one.flags & LEFT else str.rjust
        if max(map(len, values)) <= width:
            return [f"{before}{justify(value, width)}{after}" for value in values]
        if width and not one.flags & (AUTO | NO_TRUNCATE):
            return [f"{before}{justify(value, width)[:width]}{after}" for value in values]
    if _is_span(mask, at) and set(map(type, values)) == {int}:  # moments, of which each is another as well
        texts = [span(value).rjust(width) for value in values]
        if max(map(len, texts)) <= width:
            return [f"{before}{text}{after}" for text in texts]
    if not _can_be_keys(values):
        return [piece(value) for value in values]
    pieces = {value: piece(value) for value in dict.fromkeys(values)}
    return [pieces[value] for value in values]
