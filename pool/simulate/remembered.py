"""How slots suit jobs, remembered from cycle to cycle: most of what a cycle asks has been answered in one before.

A simulated pool has as many cycles as events, and between two of them few slots change. An answer counts as long as
both ads are the same; one that may change with time is asked for anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pool.classad import ClassAd, Expr
from pool.jobs.waiting.autoclusters import is_timeless
from pool.matching.candidates import Key, RankOrder, Working, evaluate_one
from pool.matching.preempt import Asker

ANSWERS_MAX: Final = 200_000


class RememberingEvaluator:
    """An `Evaluate` with the answers of `evaluate_each`. Only for slots that nobody holds."""

    def __init__(self) -> None:
        self._answers: dict[tuple[int, int], tuple[ClassAd, ClassAd, Key | None]] = {}
        self._steady: dict[tuple[int, str], bool] = {}

    def __call__(self, asker: Asker, slots: Sequence[Working], order: RankOrder) -> list[tuple[int, Key]]:
        """The matching slots' indices with their keys."""
        found = []
        for index, slot in enumerate(slots):
            if slot.version >= 0 and (key := self._answer(asker, slot, order)) is not None:
                found.append((index, key))
        return found

    def _answer(self, asker: Asker, slot: Working, order: RankOrder) -> Key | None:
        job, ad = asker.job, slot.ad
        place = id(job), id(ad)
        known = self._answers.get(place)
        # The ads are kept with the answer, so that no other ad can have their place in memory.
        if known is not None and known[0] is job and known[1] is ad:
            return known[2]
        key = evaluate_one(asker, slot, order)
        if self._is_steady(job, slot, order):
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[place] = job, ad, key
        return key

    def _is_steady(self, job: ClassAd, slot: Working, order: RankOrder) -> bool:
        which = id(job), slot.offer.name
        if which not in self._steady:
            ranks = (order.pre, order.post, job.get("Rank"))
            told = not any(isinstance(one, Expr) and "time" in one.text.lower() for one in ranks)
            self._steady[which] = told and is_timeless(job, slot.ad)
        return self._steady[which]
