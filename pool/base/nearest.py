"""The name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_name(wrong: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is a slip or two away from `wrong`, or None when nothing is close."""
    word = wrong.lower()
    # Short names are all near one another: a hint that is wrong is worse than none.
    allowed = 0 if len(word) < 4 else 1 if len(word) < 6 else 2 if len(word) < 12 else 3
    best: str | None = None
    best_distance = allowed + 1
    for name in names:
        if abs(len(name) - len(word)) >= best_distance:
            continue
        distance = _distance(word, name.lower(), best_distance)
        if distance < best_distance:
            best, best_distance = name, distance
    return best


def _distance(left: str, right: str, limit: int) -> int:
    """How many letters must be changed, added, dropped or swapped with a neighbour; `limit` if that many or more."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if older and i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) >= limit:
            return limit
    return row[-1]
