"""Candidates by columns: all slots of a cycle at once, with the answers of `evaluate_each`.

Needs numpy; only the negotiator imports it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pool.classad import ClassAd, Expr
from pool.classad.columns import Table
from pool.classad.columns.vector import NoColumn
from pool.matching.candidates import Key, RankOrder, Working, evaluate_each, key_of_match
from pool.matching.preempt import LOWEST, Asker, Preempts

FEW = 16
"""Fewer slots than this are looked at one by one."""


class ColumnEvaluator:
    """An `Evaluate` that keeps its columns from call to call, and from cycle to cycle."""

    def __init__(self) -> None:
        self._table = Table([])

    def __call__(self, asker: Asker, slots: Sequence[Working], order: RankOrder) -> list[tuple[int, Key]]:
        """The matching slots' indices with their keys."""
        if len(slots) < FEW:
            return evaluate_each(asker, slots, order)
        table = self._current(slots)
        matched = np.flatnonzero(table.matches(asker.job)).tolist()
        alive = [index for index in matched if slots[index].version >= 0]
        # Preemption asks about each holder's priority, which is no attribute: those few go one by one.
        held = [index for index in alive if slots[index].offer.claimed]
        if len(held) == len(alive):
            return _each(asker, slots, held, order)
        try:
            pre, post = (_numbers(table, one, asker.job) for one in (order.pre, order.post))
        except NoColumn:
            return _each(asker, slots, alive, order)
        rank, nobody = table.ranks(asker.job), float(Preempts.NOBODY)
        found = _each(asker, slots, held, order)
        free = [index for index in alive if not slots[index].offer.claimed] if held else alive
        keys = zip(pre[free].tolist(), rank[free].tolist(), post[free].tolist(), strict=True)
        found += [(index, (a, b, c, nobody, 0.0)) for index, (a, b, c) in zip(free, keys, strict=True)]
        return sorted(found) if held else found

    def _current(self, slots: Sequence[Working]) -> Table:
        """The table with the slots' ads of this moment."""
        table = self._table
        if len(table) != len(slots):
            table = self._table = Table([slot.ad for slot in slots])
            return table
        changed = [row for row, slot in enumerate(slots) if slot.ad is not table.ads[row]]
        # To change single rows drops whole columns all the same; beyond some, making them anew costs less.
        if len(changed) > len(slots) // 4:
            table = self._table = Table([slot.ad for slot in slots])
        else:
            for row in changed:
                table.replace(row, slots[row].ad)
        return table


def _each(asker: Asker, slots: Sequence[Working], rows: Sequence[int], order: RankOrder) -> list[tuple[int, Key]]:
    """Of slots that match."""
    return [(row, key) for row in rows if (key := key_of_match(asker, slots[row], order)) is not None]


def _numbers(table: Table, expression: Expr | None, job: ClassAd) -> npt.NDArray[np.float64]:
    return np.zeros(len(table)) if expression is None else table.numbers(expression, target=job, other=LOWEST)
