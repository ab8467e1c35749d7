"""STARTD_LATCH_EXPRS: since when an expression of a slot's ad has the value that it has.

A latch is looked at whenever the ad is made anew. `<name>Value` is its last value as a whole number, `<name>Time` when
that changed; an expression without such a value shows nothing, but the time when it lost it is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pool.classad import ClassAd
from pool.classad.values.value import whole_number


@dataclass(frozen=True, slots=True)
class Latch:
    """The last value (None: it had none) and the wall clock of its last change."""

    value: int | None = None
    changed_at: float = 0.0


def look(latches: Mapping[str, Latch], names: Iterable[str], ad: ClassAd, *, now: float) -> dict[str, Latch]:
    """The latches after a look at the ad."""
    seen: dict[str, Latch] = {}
    for name in names:
        value = ad.eval(name) if name in ad else None
        number = whole_number(value)
        last = latches.get(name, Latch())
        seen[name] = last if number == last.value else Latch(number, now)
    return seen


def latch_attributes(latches: Mapping[str, Latch], expressions: Iterable[str]) -> dict[str, int]:
    """What the ad shows: the values of those that are expressions of the configuration, and the times of all."""
    with_value = {name.lower() for name in expressions}
    shown: dict[str, int] = {}
    for name, latch in latches.items():
        if latch.value is not None and name.lower() in with_value:
            shown[f"{name}Value"] = latch.value
        if latch.value is not None and latch.changed_at:
            shown[f"{name}Time"] = int(latch.changed_at)
    return shown
