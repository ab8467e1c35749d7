"""Jobs that go along with one that is removed: those that its OtherJobRemoveRequirements says, of the same user.

The job of a graph of jobs has it, and takes its nodes' jobs along; a graph within it is such a job itself.
(condor_rm; HTCondor's schedd does the same in removeOtherJobs.)
"""

from __future__ import annotations

from contextlib import aclosing

from daemons.base.pace import Pace
from daemons.schedd.core.core import Core
from daemons.schedd.core.selection import any_of
from pool.base.errors import ClassAdError
from pool.jobs.queue.cluster import Job
from pool.jobs.queue.pack import lower_names
from pool.jobs.vocabulary.states import OVER
from protocol.messages.schedd import Selection

ATTRIBUTE = "OtherJobRemoveRequirements"
_NAMES = lower_names(ATTRIBUTE)


class Along:
    """Removes them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def removed(self, job: Job) -> None:
        """The job has been removed: so are those that go along."""
        # Nearly no job has it, and to make an ad is dear.
        if _NAMES.isdisjoint(job.cluster.ad.attrs) and not job.may_have(_NAMES):
            return
        wanted = self._core.queue.ad(job).eval_str(ATTRIBUTE)
        if wanted:
            self._core.tasks.start(self._remove, job, wanted)

    async def _remove(self, job: Job, wanted: str) -> None:
        core, pace = self._core, Pace()
        reason = f"removed because <{ATTRIBUTE} = {wanted}> fired when job ({job.id}) was removed"
        try:
            chosen = any_of(Selection(constraint=wanted))
        except ClassAdError as error:
            core.log.always(f"{ATTRIBUTE} of job {job.id} cannot be read, no job is removed with it: {error}")
            return
        async with aclosing(chosen.find(core.queue)) as others:
            async for other in others:
                # Only what the user could remove himself: whose job it is decides, not what the expression says.
                if other.cluster.user == job.cluster.user and other.status not in OVER:
                    core.remove(other, reason)
                await pace.breathe()
        await core.writer.durable()
