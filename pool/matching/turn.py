"""A turn of a cycle: some submitters, and how much they may get together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from pool.accounting.groups import ROOT_NAME, Group
from pool.matching.submitters import Submitter

TOLERANCE: Final = 1e-9
"""How far apart sums of the same weights may be."""


@dataclass(slots=True)
class Turn:
    """The submitters of a group, or all. Amounts are weights; `given` grows as they get slots."""

    members: Sequence[Submitter]
    group: Group | None = None
    left: float = inf
    """How much they may get in this turn."""
    size: float = inf
    """How much they may hold in all."""
    given: float = 0.0
    due: Mapping[str, float] | None = None
    """What each submitter is due, once somebody has asked."""
    why: str = ""
    """What bounds it, where that is not the group's own quota."""

    def exceeded(self, weight: float) -> str:
        """Why nobody may get this much; empty when somebody may."""
        if self.given + weight <= self.left + TOLERANCE:
            return ""
        return self.why or used_up(self.group, self.size)

    def over(self) -> str:
        """Why nobody gets anything more; empty while somebody may."""
        return self.exceeded(2 * TOLERANCE)


def used_up(group: Group | None, size: float) -> str:
    """The reason why nobody of a group gets more."""
    name = group.name if group is not None else ""
    if name == ROOT_NAME:
        return f"the quotas of groups leave no more than {size:g} to those who are in none"
    return f"the quota of the group {name} allows no more than {size:g}"
