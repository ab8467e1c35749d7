"""Which slots suit which kinds of jobs, kept from event to event: only slots that changed since are asked anew.

A simulated pool has as many cycles as events, and between two of them few slots change. Slots that differ in nothing
that any expression names are of one class, and answers count for a class and what is left of a slot; an answer that may
change with time is never kept. Only for slots that nobody holds.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pool.classad import ClassAd, Expr
from pool.jobs.waiting.autoclusters import is_timeless
from pool.matching.candidates import Key, RankOrder, Working, evaluate_one
from pool.matching.preempt import Asker
from pool.matching.snapshot import Snapshot
from pool.matching.submitters import Submitters
from pool.simulate.machines import Machine, State

ANSWERS_MAX: Final = 1_000_000
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_BY_NAME: Final = ("eval", "countmatches", "unparse")
"""Functions that may read attributes which the expression does not name begin so."""
_NOBODY: Final = Submitters(Snapshot([], []))


class Suiting:
    """The slots as each kind of job sees them; `changed` says that one is not as it was."""

    def __init__(self, kinds: Sequence[ClassAd], machines: Sequence[Machine], order: RankOrder) -> None:
        self._kinds, self._machines, self._order = kinds, machines, order
        self._numbers = {id(ad): kind for kind, ad in enumerate(kinds)}
        self._places = {machine.name: place for place, machine in enumerate(machines)}
        self.words = frozenset(_words(kinds, machines, order))
        """All names in expressions, in lower case."""
        self.classes = _classes(machines, self.words)
        self._steady: dict[tuple[int, int], bool] = {}
        self._answers: dict[tuple[int, int, State], Key | None] = {}
        self._changes: list[int] = []
        self._views: dict[int, _View] = {}

    def changed(self, name: str) -> None:
        """Something of the slot was taken or given back."""
        self._changes.append(self._places[name])

    def best(self, kind: int) -> Machine | None:
        """The slot that jobs of the kind want most; None where no slot suits them."""
        place = self._view(kind).best()
        return None if place is None else self._machines[place]

    def is_steady(self, kind: int, machine: Machine) -> bool:
        """Whether the kind and the slot think of each other for ever what they think now."""
        which = kind, self.classes[machine.name]
        if which not in self._steady:
            job = self._kinds[kind]
            ranks = (self._order.pre, self._order.post, job.get("Rank"))
            told = not any(isinstance(one, Expr) and "time" in one.text.lower() for one in ranks)
            self._steady[which] = told and is_timeless(job, machine.base)
        return self._steady[which]

    def evaluate(self, asker: Asker, slots: Sequence[Working], order: RankOrder) -> list[tuple[int, Key]]:
        """An `Evaluate`: the matching slots' indices with their keys."""
        keys = self._view(self._numbers[id(asker.job)]).keys
        found = []
        for index, slot in enumerate(slots):
            if slot.version < 0:
                continue
            # Of what was carved in the course of the cycle nothing is known here.
            key = evaluate_one(asker, slot, order) if slot.version else keys.get(self._places[slot.offer.name])
            if key is not None:
                found.append((index, key))
        return found

    def _view(self, kind: int) -> _View:
        view = self._views.get(kind)
        if view is None:
            moving = [place for place, one in enumerate(self._machines) if not self.is_steady(kind, one)]
            view = self._views[kind] = _View(moving, len(self._machines))
            view.seen = len(self._changes)
            view.note((place, self._answer(kind, place)) for place in range(len(self._machines)))
            return view
        behind = len(self._changes) - view.seen
        if behind or view.moving:
            news: Iterable[int] = range(len(self._machines))
            if behind < len(self._machines):
                news = {*view.moving, *self._changes[view.seen :]}
            view.seen = len(self._changes)
            view.note([(place, self._answer(kind, place)) for place in news])
        return view

    def _answer(self, kind: int, place: int) -> Key | None:
        machine = self._machines[place]
        state = machine.state()
        if state is None:
            return None
        if not self.is_steady(kind, machine):
            return self._asked(kind, machine)
        which = kind, self.classes[machine.name], state
        if which not in self._answers:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[which] = self._asked(kind, machine)
        return self._answers[which]

    def _asked(self, kind: int, machine: Machine) -> Key | None:
        offer = machine.offer()
        # Who asks counts only where somebody would have to make room.
        return evaluate_one(Asker(self._kinds[kind], "", _NOBODY, 0.0), Working(offer, offer.ad, []), self._order)


class _View:
    """One kind's view: the keys of the slots that suit it, and the best of them."""

    def __init__(self, moving: Sequence[int], size: int) -> None:
        self.moving, self.seen = moving, 0
        self.keys: dict[int, Key] = {}
        self._heap: list[tuple[Key, int]] = []
        self._size = size

    def note(self, answers: Iterable[tuple[int, Key | None]]) -> None:
        """These answers count from now on."""
        for place, key in answers:
            if key is None:
                self.keys.pop(place, None)
            elif self.keys.get(place) != key:
                self.keys[place] = key
                heapq.heappush(self._heap, (_negative(key), place))
        if len(self._heap) > 4 * self._size + 64:
            self._heap = [(_negative(key), place) for place, key in self.keys.items()]
            heapq.heapify(self._heap)

    def best(self) -> int | None:
        """The slot with the largest key; of equal ones the first."""
        while self._heap:
            negative, place = self._heap[0]
            known = self.keys.get(place)
            if known is not None and _negative(known) == negative:
                return place
            heapq.heappop(self._heap)
        return None


def _negative(key: Key) -> Key:
    return -key[0], -key[1], -key[2], -key[3], -key[4]


def _words(kinds: Iterable[ClassAd], machines: Iterable[Machine], order: RankOrder) -> Iterator[str]:
    texts = {one.text for one in (order.pre, order.post) if one is not None}
    for ad in (*kinds, *(machine.base for machine in machines)):
        texts |= {value.text for value in ad.values() if isinstance(value, Expr)}
    return (word.lower() for text in texts for word in _WORD.findall(text))


def _classes(machines: Sequence[Machine], words: frozenset[str]) -> dict[str, int]:
    """Numbers by name; equal for slots that agree in all that has a name in some expression, and in what they have."""
    if any(word.startswith(_BY_NAME) for word in words):
        return {machine.name: number for number, machine in enumerate(machines)}
    numbers: dict[object, int] = {}
    found = {}
    for machine in machines:
        named = ((name.lower(), machine.base.text(name)) for name in machine.base if name.lower() in words)
        key = (
            machine.partitionable,
            tuple(machine.whole.items()),
            tuple(sorted(named)),
            machine.base.text("Requirements"),
        )
        found[machine.name] = numbers.setdefault(key, len(numbers))
    return found
