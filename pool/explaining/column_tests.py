"""The tests of `slot_tests` by columns: all slots at once, with the answers that looking at each gives.

Needs numpy; only the negotiator imports it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import repeat
from operator import is_
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from pool.classad import ClassAd, Expr, Value
from pool.classad.columns import Table
from pool.classad.columns.alike import told_apart
from pool.classad.columns.vector import NoColumn, logical
from pool.classad.values.attrs import MISSING
from pool.explaining.slot_tests import DRAINED, EachSlot, drained

LISTS_KEPT: Final = 2
"""All slots, and those that somebody has."""
FEW: Final = 16
"""Fewer slots than this are looked at one by one."""


class ColumnTests:
    """The `SlotTests` of all slots at once; what has no column form goes one by one."""

    def __init__(self, slots: Sequence[ClassAd], table: Table | None = None) -> None:
        self._table = Table(slots) if table is None else table
        self._each = EachSlot(slots)
        self._drained: ColumnTests | None = None
        self._all = frozenset(range(len(slots)))

    def are_of(self, slots: Sequence[ClassAd]) -> bool:
        """Whether they are about these very ads, in this order."""
        return len(self._table) == len(slots) and all(map(is_, self._table.ads, slots))

    def meet(self, condition: Expr, job: ClassAd) -> frozenset[int]:
        """Those that an expression of the job is true for."""
        try:
            return self._rows(logical(self._table.eval(condition, my=job)).data)
        except NoColumn:
            return self._each.meet(condition, job)

    def say(self, condition: Expr, job: ClassAd, rows: Collection[int]) -> frozenset[int]:
        """Those of `rows` whose own expression this is, and is true for the job."""
        if len(rows) < FEW:
            return self._each.say(condition, job, rows)
        try:
            return self._rows(logical(self._table.eval(condition, target=job)).data).intersection(rows)
        except NoColumn:
            return self._each.say(condition, job, rows)

    def have(self, name: str, job: ClassAd) -> frozenset[int]:
        """Those whose attribute is true for the job."""
        try:
            return self._rows(logical(self._table.attribute(name, job)).data)
        except NoColumn:
            return self._each.have(name, job)

    def accepted(self, job: ClassAd) -> frozenset[int]:
        """Those that meet the job's Requirements."""
        return self._rows(self._table.accepted(job))

    def accepting(self, job: ClassAd) -> frozenset[int]:
        """Those whose Requirements the job meets."""
        return self._rows(self._table.accepting(job))

    def values(self, name: str) -> list[Value]:
        """What each has of an attribute."""
        try:
            return self._table.attribute(name).values()
        except NoColumn:
            return self._each.values(name)

    def alike(self, names: Iterable[str], rows: Collection[int]) -> list[list[int]]:
        """`rows` in groups of those that store the same of these attributes, each and all in order."""
        try:
            columns = [self._table.column(name.lower()) for name in names]
            if any(column.parts for column in columns):  # they may read anything
                raise NoColumn
            arrays = [one for column in columns for one in told_apart(column, len(self._table))]
        except NoColumn:
            return self._each.alike(names, rows)
        wanted, groups = sorted(rows), dict[tuple[Any, ...], list[int]]()
        # Most attributes are the same for all: only the others tell rows apart.
        told = [one.tolist() for one in (array[wanted] for array in arrays) if (one[:1] != one).any()]
        for row, key in zip(wanted, zip(*told, strict=True) if told else repeat(()), strict=False):
            groups.setdefault(key, []).append(row)
        return list(groups.values())

    def drained(self) -> ColumnTests:
        """The tests of the slots as they are when nobody uses them."""
        if self._drained is None:
            self._drained = self._made_drained()
        return self._drained

    def _rows(self, where: npt.NDArray[np.bool_]) -> frozenset[int]:
        """Most conditions are true for all slots, or for none."""
        return self._all if where.all() else frozenset(np.flatnonzero(where).tolist())

    def _made_drained(self) -> ColumnTests:
        stored = {}
        for name in DRAINED:
            now, whole = ([ad.attrs.lookup(key) for ad in self._table.ads] for key in _keys(name))
            empty = [a if MISSING in (a, b) else b for a, b in zip(now, whole, strict=True)]
            if any(type(a) is not type(b) or a != b for a, b in zip(now, empty, strict=True)):
                stored[name.lower()] = empty
        # Where nobody uses anything yet, drained slots are what they are: nothing is computed twice.
        if not stored:
            return self
        ads = _Drained(self._table.ads)
        return ColumnTests(ads, self._table.changed(ads, stored))


class KeptTests:
    """Makes tests, and keeps the columns of a few lists of slots for as long as the same ads are asked about."""

    def __init__(self) -> None:
        self._known: list[ColumnTests] = []

    def __call__(self, slots: Sequence[ClassAd]) -> ColumnTests:
        for known in self._known:
            if known.are_of(slots):
                return known
        made = ColumnTests(slots)
        if len(slots) >= FEW:
            self._known = [made, *self._known][:LISTS_KEPT]
        return made


def _keys(name: str) -> tuple[str, str]:
    return name.lower(), f"totalslot{name}".lower()


class _Drained(Sequence[ClassAd]):
    """Slots as they are when nobody uses them, each made when it is looked at."""

    def __init__(self, slots: Sequence[ClassAd]) -> None:
        self._slots = slots

    def __len__(self) -> int:
        return len(self._slots)

    @overload
    def __getitem__(self, at: int) -> ClassAd: ...

    @overload
    def __getitem__(self, at: slice) -> list[ClassAd]: ...

    def __getitem__(self, at: int | slice) -> ClassAd | list[ClassAd]:
        return [drained(slot) for slot in self._slots[at]] if isinstance(at, slice) else drained(self._slots[at])

    def __iter__(self) -> Iterator[ClassAd]:
        return map(drained, self._slots)
