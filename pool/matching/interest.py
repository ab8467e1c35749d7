"""Which attributes of slots waiting jobs ask for: a change of one of them may turn a slot into a match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pool.classad import ClassAd, Member
from pool.classad.eval.readings import Readings
from pool.matching.snapshot import JobRequest


class Interest:
    """The attributes that the Requirements of requests read of slots; asked often, looked for seldom."""

    def __init__(self) -> None:
        self._known = Readings("Requirements")
        self._names: frozenset[str] = frozenset()
        self._stale = False

    def changed(self) -> None:
        """Other requests wait now."""
        self._stale = True

    def differ(self, before: ClassAd | None, now: ClassAd, requests: Iterable[JobRequest]) -> bool:
        """Whether two ads of a slot differ in what these requests, which are those that wait, ask for."""
        if self._stale:
            self._stale = False
            self._names = frozenset(name for request in requests for name in self._known.of(request.ad).theirs)
        if before is None:
            return bool(self._names)
        return any(one != other for one, other in self._pairs(before, now))

    def _pairs(self, before: ClassAd, now: ClassAd) -> Iterator[tuple[Member | None, Member | None]]:
        return ((before.get(name), now.get(name)) for name in self._names)
