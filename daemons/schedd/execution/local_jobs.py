"""Jobs of the local and the scheduler universe: they run at the access point, with no slot, as their owner.

Beside each runs one process (`local_job`) that starts it and sees it out. A job waits here, not among those that
want slots, until its time has come, START_LOCAL_UNIVERSE or START_SCHEDULER_UNIVERSE holds, and so do its
Requirements, for which the schedd's ad stands in the place of a machine's. A schedd that is stopped has these jobs
leave first, and one that dies takes them along; the next schedd runs them again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.pace import Pace
from daemons.daemon_core.run import DaemonStart
from daemons.host import sandbox
from daemons.schedd.core.core import DEAR_MOST, Core
from daemons.schedd.execution.local_run import LocalRun, Place, end_marked, universe
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.classad.eval.budget import Overruns, TooDear
from pool.classad.values.truth import is_true
from pool.jobs.deferral import MISSED, DeferralError, Late, deferral_of
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.hold_codes import HoldCode, VacateCode
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe
from protocol.messages.common import StopHow
from protocol.rpc.deadlines import LongWait

if TYPE_CHECKING:
    from daemons.daemon_core.world import ZygoteLike

LOOK_S: Final = 60.0
"""The longest wait before jobs that may not start yet are looked at again."""
MARK: Final = "_CONDOR_LOCAL_JOB_OF"
_MACHINE: Final = {"Arch": "ARCH", "OpSys": "OPSYS", "OpSysVer": "OPSYSVER", "OpSysAndVer": "OPSYSANDVER"}


class LocalJobs:
    """Jobs of these universes that wait, and that run."""

    def __init__(self, core: Core, zygote: ZygoteLike, own_ad: Callable[[], ClassAd]) -> None:
        self.core = core
        self._own_ad = own_ad
        directory = Path(core.start.config.path("LOCAL_UNIV_EXECUTE"))
        no_set_user_id = core.start.config.bool("DISABLE_SETUID")
        self._runs_at = Place(core, zygote, directory, f"{MARK}={core.start.run_dir}", no_set_user_id)
        self._waiting: dict[Job, None] = {}
        self._launched = trio.Event()  # of the job that was begun last
        self._launched.set()
        self._wake = trio.Event()
        self._here: ClassAd | None = None  # what jobs see of the access point, until one of them starts
        self._ending = False
        self._is_clear = False
        """Nothing is left of what an earlier schedd ran here."""
        self._all_over = trio.Event()

    def waits_here(self, job: Job) -> None:
        """The job would like to run."""
        self._waiting[job] = None
        self._wake.set()

    def one_is_over(self) -> None:
        """One that ran has ended: another may start."""
        self._wake.set()
        if self._ending and not self.core.executions.local:
            self._all_over.set()

    async def end(self, start: DaemonStart) -> None:
        """Start no more jobs, and see out those that run, as urgently as the schedd is to end."""
        self._ending = True
        if not self.core.executions.local:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_them, start)
            await self._all_over.wait()
            nursery.cancel_scope.cancel()

    async def _tell_them(self, start: DaemonStart) -> None:
        """Let jobs finish, ask them to leave or end them, whenever the schedd's own stop gets that urgent."""
        for how in (StopHow.GRACEFUL, StopHow.FAST):
            urgent = await start.stopping(at_least=how) is StopHow.FAST
            for execution in list(self.core.executions.local.values()):
                execution.stop("The schedd is stopping", VacateCode.SCHEDD_VACATE, 0, fast=urgent)

    async def run(self) -> None:
        """Start jobs as soon as they may."""
        if not self._is_clear:
            await self.core.start.world.threads.run_sync(clear, self._runs_at.directory, self._runs_at.mark)
            self._is_clear = True
        while True:
            self._wake, wait_s, pace = trio.Event(), LOOK_S, Pace()
            self._here = None
            for job in sorted(self._waiting, key=self._place):
                try:
                    wait_s = min(wait_s, self._consider(job))
                except Exception as error:
                    self._waiting.pop(job, None)
                    self.core.give_up(job, error)
                await pace.breathe()
            with LongWait(wait_s):
                await self._wake.wait()

    def _place(self, job: Job) -> tuple[int, JobId]:
        """Jobs of higher priority start first, those of equal priority as they were submitted."""
        return -self.core.queue.ad(job).eval_int("JobPrio", 0), job.id

    def _consider(self, job: Job) -> float:
        """Start the job if it may; else how many seconds there are until it is worth another look."""
        core = self.core
        if job.cluster.jobs.get(job.proc) is not job or job.status is not JobStatus.IDLE or job.busy:
            del self._waiting[job]
            return LOOK_S
        ad = core.queue.ad(job)
        try:
            deferral = deferral_of(ad)
        except DeferralError as error:
            core.hold(job, f"Invalid deferral: {error}", HoldCode.MISSED_DEFERRED_EXECUTION_TIME)
            return LOOK_S
        if deferral is not None:
            late = deferral.judge(core.now())
            if late is Late.WAIT:
                return max(0.0, deferral.left(core.now()))
            if late is Late.MISSED:
                core.hold(job, MISSED, HoldCode.MISSED_DEFERRED_EXECUTION_TIME)
                return LOOK_S
        try:
            with Overruns(DEAR_MOST):
                may_start = self._may_start(ad)
        except TooDear as error:
            core.hold(job, f"Whether the job may start cannot be said: {error}", HoldCode.EXPRESSION_TOO_COSTLY)
            return LOOK_S
        if self._ending or not may_start or self._has_enough(job):
            return LOOK_S
        del self._waiting[job]
        self._here = None  # one more runs
        execution = LocalRun(self._runs_at, job, self._launched, self.one_is_over)
        self._launched = execution.launched
        core.executions.local[job] = execution
        core.queue.set_busy(job, True)
        core.tasks.start(execution.run, failed=execution.failed)
        return LOOK_S

    def _has_enough(self, job: Job) -> bool:
        """Whether as many of its owner's scheduler universe jobs run as may."""
        if universe(job.cluster.ad) != Universe.SCHEDULER:
            return False
        running = (one.cluster for one in self.core.executions.local)
        mine = sum(one.owner == job.cluster.owner and universe(one.ad) == Universe.SCHEDULER for one in running)
        return mine >= self.core.settings.scheduler_jobs_per_owner_max

    def _may_start(self, ad: ClassAd) -> bool:
        """Whether the access point takes the job, and the job the access point."""
        word = "LOCAL" if universe(ad) == Universe.LOCAL else "SCHEDULER"
        wanted = self.core.start.config.expr(f"START_{word}_UNIVERSE")
        if self._here is None:
            self._here = self._access_point()
        here = self._here
        if wanted is not None:
            value = wanted.eval(here, ad)
            if not is_true(value):
                return False
        return "Requirements" not in ad or ad.eval_bool("Requirements", False, here)

    def _access_point(self) -> ClassAd:
        """What the Requirements of these jobs see: the schedd's ad, and what of a machine's ad this host has."""
        ad, config = self._own_ad(), self.core.start.config
        for name, knob in _MACHINE.items():
            ad[name] = config.str(knob, default="")
        ad["Cpus"], ad["Memory"] = config.int("DETECTED_CPUS"), config.int("DETECTED_MEMORY")
        directory = self._runs_at.directory
        place = next(place for place in (directory, *directory.parents) if place.exists())
        ad["Disk"] = shutil.disk_usage(place).free // 1024
        return ad


def clear(directory: Path, mark: str) -> None:
    """End what an earlier schedd's jobs left behind, and remove their directories."""
    end_marked(mark)
    for path in directory.glob("*") if directory.is_dir() else ():
        sandbox.remove(str(path))
