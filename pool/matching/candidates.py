"""Which slots a job may have, and in which order it wants them.

`Candidates` is one autocluster's view of the slots of one cycle: evaluated once against all of them, and after that
only against those that were carved since it last looked.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, overload

from pool.classad import ClassAd, Expr, is_match, rank
from pool.matching.offers import Offer, Pieces
from pool.matching.preempt import Asker, PreemptionPolicy, Preempts, number_of, preempts
from pool.slots.provision.resources import Amounts

_DEAD: Final = -1
Key = tuple[float, float, float, float, float]
"""Larger is better: pre-job rank, the job's Rank, post-job rank, who is moved aside, preemption rank."""


@dataclass(frozen=True, slots=True)
class RankOrder:
    """How slots are ordered for a job: NEGOTIATOR_PRE_JOB_RANK, the job's Rank, NEGOTIATOR_POST_JOB_RANK."""

    pre: Expr | None = None
    post: Expr | None = None
    preemption: PreemptionPolicy = field(default_factory=PreemptionPolicy)
    depth_first: bool = False
    """Whether a partitionable slot is filled with a request's jobs before the next one gets any."""


@dataclass(slots=True)
class Working:
    """A slot in the course of a cycle. `version` grows whenever its ad becomes another; -1: nothing is left of it.

    `free` is what a partitionable slot has left, once that was looked at.
    """

    offer: Offer
    ad: ClassAd
    claim_ids: list[str]
    version: int = 0
    free: Amounts | None = None
    gone: Pieces = field(default_factory=dict)
    """Pieces of custom resources that were handed out of it in this cycle."""


_GONE: Final = 1 << 62


class Slots(Sequence[Working]):
    """The slots of one cycle, and which of them became others in its course.

    `moved` has for each slot how many changes there were when it changed last; for one that is gone, more than that.
    """

    def __init__(self, slots: Iterable[Working]) -> None:
        self._slots = list(slots)
        self.changes: list[int] = []
        self.moved = array("q", bytes(8 * len(self._slots)))
        self.left = len(self._slots)
        """How many are not gone."""

    @overload
    def __getitem__(self, at: int) -> Working: ...
    @overload
    def __getitem__(self, at: slice) -> list[Working]: ...
    def __getitem__(self, at: int | slice) -> Working | list[Working]:
        return self._slots[at]

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Working]:
        return iter(self._slots)

    def change(self, index: int) -> None:
        """A slot has another ad."""
        self._slots[index].version += 1
        self.changes.append(index)
        self.moved[index] = len(self.changes)

    def drop(self, index: int) -> None:
        """Nothing is left of a slot."""
        if self.moved[index] != _GONE:
            self._slots[index].version = _DEAD
            self.moved[index] = _GONE
            self.left -= 1


class Ranked(Protocol):
    """Matching slots, best first, of which those are passed over that have changed since."""

    matched: int

    def first(self) -> tuple[Key, int] | None:
        """The best one that is as it was: its key, each part negative, and its index."""

    def refuse(self) -> None:
        """It will not do."""


Each = list[tuple[int, Key]]
Evaluate = Callable[[Asker, Sequence[Working], RankOrder], Each | tuple[Each, Ranked]]
"""Answers the matching slots' indices with their keys, some of them perhaps in order by themselves."""


def evaluate_each(asker: Asker, slots: Sequence[Working], order: RankOrder) -> list[tuple[int, Key]]:
    """Evaluate one slot after another."""
    found: list[tuple[int, Key]] = []
    for index, slot in enumerate(slots):
        if slot.version >= 0 and (key := evaluate_one(asker, slot, order)) is not None:
            found.append((index, key))
    return found


def evaluate_one(asker: Asker, slot: Working, order: RankOrder) -> Key | None:
    """The slot's key for this job, or None when they do not match."""
    return key_of_match(asker, slot, order) if is_match(asker.job, slot.ad) else None


def key_of_match(asker: Asker, slot: Working, order: RankOrder) -> Key | None:
    """The key of a slot that matches the job, or None when its holder need not make way."""
    ad, job = slot.ad, asker.job
    aside, preemption_rank = Preempts.NOBODY, 0.0
    if slot.offer.claimed:
        if (found := preempts(ad, asker, order.preemption)) is None:
            return None
        aside, preemption_rank = found
    return _number(order.pre, ad, job), rank(job, ad), _number(order.post, ad, job), float(aside), preemption_rank


def _number(expression: Expr | None, ad: ClassAd, job: ClassAd) -> float:
    return number_of(expression.eval(ad, job)) if expression is not None else 0.0


class Candidates:
    """The slots of a cycle, as one job sees them, best first."""

    def __init__(self, asker: Asker, slots: Slots, order: RankOrder, evaluate: Evaluate = evaluate_each) -> None:
        self._asker, self._slots, self._order = asker, slots, order
        self._ranked: Ranked | None = None
        found = evaluate(asker, slots, order) if slots.left else []
        if isinstance(found, tuple):
            found, self._ranked = found
        self._heap = [(_negative(key), index, slots[index].version) for index, key in found]
        heapq.heapify(self._heap)
        self._seen = len(slots.changes)
        self.matched = len(self._heap) + (self._ranked.matched if self._ranked is not None else 0)
        self._last = _DEAD
        """The slot that was best last."""
        self._key: Key = (0.0, 0.0, 0.0, 0.0, 0.0)
        self._is_ranked = False
        """Whether that is one of the ranked."""

    def best(self) -> int | None:
        """The index of the slot that the job wants most; it stays first until it changes or is refused."""
        self._look_at_changes()
        ranked = None if self._ranked is None else self._ranked.first()
        head = self._head()
        self._is_ranked = ranked is not None and (head is None or ranked < head)
        if self._is_ranked:
            head = ranked
        if head is None:
            return None
        self._key, self._last = head
        return self._last

    def _head(self) -> tuple[Key, int] | None:
        """The best of those that are not among the ranked."""
        while self._heap:
            key, index, version = self._heap[0]
            # An entry of an older version is stale: the slot was carved since, and has another entry or none.
            if self._slots[index].version == version:
                return key, index
            heapq.heappop(self._heap)
        return None

    def moves_aside(self) -> Preempts:
        """Whom the best moves aside."""
        return Preempts(int(-self._key[3]))

    def refuse(self) -> None:
        """The best will not do after all."""
        if self._is_ranked and self._ranked is not None:
            self._ranked.refuse()
        else:
            heapq.heappop(self._heap)

    def _look_at_changes(self) -> None:
        """Evaluate again what was carved since the last look."""
        changes = self._slots.changes
        if self._seen == len(changes):
            return
        for index in dict.fromkeys(changes[self._seen :]):
            slot = self._slots[index]
            if slot.version != _DEAD and (key := evaluate_one(self._asker, slot, self._order)) is not None:
                if self._order.depth_first and index == self._last:
                    key = (float("inf"), *key[1:])
                heapq.heappush(self._heap, (_negative(key), index, slot.version))
        self._seen = len(changes)


def _negative(key: Key) -> Key:
    return -key[0], -key[1], -key[2], -key[3], -key[4]
