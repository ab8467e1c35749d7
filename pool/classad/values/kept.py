"""A cache that is bounded by bytes, so that what others send may be kept in it.

It has two generations. What is asked for moves to the young one; when that has grown to half of the bound it becomes
the old one, and what nobody has asked for since the last time is forgotten. So a flood of new entries costs no more
than the bound, and what is in use stays.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key, each with the bytes that its maker thinks it costs."""

    __slots__ = ("_bytes", "_half", "_old", "young")

    def __init__(self, most: int) -> None:
        #: Look here first; then ask `find`.
        self.young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._half = most // 2
        self._bytes = 0

    def find(self, key: K) -> V | None:
        """The value, or None; it is in use from now on."""
        found = self.young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Keep a value; one that costs more than half of the bound is not worth it."""
        if cost > self._half:
            return
        self._bytes += cost
        if self._bytes > self._half:
            self._old, self.young, self._bytes = self.young, {}, cost
        self.young[key] = value, cost

    def __len__(self) -> int:
        return len(self.young) + len(self._old)
