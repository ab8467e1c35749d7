"""The transfer queue of an access point: whose files move now, when more want to than are let at a time.

Uploads (input) and downloads (output) have a limit each. The next turn goes to the user with the fewest turns in that
direction; of equals, to the one who has waited longest since his last one; of one user's, to the first who asked. A
limit on both together may come from the disk's load. Where somebody waits, a turn that is older than the greatest age
is taken back: what had it asks again, and goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Turn:
    """Somebody who wants to move files, or does. `key` is his name for it."""

    key: str
    user: str
    upload: bool
    size: int
    asked_at: float
    granted_at: float | None = None


@dataclass(frozen=True)
class TransferLimits:
    """How many may move files at a time, 0 for no limit; and after how long one is in the way of others."""

    uploads: int = 100
    downloads: int = 100
    age_s: float = 7200.0

    def of(self, upload: bool) -> int:
        """The limit in one direction."""
        return self.uploads if upload else self.downloads


@dataclass(frozen=True)
class QueueFigures:
    """The queue in numbers, for one direction."""

    moving: int = 0
    waiting: int = 0
    bytes_waiting: int = 0
    waited_s: float = 0.0
    """How long the one who has waited longest has."""


class TransferQueue:
    """Who moves files, and who waits for it."""

    def __init__(self, limits: TransferLimits) -> None:
        self.limits = limits
        self._turns: dict[str, Turn] = {}
        self._moving: Counter[tuple[str, bool]] = Counter()
        self._last: dict[tuple[str, bool], int] = {}
        """When each user was given a turn, in turns."""
        self._given = 0

    def __contains__(self, key: str) -> bool:
        return key in self._turns

    def __iter__(self) -> Iterator[Turn]:
        return iter(list(self._turns.values()))

    def ask(self, turn: Turn) -> None:
        """From now on it waits."""
        self.end(turn.key)
        self._turns[turn.key] = replace(turn, granted_at=None)

    def end(self, key: str) -> Turn | None:
        """It has moved its files, or will not; the turn that it had or waited for."""
        turn = self._turns.pop(key, None)
        if turn is not None and turn.granted_at is not None:
            whose = turn.user, turn.upload
            self._moving[whose] -= 1
            if self._moving[whose] <= 0:
                del self._moving[whose]
        if not self._turns:
            self._last.clear()  # nobody is owed anything
        return turn

    def grant(self, now: float, *, together_max: int | None = None) -> list[Turn]:
        """Hand out the turns that are free, and say to whom; `together_max` is the limit of both directions."""
        granted: list[Turn] = []
        while together_max is None or self._moving.total() < together_max:
            # Output first: it frees a slot, and input fills one.
            turn = self._next(upload=False) or self._next(upload=True)
            if turn is None:
                break
            granted.append(self._give(turn, now))
        return granted

    def _next(self, *, upload: bool) -> Turn | None:
        limit = self.limits.of(upload)
        if limit and sum(count for (_, up), count in self._moving.items() if up is upload) >= limit:
            return None
        waiting = [turn for turn in self._turns.values() if turn.granted_at is None and turn.upload is upload]
        return min(waiting, key=self._claim, default=None)

    def _claim(self, turn: Turn) -> tuple[int, int]:
        """Whoever has least comes first; `min` keeps the order of asking among equals."""
        whose = turn.user, turn.upload
        return self._moving[whose], self._last.get(whose, 0)

    def _give(self, turn: Turn, now: float) -> Turn:
        whose = turn.user, turn.upload
        self._given += 1
        self._last[whose] = self._given
        self._moving[whose] += 1
        self._turns[turn.key] = turn = replace(turn, granted_at=now)
        return turn

    def outworn(self, now: float) -> Turn | None:
        """The oldest turn, where somebody waits and it is too old."""
        if self.limits.age_s <= 0 or all(turn.granted_at is not None for turn in self._turns.values()):
            return None
        moving = [turn for turn in self._turns.values() if turn.granted_at is not None]
        oldest = min(moving, key=lambda turn: turn.granted_at or 0.0, default=None)
        if oldest is None or oldest.granted_at is None or now - oldest.granted_at <= self.limits.age_s:
            return None
        return oldest

    # ---- in numbers

    @property
    def moving(self) -> int:
        """How many turns are taken, in both directions."""
        return self._moving.total()

    @property
    def waits(self) -> bool:
        """Whether somebody waits."""
        return len(self._turns) > self._moving.total()

    def figures(self, now: float, *, upload: bool, user: str | None = None) -> QueueFigures:
        """One direction, of all users or of one."""
        moving = waiting = size = 0
        waited = 0.0
        for turn in self._turns.values():
            if turn.upload is not upload or user not in (None, turn.user):
                continue
            if turn.granted_at is not None:
                moving += 1
            else:
                waiting, size = waiting + 1, size + turn.size
                waited = max(waited, now - turn.asked_at)
        return QueueFigures(moving, waiting, size, waited)

    def users(self) -> set[str]:
        """Whose files move or wait."""
        return {turn.user for turn in self._turns.values()}
