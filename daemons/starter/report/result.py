"""How an activation ends: what the schedd is told of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pool.classad import ClassAd
from pool.execute.exit import Hold
from protocol.messages.schedd import Ending


@dataclass(frozen=True)
class Result:
    """How an activation ended."""

    ending: Ending
    ad: ClassAd = field(default_factory=ClassAd)
    reason: str = ""

    @classmethod
    def held(cls, hold: Hold) -> Result:
        """The job waits until somebody has mended what was wrong."""
        return cls(Ending.HOLD, hold.ad(), hold.reason)
