"""A job's checkpoints: when the agent gets one to keep, and who hears of it."""

from __future__ import annotations

import time
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.base.log import Log
from daemons.starter.files.outputs import Outputs
from daemons.starter.report.local_link import Link
from daemons.starter.report.result import ActivationResult, HoldJob
from daemons.starter.watch.figures import Figures
from daemons.starter.watch.leaving import Leaving
from pool.base.errors import PeerError
from pool.classad import ClassAd
from pool.execute import vm
from pool.execute.criu import FAILED, LAST_PLATFORM, PLATFORM, wants_criu
from pool.execute.exit import Exited, Hold
from pool.files.checkpoint import is_checkpoint, kept_on_eviction
from pool.hooks.ads import Executed
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.shadow import JobNotice, JobUpdate
from protocol.messages.starter import RunJob

CONNECTED_S: Final = 10.0
"""How long the schedd is waited for that is to hear of a checkpoint."""


class Checkpoints:
    """Of a job whose `outputs` are kept."""

    def __init__(self, request: RunJob, outputs: Outputs, figures: Figures, link: Link, log: Log) -> None:
        self._request, self._outputs = request, outputs
        self._figures, self._link, self._log = figures, link, log
        self._kept: Executed | None = None
        """The run whose checkpoint is kept."""

    async def keep(self, job: ClassAd, executed: Executed | None) -> None:
        """Keep the checkpoint that the program has ended for; Held when it cannot be kept at all."""
        try:
            if await self.push(job):
                self._kept = executed
        except HoldJob as error:
            reason = f"Starter failed to upload checkpoint: {error.hold.reason}"
            raise HoldJob(Hold(reason, HoldCode.FAILED_TO_CHECKPOINT, error.hold.subcode)) from None

    async def keep_for_later(self, job: ClassAd, executed: Executed | None, leaving: Leaving) -> None:
        """The job has to leave: what it has so far is kept, if it wants that and there is the time."""
        if leaving.told is None or leaving.at_once or not self._figures.has_begun or executed is self._kept:
            return
        if _is_for_one(job, executed) or kept_on_eviction(job, leaving.told.cause):
            await self.push(job)

    async def push(self, job: ClassAd) -> bool:
        """Have the agent keep it, and say so; one that it does not take is made up for by the next."""
        number = (job.eval_int("CheckpointNumber", -1) or 0) + 1
        request = self._request
        try:
            size = await self._outputs.push_checkpoint(number)
        except (PeerError, OSError) as error:
            self._log.always("A checkpoint was not kept", number=number, error=str(error))
            message = f"Checkpoint {number} was not kept: {error}"
            await self._link.notice(JobNotice(job_id=request.job_id, activation=request.activation, message=message))
            if wants_criu(job):
                failed = ClassAd({FAILED: message})
                await self._link.update(JobUpdate(job_id=request.job_id, activation=request.activation, ad=failed))
            return False
        self._log.always("A checkpoint is kept", number=number, bytes=size)
        fault("starter.checkpoint_kept")
        # Here too: a later checkpoint of this run must not have the same number.
        job["CheckpointNumber"] = number
        ad = self._figures.usage.ad()
        ad.update({"CheckpointNumber": number, "LastCkptTime": int(time.time()), "BytesSent": float(size)})
        if wants_criu(job):
            job[LAST_PLATFORM] = ad[LAST_PLATFORM] = request.slot_ad.eval_str(PLATFORM) or ""
        elif vm.keeps_state(job):
            job[vm.LAST_PLATFORM] = ad[vm.LAST_PLATFORM] = request.slot_ad.eval_str(vm.PLATFORM) or ""
        with trio.move_on_after(CONNECTED_S):  # a starter that has just woken has no connection yet
            await self._link.peer()
        await self._link.update(JobUpdate(job_id=request.job_id, activation=request.activation, ad=ad))
        return True


def has_made_one(job: ClassAd, result: ActivationResult, executed: Executed | None) -> bool:
    """Whether the program has ended only to be started again."""
    return result.ending is Ending.EXITED and _is_for_one(job, executed)


def _is_for_one(job: ClassAd, executed: Executed | None) -> bool:
    end = executed.end if executed is not None else None
    return isinstance(end, Exited) and is_checkpoint(job, end)
