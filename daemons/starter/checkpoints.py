"""A job's checkpoints: when the agent gets one to keep, and who hears of it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from daemons.faults import fault
from daemons.log import Log
from daemons.starter.figures import Figures
from daemons.starter.leaving import Leaving
from daemons.starter.link import Link
from daemons.starter.result import Result
from daemons.starter.transfer import FileMover, Held
from pool.classad import ClassAd
from pool.errors import PeerError
from pool.execute.checkpoint import is_checkpoint, kept_on_eviction
from pool.execute.exit import Exited, Hold
from pool.execute.transfer import Stamp
from pool.hooks.ads import Executed
from pool.jobs.codes import HoldCode
from protocol.messages.schedd import Ending, JobNotice, JobUpdate
from protocol.messages.starter import RunJob


class Checkpoints:
    """Of a job whose files `mover` moves; what was in its sandbox at first is in `before`."""

    def __init__(
        self, request: RunJob, mover: FileMover, before: Mapping[str, Stamp], figures: Figures, link: Link, log: Log
    ) -> None:
        self._request, self._mover, self._before = request, mover, before
        self._figures, self._link, self._log = figures, link, log

    async def keep(self, job: ClassAd) -> None:
        """Keep the checkpoint that the program has ended for; Held when it cannot be kept at all."""
        try:
            await self._push(job)
        except Held as error:
            reason = f"Starter failed to upload checkpoint: {error.hold.reason}"
            raise Held(Hold(reason, HoldCode.FAILED_TO_CHECKPOINT, error.hold.subcode)) from None

    async def keep_for_later(self, job: ClassAd, executed: Executed | None, leaving: Leaving) -> None:
        """The job has to leave: what it has so far is kept, if it wants that and there is the time."""
        if leaving.told is None or leaving.at_once or not self._figures.has_begun:
            return
        if _is_for_one(job, executed) or kept_on_eviction(job, leaving.told.cause):
            await self._push(job)

    async def _push(self, job: ClassAd) -> None:
        """Have the agent keep it, and say so; one that it does not take is made up for by the next."""
        number = (job.eval_int("CheckpointNumber", -1) or 0) + 1
        request = self._request
        try:
            size = await self._mover.push_checkpoint(self._before, number)
        except (PeerError, OSError) as error:
            self._log.always("A checkpoint was not kept", number=number, error=str(error))
            message = f"Checkpoint {number} was not kept: {error}"
            await self._link.notice(JobNotice(job_id=request.job_id, activation=request.activation, message=message))
            return
        self._log.always("A checkpoint is kept", number=number, bytes=size)
        fault("starter.checkpoint_kept")
        job["CheckpointNumber"] = number
        ad = self._figures.usage.ad()
        ad.update({"CheckpointNumber": number, "LastCkptTime": int(time.time()), "BytesSent": float(size)})
        await self._link.update(JobUpdate(job_id=request.job_id, activation=request.activation, ad=ad))


def has_made_one(job: ClassAd, result: Result, executed: Executed | None) -> bool:
    """Whether the program has ended only to be started again."""
    return result.ending is Ending.EXITED and _is_for_one(job, executed)


def _is_for_one(job: ClassAd, executed: Executed | None) -> bool:
    end = executed.end if executed is not None else None
    return isinstance(end, Exited) and is_checkpoint(job, end)
