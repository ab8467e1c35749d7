"""Which attributes of slots waiting jobs ask for: a change of one of them may turn a slot into a match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pool.classad import ClassAd, Member
from pool.classad.eval.ad import text_of
from pool.classad.values.kept import Kept
from pool.classad.values.value import PLAIN
from pool.matching.snapshot import JobRequest

KNOWN_BYTES_MAX: Final = 32 << 20
"""Of Requirements whose attributes are remembered."""
_BYTES_EACH: Final = 2_000


class _Reading:
    """What the Requirements of one job read, and what of its ad decided that."""

    __slots__ = ("_absent", "_own", "names")

    def __init__(self, job: ClassAd) -> None:
        own, other = job.references("Requirements")
        self.names = frozenset(other)
        self._own = tuple((name, _text(job[name])) for name in own)
        self._absent = tuple(other)

    def holds_for(self, job: ClassAd) -> bool:
        """Whether another job with the same Requirements reads the same: a name in them may be an expression in one ad,
        a number in another, and the slot's in a third."""
        return all(name in job and _text(job[name]) == text for name, text in self._own) and not any(
            name in job for name in self._absent
        )


def _text(value: Member) -> str | None:
    """What is no plain value, as text."""
    return None if type(value) in PLAIN else text_of(value)


class Interest:
    """The attributes that the Requirements of requests read of slots; asked often, looked for seldom."""

    def __init__(self) -> None:
        self._known: Kept[str, _Reading] = Kept(KNOWN_BYTES_MAX)
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
        known = self._known.find(text)
        if known is None or not known.holds_for(job):
            known = _Reading(job)
            self._known.put(text, known, _BYTES_EACH + len(text))
        return known.names
