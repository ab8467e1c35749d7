"""What the periodic policy of a job that runs leads to, whether it runs in a slot or at the access point."""

from __future__ import annotations

from daemons.schedd.core.core import Core
from pool.jobs import policy
from pool.jobs.policy import PolicyAction
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.states import JobStatus

_LEAVING = frozenset((JobStatus.HELD, JobStatus.REMOVED, JobStatus.IDLE))
"""States of a job whose execution is on its way out."""


def ask_policy(core: Core, job: Job, *, is_leaving: bool = False) -> None:
    """Hold, remove or vacate the job if its policy says so. One that `is_leaving` is not told again to leave."""
    if job.status in _LEAVING:
        return
    decision = policy.periodic(core.queue.ad(job), job.status, core.now(), core.settings.system)
    if decision is None:
        return
    if decision.action is PolicyAction.HOLD:
        core.hold(job, decision.reason, decision.code, decision.subcode)
    elif decision.action is PolicyAction.REMOVE:
        core.remove(job, decision.reason)
    elif decision.action is PolicyAction.VACATE and not is_leaving:
        core.vacate(job, decision.reason, decision.code, decision.subcode)
