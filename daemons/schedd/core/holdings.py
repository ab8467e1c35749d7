"""What this schedd holds, as negotiators are told of it: its slots by name, and what submitters have in all.

Of slots each negotiator hears all at first, and then what has changed. What submitters have is counted for each slice
of the pool that a negotiator hands out, since each has accounts of its own; what is of a slice that nobody hands out
(any more) counts in all of them. A match counts for its submitter, with what its
jobs use of concurrency limits, from the moment that it is taken: so nobody gets more than he may have while a slot is
being asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from daemons.schedd.core.claim import Claim
from pool.accounting.accounts import weight_of
from pool.accounting.limits import TOLERANCE
from pool.classad import ClassAd


@dataclass(slots=True)
class Held:
    """What a submitter has: slots, and their weight."""

    slots: int = 0
    weight: float = 0.0


class Totals:
    """What submitters have, and what their jobs use of concurrency limits."""

    def __init__(self) -> None:
        self.by_submitter: dict[str, Held] = {}
        self.limits: dict[str, float] = {}

    def add(self, claim: Claim) -> None:
        """Count it."""
        held = self.by_submitter.setdefault(claim.submitter, Held())
        held.slots += 1
        held.weight += claim.weight
        for name, amount in claim.limits.items():
            self.limits[name] = self.limits.get(name, 0.0) + amount

    def discard(self, claim: Claim) -> None:
        """Count it no more."""
        held = self.by_submitter[claim.submitter]
        held.slots -= 1
        held.weight -= claim.weight
        if held.slots <= 0:
            del self.by_submitter[claim.submitter]
        for name, amount in claim.limits.items():
            self.limits[name] -= amount
            # Sums of fractions do not come back to nothing by themselves.
            if self.limits[name] <= TOLERANCE:
                del self.limits[name]

    def include(self, others: Totals) -> None:
        """Count what these count, too."""
        for name, held in others.by_submitter.items():
            mine = self.by_submitter.setdefault(name, Held())
            mine.slots, mine.weight = mine.slots + held.slots, mine.weight + held.weight
        for name, amount in others.limits.items():
            self.limits[name] = self.limits.get(name, 0.0) + amount


class Holdings(Totals):
    """Claims, granted or asked for. A slot's next claim may begin before the last one is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self._granted: dict[str, Claim] = {}
        self._changed: dict[object, set[str]] = {}
        self._slices: dict[str, Totals] = {}

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self.by_submitter)

    def reserve(self, claim: Claim) -> None:
        """A match is taken: its slot is asked for."""
        self.add(claim)
        self._slices.setdefault(claim.slice, Totals()).add(claim)

    def grant(self, claim: Claim, slot: ClassAd) -> None:
        """A claim that was asked for is granted; its slot may weigh something else than the match promised."""
        weight = weight_of(slot)
        for totals in (self, self._slices[claim.slice]):
            totals.by_submitter[claim.submitter].weight += weight - claim.weight
        claim.weight = weight
        self._granted[claim.slot_name] = claim
        self._has_changed(claim.slot_name)

    def discard(self, claim: Claim) -> None:
        """The claim is over, or was never granted."""
        super().discard(claim)
        self._slices[claim.slice].discard(claim)
        if not self._slices[claim.slice].by_submitter:
            del self._slices[claim.slice]
        name = claim.slot_name
        if self._granted.get(name) is claim:
            del self._granted[name]
            self._has_changed(name)

    def _has_changed(self, slot: str) -> None:
        for changed in self._changed.values():
            changed.add(slot)

    def of_slice(self, name: str, all_slices: Iterable[str]) -> Totals:
        """What the negotiator of that slice is told, beside those of `all_slices`."""
        others = {*all_slices} - {name}
        counted = [totals for slice, totals in self._slices.items() if slice not in others]
        if len(counted) == len(self._slices):
            return self
        found = Totals()
        for totals in counted:
            found.include(totals)
        return found

    def forget(self, who: object) -> None:
        """Who was told the news will not ask again."""
        self._changed.pop(who, None)

    def news(self, who: object, *, anew: bool) -> tuple[dict[str, str], list[str]]:
        """Submitters by slot, and the slots that are held no more, since the last time that `who` was told.

        `anew`: all that are held.
        """
        changed, self._changed[who] = self._changed.get(who, set()), set()
        if anew:
            return {name: claim.submitter for name, claim in self._granted.items()}, []
        held = {name: self._granted[name].submitter for name in changed if name in self._granted}
        return held, [name for name in changed if name not in held]
