"""How long a connection may be silent: when it is asked for a sign of life, and when it is taken for lost.

Whoever has heard or said nothing for a third of the time that the other side may be silent pings it, and gives it up
when nothing at all comes in the other two thirds. A connection that `may_rest` is pinged more seldom while nothing is
under way on it: of ten thousand running jobs nearly all are quiet, and others tell when their host is gone.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

SILENCE_S: Final = 30.0


class Due(Enum):
    """What a connection's silence calls for."""

    NOTHING = "nothing"
    PING = "ask the other side for a sign of life"
    END = "the other side is gone"


class Silence:
    """The silence of one connection, at the time `now`.

    `most_s`: how long the other side may be silent; None for one that reads only while it waits for an answer, which is
    pinged so that it knows that we are there.
    """

    __slots__ = ("asked_at", "heard_at", "look_at", "most_s", "rest_s")

    def __init__(self, most_s: float | None, now: float) -> None:
        self.most_s = most_s
        self.heard_at = self.asked_at = now
        """When something came last, and when it was asked for a sign of life."""
        self.look_at = now
        """Before that nobody need ask what is due: a connection that rests is looked at more seldom, too."""
        self.rest_s = 0.0

    def may_rest(self, rest_s: float) -> None:
        """While nothing is under way nothing need be said for so long."""
        self.rest_s = rest_s

    def doubt(self, now: float) -> bool:
        """It may be gone: whether it is to be asked for a sign of life now."""
        if self.most_s is None or self.is_asked:
            return False
        self.asked_at = self.look_at = now
        return True

    @property
    def is_asked(self) -> bool:
        """Whether a sign of life is waited for."""
        return self.asked_at > self.heard_at

    def due(self, now: float, *, said_at: float, is_resting: bool) -> Due:
        """What is due. `is_resting`: nothing is under way on the connection, which has said something at `said_at`."""
        rests = is_resting and self.rest_s > 0 and not self.is_asked
        self.look_at = now + SILENCE_S if rests else now
        if self.most_s is None:
            return Due.PING if now - said_at >= SILENCE_S / 3 else Due.NOTHING
        usual_s = self.most_s / 3
        if self.is_asked:
            return Due.END if now - self.asked_at >= 2 * usual_s else Due.NOTHING
        quiet_s = now - min(self.heard_at, said_at)
        if quiet_s < (max(usual_s, self.rest_s) if rests else usual_s):
            return Due.NOTHING
        self.asked_at = self.look_at = now
        return Due.PING
