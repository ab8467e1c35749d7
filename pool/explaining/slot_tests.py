"""What a job asks of many slots, and they of it: asked one by one here, by columns in `columnar`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from pool.classad import ClassAd, Expr, Value, accepts
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

    def values(self, name: str) -> list[Value]:
        """What each has of an attribute."""

    def alike(self, names: Iterable[str], rows: Collection[int]) -> list[list[int]]:
        """`rows` in groups of those that store the same of these attributes, each and all in order."""

    def drained(self) -> SlotTests:
        """The tests of the slots as they are when nobody uses them."""


DRAINED: Final = ("Cpus", "Memory", "Disk", "GPUs")
"""What a partitionable slot has more of when nobody uses it."""


def drained(slot: ClassAd) -> ClassAd:
    """A partitionable slot as it is when nobody uses it; any other slot, when its claim is over."""
    own: dict[str, object] = {
        name: slot[f"TotalSlot{name}"] for name in DRAINED if name in slot and f"TotalSlot{name}" in slot
    }
    return ClassAd(own, parent=slot) if own else slot


def may_drain(slot: ClassAd) -> bool:
    """Whether draining could make more of it."""
    return any(name in slot and f"TotalSlot{name}" in slot for name in DRAINED)


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

    def values(self, name: str) -> list[Value]:
        """What each has of an attribute."""
        return [slot.eval(name) for slot in self._slots]

    def alike(self, names: Iterable[str], rows: Collection[int]) -> list[list[int]]:
        """`rows` in groups of those that store the same of these attributes: here each is looked at by itself."""
        return [[row] for row in sorted(rows)]

    def drained(self) -> EachSlot:
        """The tests of the slots as they are when nobody uses them."""
        return EachSlot([drained(slot) for slot in self._slots])

    def _where(self, test: Callable[[ClassAd], bool]) -> frozenset[int]:
        return frozenset(row for row, slot in enumerate(self._slots) if test(slot))
