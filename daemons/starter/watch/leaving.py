"""Whether the job has been told to leave, how soon, and as what its end then counts."""

from __future__ import annotations

from typing import Final

from daemons.base.sync import Signal
from daemons.starter.report.result import ActivationResult
from pool.classad import ClassAd
from pool.execute.exit import Hold
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.starter import StopJob

VACATE_DEFAULT_S: Final = 600.0


class Leaving:
    """What one activation was told; told again, the harder way counts."""

    def __init__(self) -> None:
        self.told: StopJob | None = None
        self._changed = Signal()

    def tell(self, request: StopJob) -> bool:
        """Whether that is news."""
        if self.told is not None and (request.how is not StopHow.FAST or self.at_once):
            return False
        self.told = request
        self._changed.fire()
        return True

    @property
    def at_once(self) -> bool:
        """Whether nothing may take time any more."""
        return self.told is not None and self.told.how is StopHow.FAST

    async def until_told(self) -> StopJob:
        """Wait for it."""
        while self.told is None:
            await self._changed.wait()
        return self.told

    async def until_at_once(self) -> None:
        """Wait for the harder way."""
        await self._changed.until(lambda: self.at_once)

    def result(self) -> ActivationResult:
        """The end of a job that left because it was told to."""
        told = self.told
        if told is not None and told.hold_code:
            return ActivationResult.held(Hold(told.reason, told.hold_code, told.hold_subcode))
        return ActivationResult(Ending.EVICTED, reason=told.reason if told is not None else "")


def vacate_s(request: StopJob, job: ClassAd) -> float:
    """How long the job may take to leave."""
    if request.vacate_s is not None:
        return request.vacate_s
    asked = job.eval_float("JobMaxVacateTime")
    return VACATE_DEFAULT_S if asked is None else max(0.0, asked)
