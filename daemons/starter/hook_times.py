"""When a job's hooks run, what they are shown then, and what becomes of what they answer.

Source: HTCondor's manual, "Job Hook Configuration Options" (HOOK_PREPARE_JOB and its kin); what an answer means is
`pool/hooks/answers.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import trio

from daemons.host.account import Account
from daemons.host.child_settings import StarterSettings
from daemons.host.hooks import JobHooks
from daemons.starter.launch.context import Context
from daemons.starter.report.local_link import Link
from daemons.starter.report.result import ActivationResult, HoldJob
from daemons.starter.running import ProgramRuns
from daemons.starter.watch.figures import Figures
from daemons.starter.watch.leaving import Leaving
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.execute.exit import Hold
from pool.hooks.ads import Executed, ended_job, running_job
from pool.hooks.answers import Verdict, changed_by
from pool.hooks.table import Hook, HookTable, job_keyword
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.shadow import JobNotice
from protocol.messages.starter import RunJob


class HookFailed(PoolError):
    """A prepare hook wants the job to be tried elsewhere."""


class HookTimes:
    """One activation's, whose job has hooks."""

    def __init__(self, hooks: JobHooks, settings: StarterSettings, request: RunJob, link: Link) -> None:
        self._hooks, self._settings = hooks, settings
        self._request, self._link = request, link

    def has(self, hook: Hook) -> bool:
        """Whether there is such a hook."""
        return self._hooks.has(hook)

    async def prepared(self, hook: Hook, job: ClassAd) -> ClassAd:
        """The job as a prepare hook has changed it; Held or HookFailed when it refuses it."""
        answer = await self._hooks.prepare(hook, job)
        if answer.verdict is Verdict.HOLD:
            raise HoldJob(Hold(answer.message, HoldCode.HOOK_PREPARE_JOB_FAILURE, answer.status))
        if answer.verdict is Verdict.IDLE:
            raise HookFailed(answer.message)
        if answer.message:
            request = self._request
            notice = JobNotice(job_id=request.job_id, activation=request.activation, message=answer.message)
            await self._link.notice(notice)
        return changed_by(job, answer.updates)

    async def tell_now_and_then(self, job: ClassAd, figures: Figures, running: ProgramRuns) -> None:
        """Run the update hook whenever the schedd hears how the job is; never two at a time."""
        at = trio.current_time() + self._settings.update_first_s
        while running.executed is not None:
            await trio.sleep_until(at)
            if running.body is not None:
                await figures.look(running.body)
            state = "Suspended" if running.suspended else "Running"
            await self._hooks.update(running_job(job, figures.usage.ad(), running.executed, state))
            # A hook that takes longer than the interval is not run twice in a row to make up for it.
            at = max(at + self._settings.update_s, trio.current_time())

    async def tell_of_exit(
        self, job: ClassAd, figures: Figures, executed: Executed, result: ActivationResult, leaving: Leaving
    ) -> None:
        """Run the exit hook, before output moves and anybody hears of the end."""
        told = leaving.told
        reason = result.reason or (told.reason if told is not None else "")
        ad = ended_job(job, figures.usage.ad(), executed, time.time(), reason)
        patience_s = self._settings.killing_timeout_s / 2 if leaving.at_once else math.inf
        await self._hooks.job_exit(ad, "exit" if told is None else told.cause or "evict", at_most_s=patience_s)


def hooks_for(
    context: Context,
    request: RunJob,
    link: Link,
    account: Account,
    sandbox: str,
    environment: Callable[[], Mapping[str, str]],
) -> HookTimes | None:
    """The job's hooks on this machine, if it has any; `environment` is what they find there."""
    settings = context.settings
    if not settings.hooks:
        return None
    table = HookTable.unpacked(settings.hooks)
    keyword = job_keyword(request.job_ad, table, forced=settings.hook_keyword, default=settings.default_hook_keyword)
    if not (programs := table.of(keyword)):
        return None
    hooks = JobHooks(programs, context.log, context.processes, account, sandbox, environment())
    return HookTimes(hooks, settings, request, link)
