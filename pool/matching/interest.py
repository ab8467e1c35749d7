"""Which attributes of slots waiting jobs ask for: a change of one of them may turn a slot into a match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pool.classad import ClassAd, Member
from pool.matching.cycle import JobRequest

TEXTS_MAX: Final = 10_000
"""Requirements whose attributes are remembered."""


class Interest:
    """The attributes that the Requirements of requests read of slots; asked often, looked for once in each text."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}
        self._names: frozenset[str] = frozenset()
        self._stale = False

    def changed(self) -> None:
        """Other requests wait now."""
        self._stale = True

    def differ(self, before: ClassAd | None, now: ClassAd, requests: Iterable[JobRequest]) -> bool:
        """Whether two ads of a slot differ in what these requests, which are those that wait, ask for."""
        if self._stale:
            self._stale = False
            self._names = frozenset(name for request in requests for name in self._of(request.ad))
        if before is None:
            return bool(self._names)
        return any(one != other for one, other in self._pairs(before, now))

    def _pairs(self, before: ClassAd, now: ClassAd) -> Iterator[tuple[Member | None, Member | None]]:
        return ((before.get(name), now.get(name)) for name in self._names)

    def _of(self, job: ClassAd) -> frozenset[str]:
        text = job.text("Requirements") if "Requirements" in job else ""
        names = self._known.get(text)
        if names is None:
            if len(self._known) >= TEXTS_MAX:
                self._known.clear()
            names = self._known[text] = frozenset(job.references("Requirements")[1])
        return names
