"""A table is asked by few of its rows: those that differ in what is read.

Slots of a pool are of a few kinds, as far as jobs ask. Which attributes are read shows while an expression is
evaluated: at each further one the rows are told apart by it, too, and the evaluation begins anew. An attribute that
nearly all rows have another value of, such as a name, sends who reads it to the whole table; so does what has no form
in columns, which is evaluated row by row and may read anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from pool.classad.columns.alike import told_apart
from pool.classad.columns.table import AttributeColumn, Table
from pool.classad.columns.vector import Array, NoColumn

ROWS_MIN: Final = 1000
"""Of fewer rows it is the calls that cost something."""
ASKED_MIN: Final = 20
"""To tell rows apart takes as long as so many answers of all rows; who asks less often is better off without."""
ALIKE_MIN: Final = 4
"""How many rows are alike at least, on average."""

Places = npt.NDArray[np.int64]


class _AnotherColumn(Exception):
    """An attribute is read by which the rows were not told apart."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _RowByRow(Exception):
    """What is asked has no form in columns."""


class _Kinds(Table):
    """One row of each kind."""

    def __init__(self, whole: Table, rows: Places, keys: frozenset[str]) -> None:
        super().__init__([whole.ads[row] for row in rows.tolist()])
        self._whole, self._keys = whole, keys

    def column(self, key: str) -> AttributeColumn:
        if key not in self._keys:
            self._whole.column(key)  # NoColumn here where it is so there
            raise _AnotherColumn(key)
        return super().column(key)

    def fall_back(self) -> None:
        raise _RowByRow


class FewRows:
    """A table and its kinds of rows, as long as no row of it is replaced."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._asked = 0
        self._places: Places = np.zeros(len(table), np.int64)
        self._keys: frozenset[str] = frozenset()
        self._told_all: set[str] = set()
        self._kinds: _Kinds | None = None

    def answer(self, ask: Callable[[Table], Array]) -> tuple[Array, Places | None]:
        """What `ask` says of rows, and which of its answers is that of each row; None: they are in the rows' order."""
        self._asked += 1
        if self._asked <= ASKED_MIN or len(self._table) < ROWS_MIN:
            return ask(self._table), None
        while True:
            if self._kinds is None:
                _, first = np.unique(self._places, return_index=True)
                self._kinds = _Kinds(self._table, first, self._keys)
            try:
                return ask(self._kinds), self._places
            except _AnotherColumn as another:
                if not self._tell_apart(another.key):
                    return ask(self._table), None
            except _RowByRow:
                return ask(self._table), None

    def _tell_apart(self, key: str) -> bool:
        """Whether the rows are of few kinds with this attribute, too; then they are told apart by it."""
        if key in self._told_all:
            return False
        places = self._places
        try:
            for one in told_apart(self._table.column(key), len(self._table)):
                if one.min() == one.max():
                    continue
                _, kind = np.unique(one, return_inverse=True)
                # Numbers from 0 on after each column, so that the product stays small.
                _, places = np.unique(places * (int(kind.max()) + 1) + kind, return_inverse=True)
        except NoColumn:
            places = np.arange(len(places))
        if int(places.max()) * ALIKE_MIN >= len(places):
            self._told_all.add(key)
            return False
        self._places, self._keys, self._kinds = places, self._keys | {key}, None
        return True
