"""Asks the policy of every job now and then, and lets go what may leave: the part of the schedd that a clock drives."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import trio

from daemons.pace import Pace
from daemons.schedd.core import Core, has_crontab
from pool.classad import ClassAd
from pool.classad.limits import DEAR_CPU
from pool.jobs import history, policy
from pool.jobs.job_queue import Cluster, Job, mention
from pool.jobs.policy import Action, Decision
from pool.jobs.run import Changes
from pool.jobs.states import OVER, JobStatus
from pool.timeslice import interval_s

PRUNE_S: Final = 600.0
ALIKE_MIN: Final = 16
"""Jobs of a cluster for which it is worth finding out what their policy reads."""
DEAR_ROUND_S: Final = 1.0
"""Processor time that one owner's jobs may take in a round with policies that cost much, each of them alone; however
many have policies that cost little, all are asked."""
_WAITING: Final = (JobStatus.IDLE, JobStatus.HELD)
_OWN_POLICY: Final = ('"Periodic', '"TimerRemove', '"DeferralTime', '"Allowed', '"LeaveJobInQueue', '"x":', '"n":')


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
        changed = False
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
                    changed |= self.look_at(job)
                    took_s = cpu() - began
                    if took_s > DEAR_CPU:
                        dear[job.cluster.owner] = dear.get(job.cluster.owner, 0.0) + took_s
                if self._has_crontab(job) and core.missed_its_run(job):
                    core.resort(job)
        if changed:
            core.writer.soon()

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
        if not wait or self._has_crontab(wait[0]) or mention(wait, [*(f'"{name}":' for name in reads), '"cron']):
            return page
        if _is_trivial(cluster) and not core.settings.system:
            return [job for job in page if job.status not in _WAITING or job.has_ad or job.busy]
        asked = {status: next((job for job in wait if job.status is status), None) for status in _WAITING}
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
            or any(word in job.packed for word in _OWN_POLICY)
        )

    @staticmethod
    def _has_crontab(job: Job) -> bool:
        cluster = job.cluster
        if cluster.crontab is None:
            cluster.crontab = has_crontab(cluster.ad)
        return cluster.crontab or '"Cron' in job.packed

    def look_at(self, job: Job) -> bool:
        """Do what the job's policy wants; whether that was anything."""
        core = self._core
        ad = core.queue.ad(job)
        execution = core.execution_of(job)
        if job.status in OVER and not job.busy and execution is None:
            if ad.eval_bool("LeaveJobInQueue", False):
                return False
            core.leave(job)
            return True
        if execution is not None:
            execution.check_policy()
            return False
        if job.status in OVER or job.busy:
            return False
        decision = policy.periodic(ad, job.status, core.now(), core.settings.system)
        if decision is None:
            return False
        self._carry_out(job, decision)
        return True

    def _carry_out(self, job: Job, decision: Decision) -> None:
        core = self._core
        if decision.action is Action.HOLD and job.status is JobStatus.HELD:
            attributes = {"HoldReason": decision.reason, "HoldReasonCode": decision.code, "HoldReasonSubCode": 0}
            core.apply(job, Changes(attributes))
        elif decision.action is Action.HOLD:
            core.hold(job, decision.reason, decision.code, decision.subcode)
        elif decision.action is Action.RELEASE:
            core.release(job, decision.reason)
        elif decision.action is Action.REMOVE:
            core.remove(job, decision.reason)

    async def prune_history(self, connection: sqlite3.Connection) -> None:
        """Keep the history within its bounds."""
        core = self._core
        while True:
            await trio.sleep(PRUNE_S)
            gone = await core.start.world.threads.run_sync(history.prune, connection, core.settings.history_rows_max)
            if gone:
                core.log.full(f"Forgot {gone} jobs of the history.")


def _is_trivial(cluster: Cluster) -> bool:
    if cluster.periodic is None:
        cluster.periodic = not policy.is_trivial(cluster.ad)
    return not cluster.periodic
