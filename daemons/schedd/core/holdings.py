"""What this schedd holds, as the negotiator is told of it: its slots by name, and what submitters have in all.

Of slots the negotiator hears all at first, and then what has changed. A match counts for its submitter, with what its
jobs use of concurrency limits, from the moment that it is taken: so nobody gets more than he may have while a slot is
being asked for.
"""

from __future__ import annotations

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


class Holdings:
    """Claims, granted or asked for. A slot's next claim may begin before the last one is forgotten."""

    def __init__(self) -> None:
        self._granted: dict[str, Claim] = {}
        self._changed: set[str] = set()
        self.by_submitter: dict[str, Held] = {}
        self.limits: dict[str, float] = {}
        """What running jobs use of concurrency limits."""

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self.by_submitter)

    def reserve(self, claim: Claim) -> None:
        """A match is taken: its slot is asked for."""
        held = self.by_submitter.setdefault(claim.submitter, Held())
        held.slots += 1
        held.weight += claim.weight
        for name, amount in claim.limits.items():
            self.limits[name] = self.limits.get(name, 0.0) + amount

    def grant(self, claim: Claim, slot: ClassAd) -> None:
        """A claim that was asked for is granted; its slot may weigh something else than the match promised."""
        weight = weight_of(slot)
        self.by_submitter[claim.submitter].weight += weight - claim.weight
        claim.weight = weight
        self._granted[claim.slot_name] = claim
        self._changed.add(claim.slot_name)

    def discard(self, claim: Claim) -> None:
        """The claim is over, or was never granted."""
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
        name = claim.slot_name
        if self._granted.get(name) is claim:
            del self._granted[name]
            self._changed.add(name)

    def news(self, *, anew: bool) -> tuple[dict[str, str], list[str]]:
        """Submitters by slot, and the slots that are held no more, since the last time; `anew`: all that are held."""
        changed, self._changed = self._changed, set()
        if anew:
            return {name: claim.submitter for name, claim in self._granted.items()}, []
        held = {name: self._granted[name].submitter for name in changed if name in self._granted}
        return held, [name for name in changed if name not in held]
