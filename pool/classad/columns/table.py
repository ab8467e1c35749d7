"""Ads as columns. `Table(ads).matches(job)` says for every ad at once whether it and the job want each other.

The rules are those of HTCondor's manual page classad-mechanism, as the scalar evaluator has them: what a column cannot
say exactly as that does is left to it, row by row. A column is made when an expression first asks for its attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pool.classad.columns.vector import (
    BOOL,
    INT,
    REAL,
    Array,
    NoColumn,
    Operand,
    Vector,
    either,
    full,
    logical,
    vector,
)
from pool.classad.eval.ad import ClassAd
from pool.classad.eval.budget import Uncounted
from pool.classad.eval.expression import Expr
from pool.classad.eval.match import accepts, rank
from pool.classad.values.attrs import MISSING
from pool.classad.values.value import UNDEFINED

_MAX_KEPT: Final = 5_000
_MAX_KEPT_BYTES: Final = 64 << 20
"""Of the values that are kept; users' expressions may have any number of parts, and a pool any number of slots."""
_KIND: Final[dict[type, str]] = {int: INT, float: REAL, bool: BOOL}


class AttributeColumn:
    """What the rows store for one attribute, and the parts of it that evaluate alike.

    `plain` holds the rows with values (undefined where there is none); every other part is some rows with one
    expression. `missing` is where there is no such attribute.
    """

    __slots__ = ("missing", "parts", "plain")

    def __init__(self, stored: list[Any]) -> None:
        kinds = set(map(type, stored))
        self.parts: list[tuple[Expr, Array]] = []
        self.missing: Array | None = None
        if type(MISSING) in kinds:
            self.missing = np.fromiter((one is MISSING for one in stored), np.bool_, len(stored))
            stored = [UNDEFINED if one is MISSING else one for one in stored]
        if Expr in kinds:
            self.parts = _parts(stored)
            stored = [UNDEFINED if type(one) is Expr else one for one in stored]
        self.plain: Vector | None = vector(stored)
        if len(self.parts) == 1 and len(self.parts[0][1]) == len(stored):
            self.plain = None


def _parts(stored: list[Any]) -> list[tuple[Expr, Array]]:
    """The rows of each distinct expression."""
    known: dict[int, list[int]] = {}
    by_text: dict[str, tuple[Expr, list[int]]] = {}
    for row, one in enumerate(stored):
        if type(one) is Expr:
            rows = known.get(id(one.node))
            if rows is None:
                rows = known[id(one.node)] = by_text.setdefault(one.text, (one, []))[1]
            rows.append(row)
    return [(one, np.array(rows)) for one, rows in by_text.values()]


