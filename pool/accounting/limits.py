"""Concurrency limits: how much of a pool-wide resource, such as licenses, running jobs may use together.

A job names what it uses (ConcurrencyLimits = "XSW, FILESERVER:3"); the central manager says how much there is. A name
may have a set before a period, whose default then counts. Names do not differ by case.

Source: HTCondor manual, "Configuration for Central Managers" (concurrency limits), and "Configuration Macros"
(<NAME>_LIMIT, CONCURRENCY_LIMIT_DEFAULT, CONCURRENCY_LIMIT_DEFAULT_<NAME>).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pool.base.words import split_list
from pool.classad import ClassAd, Expr
from pool.classad.syntax.parse import literal_of

Limits = Mapping[str, float]
"""Amounts by name, in lower case."""
NONE: Final[Limits] = {}
TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LimitTable:
    """How much there is: by name, by set, and of all others."""

    limits: Limits = field(default_factory=dict)
    sets: Limits = field(default_factory=dict)
    default: float = math.inf

    def limits_anything(self) -> bool:
        """Whether any job may have to wait for a limit."""
        return bool(self.limits or self.sets) or self.default < math.inf

    def capacity(self, name: str) -> float:
        """How much there is of this limit."""
        known = self.limits.get(name)
        if known is not None:
            return known
        of_all, point, _ = name.partition(".")
        return self.sets.get(of_all, self.default) if point else self.default


def parse_limits(text: str) -> dict[str, float]:
    """What a list of limits asks for; an amount that is no number over 0 counts as 1, as HTCondor has it."""
    wanted: dict[str, float] = {}
    for item in split_list(text):
        name, _, said = item.partition(":")
        try:
            amount = float(said)
        except ValueError:
            amount = 1.0
        if not (math.isfinite(amount) and amount > 0):
            amount = 1.0
        key = name.strip().lower()
        wanted[key] = wanted.get(key, 0.0) + amount
    return wanted


def limits_of(job: ClassAd, slot: ClassAd | None) -> dict[str, float]:
    """What the job uses of limits on this slot."""
    if "ConcurrencyLimits" not in job:
        return {}
    text = job.eval_str("ConcurrencyLimits", "", slot)
    return parse_limits(text or "")


def differ_by_slot(job: ClassAd) -> bool:
    """Whether the limits that a job uses are an expression, which may depend on the slot."""
    said = job.get("ConcurrencyLimits")
    return isinstance(said, Expr) and literal_of(said.node) is None


def exceeded(wanted: Limits, used: Limits, capacity: Callable[[str], float]) -> str:
    """The limit that the wanted amounts, beside those used, would exceed; empty when none."""
    for name, amount in wanted.items():
        if used.get(name, 0.0) + amount > capacity(name) + TOLERANCE:
            return name
    return ""
