"""Asks the policy of every job now and then, and lets go what may leave: the part of the schedd that a clock drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.schedd.core.core import CRONTAB, Core, has_crontab, runs_by_crontab
from pool.base.timeslice import interval_s
from pool.classad import ClassAd
from pool.classad.values.limits import DEAR_CPU
from pool.jobs import policy
from pool.jobs.changes import Changes
from pool.jobs.policy import Decision, PolicyAction
from pool.jobs.queue import history
from pool.jobs.queue.cluster import Cluster, Job, any_may_have
from pool.jobs.queue.pack import lower_names
from pool.jobs.queue.store import open_beside
from pool.jobs.vocabulary.states import OVER, JobStatus

PRUNE_S: Final = 600.0
PRUNE_PAUSE_S: Final = 0.05
"""Between steps: a commit that waits for one gets its turn."""
ALIKE_MIN: Final = 16
"""Jobs of a cluster for which it is worth finding out what their policy reads."""
DEAR_ROUND_S: Final = 1.0
"""Processor time that one owner's jobs may take in a round with policies that cost much, each of them alone; however
many have policies that cost little, all are asked."""
_WAITING: Final = (JobStatus.IDLE, JobStatus.HELD)
_POLICY: Final = lower_names(*policy.POLICY)


class PolicyTimer:
    """The tasks that wake up by themselves."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def run(self) -> None:
        """Evaluate all jobs' policies every PERIODIC_EXPR_INTERVAL, or less often when that takes too much time."""
        spent_s = 0.0
        while True:
            settings = self._core.settings
            least_s, most_s = settings.periodic_s, settings.periodic_max_s
            pause_s = interval_s(spent_s, settings.periodic_share, least_s=least_s, most_s=most_s)
            await trio.sleep(pause_s if least_s > 0 else 3600.0)
            if least_s > 0:
                began = self._core.start.world.cpu()
                await self.round()
                spent_s = self._core.start.world.cpu() - began

    async def round(self) -> None:
        """One evaluation of every job that has a policy."""
        core, pace = self._core, Pace()
        dear: dict[str, float] = {}
        cpu = core.start.world.cpu
        reads: frozenset[str] | None = None
        ad: ClassAd | None = None
        for page in core.queue.pages():
            await pace.breathe()
            cluster = page[0].cluster
            if len(page) < ALIKE_MIN:
                ad, reads = None, None
            elif cluster.ad is not ad:
                ad, reads = cluster.ad, policy.reads(cluster.ad, core.settings.system)
            for job in page if reads is None else self._left_to_ask(page, reads):
                await pace.breathe()
                if job.cluster.jobs.get(job.proc) is not job:
                    continue
                if self._may_act(job) and dear.get(job.cluster.owner, 0.0) < DEAR_ROUND_S:
                    began = cpu()
                    try:
                        self.look_at(job)
                    except Exception as error:
                        core.give_up(job, error)
                    took_s = cpu() - began
                    # Only what is dear counts: a user with many jobs of cheap policies has all of them asked.
                    if took_s > DEAR_CPU:
                        dear[job.cluster.owner] = dear.get(job.cluster.owner, 0.0) + took_s
                if self._has_crontab(job) and core.missed_its_run(job):
                    core.resort(job)

    async def set_clocks(self) -> None:
        """Find out anew when jobs with a crontab run next: the time zone may be another one."""
        core, pace = self._core, Pace()
        for page in core.queue.pages():
            for job in page:
                await pace.breathe()
                if job.group is not None and self._has_crontab(job):
                    core.resort(job)

    def _left_to_ask(self, page: Sequence[Job], reads: frozenset[str]) -> Sequence[Job]:
        """The jobs of a page whose policy may want something: one is asked for all that wait and look alike to it."""
        core, cluster = self._core, page[0].cluster
        wait = [job for job in page if job.status in _WAITING and not job.has_ad and not job.busy]
        if not wait or runs_by_crontab(cluster) or any_may_have(wait, CRONTAB) or any_may_have(wait, reads):
            return page
        if _is_trivial(cluster) and not core.settings.system:
            return [job for job in page if job.status not in _WAITING or job.has_ad or job.busy]
        asked = {status: next((job for job in wait if job.status is status), None) for status in _WAITING}
        # Jobs that look alike to the policy get the same answer; where one is quiet, all are.
        quiet = {
            status
            for status, job in asked.items()
            if job is not None and policy.periodic(core.queue.ad(job), status, core.now(), core.settings.system) is None
        }
        return [job for job in page if job.status not in quiet or job.has_ad or job.busy]

    def _may_act(self, job: Job) -> bool:
        """Whether the job's policy could do anything."""
        return (
            bool(self._core.settings.system)
            or job.status in OVER
            or not _is_trivial(job.cluster)
            or (not policy.is_trivial(self._core.queue.ad(job)) if job.has_ad else job.may_have(_POLICY))
        )

    def _has_crontab(self, job: Job) -> bool:
        if job.has_ad:
            return has_crontab(self._core.queue.ad(job))
        return runs_by_crontab(job.cluster) or job.may_have(CRONTAB)

    def look_at(self, job: Job) -> None:
        """Do what the job's policy wants."""
        core = self._core
        ad = core.queue.ad(job)
        execution = core.executions.of(job)
        if job.status in OVER and not job.busy and execution is None:
            if ad.eval_bool("LeaveJobInQueue", False):
                return
            core.leave(job)
            return
        if execution is not None:
            execution.check_policy()
            return
        if job.status in OVER or job.busy:
            return
        decision = policy.periodic(ad, job.status, core.now(), core.settings.system)
        if decision is not None:
            self._carry_out(job, decision)

    def _carry_out(self, job: Job, decision: Decision) -> None:
        core = self._core
        if decision.action is PolicyAction.HOLD and job.status is JobStatus.HELD:
            attributes = {"HoldReason": decision.reason, "HoldReasonCode": decision.code, "HoldReasonSubCode": 0}
            core.apply(job, Changes(attributes))
        elif decision.action is PolicyAction.HOLD:
            core.hold(job, decision.reason, decision.code, decision.subcode)
        elif decision.action is PolicyAction.RELEASE:
            core.release(job, decision.reason)
        elif decision.action is PolicyAction.REMOVE:
            core.remove(job, decision.reason)

    async def prune_history(self, path: str) -> None:
        """Keep the history within its bounds, over a connection of its own to the queue's file."""
        core, threads = self._core, self._core.start.world.threads
        beside = await threads.run_sync(open_beside, path)
        try:
            while True:
                await trio.sleep(PRUNE_S)
                steps, forgot = history.prune(beside, core.settings.history_rows_max), 0
                while (gone := await threads.run_sync(next, steps, None)) is not None:
                    forgot += gone
                    await trio.sleep(PRUNE_PAUSE_S)
                if forgot:
                    core.log.full(f"Forgot {forgot} jobs of the history.")
        finally:
            beside.close()


def _is_trivial(cluster: Cluster) -> bool:
    if cluster.periodic is None:
        cluster.periodic = not policy.is_trivial(cluster.ad)
    return not cluster.periodic
