"""The end of an execution as one transaction: what becomes of the job, and what its claim does next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.classad import ClassAd
from pool.jobs import conclusion, run
from pool.jobs.changes import Changes, End, Fate
from pool.jobs.claims.events import JobOver
from pool.jobs.execution.states import ByReport, ByWord, Execution, Lost, Outcome, Over, Skipped, Unstarted
from pool.jobs.userlog import event_log
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.states import JobStatus

if TYPE_CHECKING:
    from daemons.schedd.core.core import Core
    from daemons.schedd.execution.shadow import Shadow
    from pool.jobs.queue.cluster import Job


def conclude(shadow: Shadow, execution: Execution) -> Shadow | None:
    """What came of the execution, which is over; the claim's next one, begun in the same transaction."""
    end_job(shadow.core, shadow.job, execution)
    return leave_slot(shadow, execution)


def end_job(core: Core, job: Job, execution: Execution) -> tuple[Changes, Fate]:
    """What becomes of the job of whose executions this is the one that counts; it is carried out."""
    outcome, now = _outcome(execution), core.now()
    if isinstance(outcome, Skipped) and job.status is JobStatus.RUNNING:
        core.write(job, event_log.DataflowSkipped())
    changes, fate = _becomes(core, job, execution, outcome, now)
    core.executions.shadow_of.pop(job, None)
    job.busy = False
    end = outcome.end if isinstance(outcome, ByReport | ByWord) else None
    failed = _has_failed(outcome)
    if fate is Fate.WAITS and (failed or isinstance(outcome, Unstarted)):
        core.cool_down(job, conclusion.failures(core.queue.ad(job)) + 1 if failed else 1)
    if fate is Fate.WAITS and (end is None or end.ending is not Ending.EXITED):
        changes = conclusion.resting(core.queue.ad(job), changes, core.settings.vacate_cool_down, now)
    core.ended(job, changes, fate)
    return changes, fate


def leave_slot(shadow: Shadow, execution: Execution) -> Shadow | None:
    """What the execution's claim runs next, if there is anything."""
    core, claim, outcome = shadow.core, shadow.claim, _outcome(execution)
    claim.shadow = None
    unfit = isinstance(outcome, Unstarted) and not outcome.slot_is_good
    spoils = unfit or isinstance(outcome, Lost) or _has_failed(outcome)
    shadow.claims.happens(claim, JobOver(isinstance(outcome, ByReport), slot_is_good=not spoils))
    following = shadow.claims.next(claim)
    if following is None and not claim.life.is_over:
        core.queue.claim_works(claim.work())
    return following


def _outcome(execution: Execution) -> Outcome:
    assert isinstance(execution.state, Over)
    return execution.state.outcome


def _has_failed(outcome: Outcome) -> bool:
    """Whether the slot could not run the job."""
    end = outcome.end if isinstance(outcome, ByReport | ByWord) else None
    return end is not None and (end.ending is Ending.FAILED or conclusion.is_sent_back(end))


def _becomes(core: Core, job: Job, execution: Execution, outcome: Outcome, now: float) -> tuple[Changes, Fate]:
    """What becomes of the job, which somebody may have put on hold, removed or released while it ran."""
    ad, status, system = core.queue.ad(job), job.status, core.settings.system
    match outcome:
        case Skipped() if status is JobStatus.RUNNING:
            code = ClassAd({"ExitBySignal": False, "ExitCode": 0})
            return conclusion.ended_unrun(ad, code, now, system, "A job whose output is newer than its input")
        case ByReport(end=end) | ByWord(end=end):
            return conclusion.ended(ad, status, end, execution.stop, now, system)
        case Lost(reason=reason):
            return conclusion.lost(ad, status, reason, now, system)
    if status in (JobStatus.HELD, JobStatus.REMOVED):
        return conclusion.ended(ad, status, End(Ending.EVICTED, ClassAd(), at=now), execution.stop, now, system)
    changes = run.not_started()
    return (Changes(changes.attributes, changes.drop) if status is JobStatus.IDLE else changes), Fate.WAITS
