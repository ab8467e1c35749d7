"""How often work that comes round again is done, so that it takes no more than its share of the time."""

from __future__ import annotations


def interval_s(spent_s: float, share: float, *, least_s: float, most_s: float) -> float:
    """The pause after a round that took `spent_s`: within its bounds, that which keeps the work to its share."""
    wanted = spent_s / share if share > 0 else least_s
    return max(least_s, min(wanted, most_s))
