"""What a job asks of many slots, and they of it: asked one by one here, by columns in `columnar`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from pool.classad import ClassAd, Expr, accepts
from pool.classad.values.truth import is_true


class SlotTests(Protocol):
    """Answers are the indices of slots."""

    def meet(self, condition: Expr, job: ClassAd) -> frozenset[int]:
        """Those that an expression of the job is true for."""

    def say(self, condition: Expr, job: ClassAd, rows: Collection[int]) -> frozenset[int]:
        """Those of `rows` whose own expression this is, and is true for the job."""

    def have(self, name: str, job: ClassAd) -> frozenset[int]:
        """Those whose attribute is true for the job."""

    def accepted(self, job: ClassAd) -> frozenset[int]:
        """Those that meet the job's Requirements."""

    def accepting(self, job: ClassAd) -> frozenset[int]:
        """Those whose Requirements the job meets."""


MakeTests = Callable[[Sequence[ClassAd]], SlotTests]


class EachSlot:
    """The tests one by one."""

    def __init__(self, slots: Sequence[ClassAd]) -> None:
        self._slots = slots

    def meet(self, condition: Expr, job: ClassAd) -> frozenset[int]:
        """Those that an expression of the job is true for."""
        return self._where(lambda slot: is_true(condition.eval(job, slot)))

    def say(self, condition: Expr, job: ClassAd, rows: Collection[int]) -> frozenset[int]:
        """Those of `rows` whose own expression this is, and is true for the job."""
        return frozenset(row for row in rows if is_true(condition.eval(self._slots[row], job)))

    def have(self, name: str, job: ClassAd) -> frozenset[int]:
        """Those whose attribute is true for the job."""
        return self._where(lambda slot: is_true(slot.eval(name, job)))

    def accepted(self, job: ClassAd) -> frozenset[int]:
        """Those that meet the job's Requirements."""
        return self._where(lambda slot: accepts(job, slot))

    def accepting(self, job: ClassAd) -> frozenset[int]:
        """Those whose Requirements the job meets."""
        return self._where(lambda slot: accepts(slot, job))

    def _where(self, test: Callable[[ClassAd], bool]) -> frozenset[int]:
        return frozenset(row for row, slot in enumerate(self._slots) if test(slot))
