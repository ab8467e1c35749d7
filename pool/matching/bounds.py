"""What bounds a match beside the slot itself: the quota of the turn, the submitter's ceiling, concurrency limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pool.accounting.limits import Limits, differ_by_slot, exceeded, limits_of
from pool.matching.snapshot import Matched, Snapshot
from pool.matching.submitters import Submitter
from pool.matching.turn import TOLERANCE, Turn

NO_MATCH: Final = "no match found"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request gets no slot; `dear` is the job's attribute that costs too much processor time, if that is why."""

    why: str = NO_MATCH
    dear: str = ""
    later: bool = False
    """Whether a later turn of the same cycle may have one."""


class Bounds:
    """The bounds of one cycle, with what its matches have used of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._capacity = snapshot.settings.capacity
        self._used = dict(snapshot.limits_used)

    def charge(self, matched: Matched) -> None:
        """The match is made: it uses what it uses of concurrency limits."""
        for name, amount in matched.limits.items():
            self._used[name] = self._used.get(name, 0.0) + amount

    def before(self, submitter: Submitter) -> Refusal | None:
        """Why no slot needs to be looked for."""
        job = submitter.requests[0].ad
        if "ConcurrencyLimits" not in job or differ_by_slot(job):
            return None
        return self._limits(limits_of(job, None))

    def of(self, submitter: Submitter, turn: Turn, matched: Matched, given_back: float) -> Refusal | None:
        """Why this match cannot be made; `given_back` is the weight that the turn's group gives up for it."""
        ceiling = submitter.standing.ceiling
        if 0 <= ceiling < submitter.use + matched.weight - TOLERANCE:
            return beyond_ceiling(submitter)
        if why := turn.exceeded(matched.weight - given_back):
            return Refusal(why, later=True)
        return self._limits(matched.limits) if matched.limits else None

    def _limits(self, wanted: Limits) -> Refusal | None:
        name = exceeded(wanted, self._used, self._capacity)
        if not name:
            return None
        said = f"{self._used.get(name, 0.0):g} of {self._capacity(name):g} are in use"
        if wanted[name] != 1:
            said += f", and the job needs {wanted[name]:g}"
        return Refusal(f"concurrency limit {name} reached: {said}")


def beyond_ceiling(submitter: Submitter) -> Refusal:
    """The refusal of a submitter who has all that he may have."""
    return Refusal(f"the ceiling of {submitter.name} allows no more than {submitter.standing.ceiling:g}")
