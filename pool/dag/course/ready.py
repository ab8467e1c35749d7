"""Nodes whose jobs may be submitted, in order: by priority, and then as they became ready; categories have limits."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class ReadyNodes:
    """The queue; every operation costs the logarithm of its length."""

    def __init__(self, limits: dict[str, int]) -> None:
        self._heap: list[tuple[int, int, int]] = []
        self._limits = limits
        self._running: dict[str, int] = {}
        self._deferred: dict[str, list[tuple[int, int, int]]] = {}
        self._after = 0
        self._before = 0
        self._count = 0
        self.deferrals = 0
        """How often a node had to wait for its category."""

    def __len__(self) -> int:
        return self._count

    def add(self, node: int, priority: int, *, first: bool = False) -> None:
        """The node is ready. `first`: before all of its priority."""
        if first:
            self._before -= 1
            place = self._before
        else:
            self._after += 1
            place = self._after
        heappush(self._heap, (-priority, place, node))
        self._count += 1

    def take(self, category_of: Callable[[int], str]) -> int | None:
        """The next node that its category lets run, which then counts as running there."""
        while self._heap:
            entry = heappop(self._heap)
            category = category_of(entry[2])
            limit = self._limits.get(category)
            # Put aside until one of its category is over: to look at it again each time would cost all the others.
            if limit is not None and self._running.get(category, 0) >= limit:
                self.deferrals += 1
                heappush(self._deferred.setdefault(category, []), entry)
                continue
            self._count -= 1
            self.enter(category)
            return entry[2]
        return None

    def enter(self, category: str) -> None:
        """A node of the category runs."""
        if category in self._limits:
            self._running[category] = self._running.get(category, 0) + 1

    def leave(self, category: str) -> None:
        """A node of the category runs no more: one that waits for that comes back."""
        if category in self._limits:
            self._running[category] -= 1
            if waiting := self._deferred.get(category):
                heappush(self._heap, heappop(waiting))

    def drop_all(self) -> list[int]:
        """Forget all; which they were."""
        entries = [*self._heap, *(entry for waiting in self._deferred.values() for entry in waiting)]
        self._heap, self._deferred, self._count = [], {}, 0
        return [node for _, _, node in entries]
