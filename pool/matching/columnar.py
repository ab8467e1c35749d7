"""Candidates by columns: all slots of a cycle at once, with the answers of `evaluate_each`.

Needs numpy; only the negotiator imports it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from pool.classad import ClassAd, Expr
from pool.classad.columns import FewRows, Table
from pool.classad.columns.vector import NoColumn
from pool.matching.candidates import Each, Key, Ranked, RankOrder, Slots, Working, evaluate_each, key_of_match
from pool.matching.preempt import LOWEST, Asker, Preempts

FEW = 16
"""Fewer slots than this are looked at one by one."""
_AT_ONCE: Final = 1024
_NOBODY: Final = -float(Preempts.NOBODY)

Rows = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

_NO_ROWS: Final[Rows] = np.zeros(0, np.int64)


class ColumnEvaluator:
    """An `Evaluate` that keeps its columns from call to call, and from cycle to cycle."""

    def __init__(self) -> None:
        self._table = Table([])
        self._few = FewRows(self._table)
        self._changes: list[int] | None = None
        """The changes of the cycle whose slots the table has, up to `seen` of them."""
        self._seen = 0
        self._held: Rows = _NO_ROWS

    def __call__(self, asker: Asker, slots: Sequence[Working], order: RankOrder) -> Each | tuple[Each, Ranked]:
        """The matching slots' indices with their keys: those that nobody has in order."""
        if len(slots) < FEW:
            return evaluate_each(asker, slots, order)
        if not isinstance(slots, Slots):
            slots = Slots(slots)
        few = self._current(slots)
        moved = np.frombuffer(slots.moved, np.int64)
        seen = len(slots.changes)
        matches, places = few.answer(lambda table: table.matches(asker.job))
        alive = np.flatnonzero((matches if places is None else matches[places]) & (moved <= seen))
        held = [index for index in alive.tolist() if slots[index].offer.claimed] if self._held.size else []
        if len(held) == len(alive):
            return _each(asker, slots, held, order)
        try:
            pre, post = (
                few.answer(partial(_numbers, expression=one, job=asker.job)) for one in (order.pre, order.post)
            )
        except NoColumn:
            return _each(asker, slots, alive.tolist(), order)
        keys = [pre, few.answer(lambda table: table.ranks(asker.job)), post]
        # What is neither before nor behind others.
        if any(np.isnan(key).any() and np.isnan(_of_rows(key, of, alive)).any() for key, of in keys):
            return _each(asker, slots, alive.tolist(), order)
        # Preemption asks about each holder's priority, which is no attribute: those few go one by one.
        free = alive[~np.isin(alive, self._held)] if held else alive
        ranked = _Ranked(free, [_of_rows(key, of, free) for key, of in keys], slots.moved, seen)
        return _each(asker, slots, held, order), ranked

    def _current(self, slots: Slots) -> FewRows:
        """The table with the slots' ads of this moment."""
        if slots.changes is self._changes:
            rows = [*dict.fromkeys(slots.changes[self._seen :])]
        else:
            self._held = np.array([row for row, slot in enumerate(slots) if slot.offer.claimed], np.int64)
            known = self._table.ads
            same = len(known) == len(slots)
            rows = [row for row, slot in enumerate(slots) if not same or slot.ad is not known[row]]
        self._changes, self._seen = slots.changes, len(slots.changes)
        # To change single rows drops whole columns all the same; beyond some, making them anew costs less.
        if len(rows) > len(slots) // 4:
            self._table = Table([slot.ad for slot in slots])
        else:
            for row in rows:
                self._table.replace(row, slots[row].ad)
        if rows:
            self._few = FewRows(self._table)
        return self._few


class _Ranked:
    """Rows in the order of their keys, each key the larger the better, and of equal ones in their own."""

    def __init__(self, rows: Rows, keys: Sequence[Reals], moved: array[int], seen: int) -> None:
        """`keys`: those of the rows, or one number where that is the key of all."""
        negative = [-key for key in keys]
        differ = [key for key in negative if key.size and key.min() != key.max()]
        order = np.lexsort(differ[::-1]) if differ else None
        self._rows = (rows if order is None else rows[order]).astype(np.int32)
        self._keys = [
            key[:1] if order is None or not any(key is one for one in differ) else key[order] for key in negative
        ]
        self._moved, self._seen, self._at = moved, seen, 0
        self.matched = len(rows)

    def first(self) -> tuple[Key, int] | None:
        """The best that has not changed since."""
        rows, moved, seen = self._rows, self._moved, self._seen
        while self._at < len(rows):
            row = int(rows[self._at])
            if moved[row] <= seen:
                pre, rank, post = (float(key[self._at if len(key) > 1 else 0]) for key in self._keys)
                return (pre, rank, post, _NOBODY, 0.0), row
            some = rows[self._at : self._at + _AT_ONCE]
            left = np.flatnonzero(np.frombuffer(moved, np.int64)[some] <= seen)
            self._at += int(left[0]) if left.size else len(some)
        return None

    def refuse(self) -> None:
        """The best will not do."""
        self._at += 1


def _of_rows(values: Reals, places: Rows | None, rows: Rows) -> Reals:
    """The values of some rows; one where that is the value of all."""
    if values.min() == values.max():
        return values[:1]
    return values[rows] if places is None else values[places[rows]]


def _each(asker: Asker, slots: Sequence[Working], rows: Sequence[int], order: RankOrder) -> list[tuple[int, Key]]:
    """Of slots that match."""
    return [(row, key) for row in rows if (key := key_of_match(asker, slots[row], order)) is not None]


def _numbers(table: Table, expression: Expr | None, job: ClassAd) -> Reals:
    return np.zeros(len(table)) if expression is None else table.numbers(expression, target=job, other=LOWEST)