class Table:
    """Rows of ads, asked by columns. What cannot be said in columns is evaluated row by row, with the same answers.

    Ads must not change while they are in a table; `replace` puts another one in a row.
    """

    def __init__(self, ads: Sequence[ClassAd]) -> None:
        self.ads: Sequence[ClassAd] = list(ads)
        self._base: Table | None = None
        self._columns: dict[str, AttributeColumn | None] = {}
        #: Values of nodes that depend on the rows alone, by the node's identity (the node is kept alive beside it).
        self.kept: dict[tuple[int, bool], tuple[object, Operand]] = {}
        self._kept_bytes = 0
        self._odd = {row for row, ad in enumerate(self.ads) if not _is_plain(ad)}
        #: How many expressions went row by row.
        self.fallbacks = 0

    def __len__(self) -> int:
        return len(self.ads)

    def replace(self, row: int, ad: ClassAd) -> None:
        """Put another ad in a row."""
        assert isinstance(self.ads, list)
        before, self.ads[row] = self.ads[row], ad
        self._odd.discard(row)
        if not _is_plain(ad):
            self._odd.add(row)
        stale = False
        for key, column in list(self._columns.items()):
            old, new = before.attrs.lookup(key), ad.attrs.lookup(key)
            same_type = type(old) is type(new)
            if old is new or (same_type and type(old) in (int, bool, str) and old == new):
                continue
            if same_type and type(old) is Expr and old.node is new.node:
                continue
            stale = True
            plain = None if column is None else column.plain
            # Numbers are put in place. A text has its code in a table of words, so its column is made anew.
            if plain is not None and same_type and _KIND.get(type(new)) is plain.kind:
                plain.data[row] = new
            else:
                del self._columns[key]
        if stale:
            self.kept.clear()
            self._kept_bytes = 0

    def column(self, key: str) -> AttributeColumn:
        """What the rows store for an attribute, by its name in lower case; NoColumn when that has no column form."""
        if key not in self._columns:
            if self._base is not None:
                return self._base.column(key)
            try:
                self._columns[key] = AttributeColumn([ad.attrs.lookup(key) for ad in self.ads])
            except NoColumn:
                self._columns[key] = None
        found = self._columns[key]
        if found is None:
            raise NoColumn
        return found

    def changed(self, ads: Sequence[ClassAd], stored: Mapping[str, list[Any]]) -> Table:
        """The table of `ads`, which differ from these rows only in what they store of some attributes, in lower case.

        It shares all other columns, and is good as long as no row is replaced here.
        """
        other = Table(())
        other.ads, other._base, other._odd = ads, self, self._odd
        for key, values in stored.items():
            try:
                other._columns[key] = AttributeColumn(values)
            except NoColumn:
                other._columns[key] = None
        return other

    def keep(self, node: object, mine: bool, value: Operand) -> None:
        """Remember the value of a node that depends on the rows alone."""
        size = value.size if type(value) is Vector else 0
        self._kept_bytes += size
        if len(self.kept) >= _MAX_KEPT or self._kept_bytes > _MAX_KEPT_BYTES:
            self.kept.clear()
            self._kept_bytes = size
        self.kept[id(node), mine] = node, value

    def fall_back(self) -> None:
        """Something is evaluated row by row now."""
        self.fallbacks += 1

    # What is asked.

    def eval(self, expression: Expr, *, my: ClassAd | None = None, target: ClassAd | None = None) -> Vector:
        """The value of an expression for each row: with `my`, the rows are TARGET; else they are MY.

        NoColumn when a row's value is a list or an ad.
        """
        from pool.classad.columns.evaluate import Evaluation

        mine = my is None
        fixed = target if mine else my
        try:
            if self._odd or (fixed is not None and not fixed.attrs.plain):
                raise NoColumn
            value = Evaluation(self, fixed, rows_are_mine=mine).expression(expression)
        # Never an answer of its own: where a column cannot say it exactly, the scalar evaluator does.
        except (NoColumn, RecursionError, Uncounted):
            self.fall_back()
            if mine:
                return vector([expression.eval(ad, target) for ad in self.ads])
            return vector([expression.eval(my, ad) for ad in self.ads])
        return value if type(value) is Vector else full(value, len(self.ads))

    def attribute(self, name: str, target: ClassAd | None = None) -> Vector:
        """The value of an attribute of each row, with `target` as the other ad."""
        from pool.classad.columns.evaluate import Evaluation

        try:
            if self._odd or (target is not None and not target.attrs.plain):
                raise NoColumn
            value = Evaluation(self, target, rows_are_mine=True).attribute(name.lower())
        except (NoColumn, RecursionError, Uncounted):
            self.fall_back()
            return vector([ad.eval(name, target) for ad in self.ads])
        return value if type(value) is Vector else full(value, len(self.ads))

    def accepting(self, other: ClassAd) -> npt.NDArray[np.bool_]:
        """Where the row's Requirements hold against `other`."""
        try:
            return self._true(self.attribute("Requirements", other))
        except NoColumn:
            return self._each(lambda ad: accepts(ad, other))

    def accepted(self, other: ClassAd) -> npt.NDArray[np.bool_]:
        """Where the Requirements of `other` hold against the row."""
        stored = other.get("Requirements", False)
        if type(stored) is not Expr:
            return np.full(len(self.ads), accepts(other, ClassAd()), np.bool_)
        try:
            return self._true(self.eval(stored, my=other))
        except NoColumn:
            return self._each(lambda ad: accepts(other, ad))

    def matches(self, other: ClassAd) -> npt.NDArray[np.bool_]:
        """Where the row and `other` want each other."""
        theirs = self.accepted(other)
        return theirs & self.accepting(other) if theirs.any() else theirs

    def ranks(self, other: ClassAd) -> npt.NDArray[np.float64]:
        """The Rank that `other` gives to each row."""
        stored = other.get("Rank", 0.0)
        if type(stored) is not Expr:
            return np.full(len(self.ads), rank(other, ClassAd()))
        return self.numbers(stored, my=other, odd=lambda ad: rank(other, ad))

    def numbers(
        self,
        expression: Expr,
        *,
        my: ClassAd | None = None,
        target: ClassAd | None = None,
        odd: Callable[[ClassAd], float] | None = None,
        other: float = 0.0,
    ) -> npt.NDArray[np.float64]:
        """The value of an expression for each row as a real, `other` where it is no number.

        `odd` has the number of a row where values have no column form; without it that is NoColumn.
        """
        try:
            found = self.eval(expression, my=my, target=target)
        except NoColumn:
            if odd is None:
                raise
            return np.array([odd(ad) for ad in self.ads])
        if found.kind in (BOOL, INT, REAL):
            data = found.data.astype(np.float64)
            masked = either(found.undefined, found.error)
            if masked is not None:
                data[masked] = other
            return data
        values = found.values()
        return np.array([float(value) if type(value) in (bool, int, float) else other for value in values])

    def _true(self, found: Vector) -> npt.NDArray[np.bool_]:
        return logical(found).data  # type: ignore[no-any-return]

    def _each(self, test: Callable[[ClassAd], bool]) -> npt.NDArray[np.bool_]:
        return np.fromiter((test(ad) for ad in self.ads), np.bool_, len(self.ads))


def _is_plain(ad: ClassAd) -> bool:
    return ad.attrs.plain and (ad.parent is None or _is_plain(ad.parent))
