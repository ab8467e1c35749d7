"""How an activation ends: what the schedd is told of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pool.classad import ClassAd
from pool.execute.exit import Hold
from pool.jobs.vocabulary.endings import Ending


@dataclass(frozen=True)
class ActivationResult:
    """How an activation ended."""

    ending: Ending
    ad: ClassAd = field(default_factory=ClassAd)
    reason: str = ""

    @classmethod
    def held(cls, hold: Hold) -> ActivationResult:
        """The job waits until somebody has mended what was wrong."""
        return cls(Ending.HOLD, hold.ad(), hold.reason)


class HoldJob(Exception):
    """The activation ends here: the job is put on hold, for a person must look."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(hold.reason)
        self.hold = hold
