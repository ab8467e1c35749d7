"""The end of an execution, where report, state and policy of the job meet: `ended` says what becomes of it.

Source: HTCondor manual, "Job ClassAd Attributes" for what is added up, and "condor_submit" for the policies
(on_exit_hold, on_exit_remove, max_retries, leave_in_queue). What decides, in this order:

1. A job that was put on hold or removed while it ran stays so, however its execution ended.
2. One that had to leave its slot (evicted) waits for another.
3. One that exited is asked for its policy: complete, run again, hold or remove.
4. One that the slot could not run is held where the reason is the job's (a hold code), and otherwise waits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from pool.classad import ClassAd, Expr
from pool.jobs import policy
from pool.jobs.changes import (
    EXIT_ATTRIBUTES,
    HOLD_ATTRIBUTES,
    OF_THIS_RUN,
    Attributes,
    Changes,
    End,
    Fate,
    StopReason,
    counter_raised,
    evicted_event,
    exit_of,
    number_or,
    plus_one,
    slot_of,
    suspension_over,
    usage_of,
    vacate_attributes,
)
from pool.jobs.holds import hold, hold_attributes
from pool.jobs.policy import Decision, PolicyAction, SystemPolicy
from pool.jobs.retry import cure
from pool.jobs.transfers import progress
from pool.jobs.userlog import event_log as log
from pool.jobs.userlog.usage_table import usage_ad
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import (
    HoldCode,
    VacateCode,
    means_hold,
    vacate_code,
    vacate_code_name,
)
from pool.jobs.vocabulary.states import JobEvent, JobStatus

# A moment that every clock and every tool can still show: thirty years.
_LONGEST_REST_S: Final = 1e9


def ended(
    job: ClassAd, status: JobStatus, end: End, stop: StopReason | None, now: float, system: SystemPolicy
) -> tuple[Changes, Fate]:
    """The execution is over: what becomes of the job."""
    attributes = _sums(job, end, now)
    earlier = progress.reported(job, attributes)
    for name in progress.STATES:
        attributes.pop(name, None)
    changes, fate = _decide(job, status, end, stop, now, system, attributes)
    if "NumVacates" in attributes:
        attributes.update(_vacates_by_reason(job, attributes, now))
    # LastRemoteHost is a machine of this pool then.
    drop = changes.drop if "RemotePool" in job else (*changes.drop, "LastRemotePool")
    return replace(changes, drop=drop, earlier=tuple(earlier)), fate


def ended_unrun(job: ClassAd, code: ClassAd, now: float, system: SystemPolicy, what: str) -> tuple[Changes, Fate]:
    """A job that waits is done without having run, with this exit; `what` it is, for a job that shall run again."""
    changes, fate = ended(job, JobStatus.RUNNING, End(Ending.EXITED, code, at=now), None, now, system)
    if changes.move is JobEvent.REQUEUE:  # it would end the same way for ever
        return hold(job, f"{what} shall be run again", 3, 0), Fate.HELD
    return changes, fate


def _decide(
    job: ClassAd,
    status: JobStatus,
    end: End,
    stop: StopReason | None,
    now: float,
    system: SystemPolicy,
    attributes: Attributes,
) -> tuple[Changes, Fate]:
    if end.ending is Ending.EXITED:
        attributes["NumJobCompletions"] = plus_one(job, "NumJobCompletions")  # max_retries counts these
    after = job.copy()
    after.update(attributes)
    # What users did while it ran comes first: an exit that arrives just after condor_hold must not complete the job.
    if status is JobStatus.HELD:
        return _was_held(after, attributes, end)
    if status is JobStatus.REMOVED:
        return _was_removed(after, attributes)
    if status is JobStatus.IDLE or end.ending is Ending.EVICTED:
        return _evicted(after, attributes, end, stop or _by_the_starters_word(end.reason), status)
    if end.ending is Ending.EXITED:
        return _exited(after, attributes, policy.on_exit(after, status, now, system), now)
    if is_sent_back(end):
        return _sent_back(after, attributes)
    if end.ending is Ending.HOLD:
        return _cannot_run(after, attributes, end, system.fixed)
    return _failed(after, attributes, end.reason or "The job could not be run")


def _sums(job: ClassAd, end: End, now: float) -> Attributes:
    """What an execution adds to the job's accounts."""
    sums: Attributes = dict(end.ad.items())
    over_at = end.at or now
    started = job.eval_int("ShadowBday", int(over_at))
    wall = float(max(0, int(over_at) - started))
    # The weight of the slot as it was at the match: its ad may be another by now.
    weight = job.eval_float("MachineAttrSlotWeight0", 1.0)
    executing = job.eval_int("JobCurrentStartExecutingDate")
    sums.update(
        suspension_over(job, over_at),
        ActivationDuration=int(wall),
        CumulativeSlotTime=job.eval_float("CumulativeSlotTime", 0.0) + wall * weight,
        CurrentHosts=0,
        LastPublicClaimId=job.eval_str("PublicClaimId", ""),
        LastRemoteHost=job.eval_str("RemoteHost", ""),
        LastRemoteWallClockTime=wall,
        RemoteWallClockTime=job.eval_float("RemoteWallClockTime", 0.0) + wall,
    )
    if "RemotePool" in job:
        sums["LastRemotePool"] = job.eval_str("RemotePool", "")
    # An older date is of an execution before this one, whose program never started.
    if executing is not None and executing >= started:
        cpu_s = sum(number_or(end.ad.eval(name), 0.0) for name in ("RemoteUserCpu", "RemoteSysCpu"))
        sums["CpusUsage"] = round(cpu_s / max(1.0, over_at - executing), 3)
        sums["ActivationExecutionDuration"] = max(0, int(over_at) - executing)
        sums["ActivationTeardownDuration"] = max(0, int(now) - int(over_at))
    for name in ("RemoteUserCpu", "RemoteSysCpu"):
        used = number_or(end.ad.eval(name), job.eval_float(name, 0.0))
        sums[f"Cumulative{name}"] = job.eval_float(f"Cumulative{name}", 0.0) + used
    for total, name in (("TotalBytesSent", "BytesSent"), ("TotalBytesRecvd", "BytesRecvd")):
        sums[total] = job.eval_float(total, 0.0) + float(number_or(end.ad.eval(name), 0.0))
    return sums


def _exited(job: ClassAd, attributes: Attributes, decision: Decision, now: float) -> tuple[Changes, Fate]:
    if decision.action is PolicyAction.COMPLETE:
        return _completed(job, attributes, now)
    if decision.action is PolicyAction.REQUEUE:
        vacated = vacate_attributes(job, VacateCode.JOB_SHOULD_REQUEUE, decision.reason, 0)
        del vacated["NumVacates"]  # it left by itself
        attributes.update(vacated, RequeueReason=decision.reason, ExitBySignal=False)
        event = evicted_event(job, decision.reason, exited=True)
        drop = (*OF_THIS_RUN, "ExitCode", "ExitSignal")
        return Changes(attributes, drop, JobEvent.REQUEUE, (event,)), Fate.WAITS
    if decision.action is PolicyAction.HOLD:
        attributes.update(hold_attributes(job, decision.reason, decision.code, decision.subcode))
        held = log.Held(decision.reason, decision.code, decision.subcode)
        return Changes(attributes, OF_THIS_RUN, JobEvent.HOLD, (held,)), Fate.HELD
    attributes["RemoveReason"] = decision.reason
    fate = _over(job, attributes, JobStatus.REMOVED)
    return Changes(attributes, OF_THIS_RUN, JobEvent.REMOVE, (log.Aborted(decision.reason),)), fate


def _completed(job: ClassAd, attributes: Attributes, now: float) -> tuple[Changes, Fate]:
    wall = job.eval_float("LastRemoteWallClockTime", 0.0)
    code, by_signal = job.eval_int("ExitCode", 0), job.eval_bool("ExitBySignal", False)
    attributes.update(
        CommittedSlotTime=job.eval_float("CommittedSlotTime", 0.0)
        + wall * job.eval_float("MachineAttrSlotWeight0", 1.0),
        CommittedSuspensionTime=job.eval_int("CumulativeSuspensionTime", 0),
        CommittedTime=job.eval_int("CommittedTime", 0) + int(wall),
        CompletionDate=int(now),
        ExitBySignal=by_signal,
        ExitStatus=job.eval_int("ExitSignal", 0) if by_signal else code,
        JobFinishedHookDone=int(now),
        TerminationPending=True,
    )
    event = log.Terminated(
        exit_of(job),
        run_usage=usage_of(job, ""),
        total_usage=usage_of(job, "Cumulative"),
        sent=job.eval_float("BytesSent", 0.0),
        received=job.eval_float("BytesRecvd", 0.0),
        total_sent=job.eval_float("TotalBytesSent", 0.0),
        total_received=job.eval_float("TotalBytesRecvd", 0.0),
        table=usage_ad(job),
    )
    return Changes(attributes, OF_THIS_RUN, JobEvent.COMPLETE, (event,)), _over(job, attributes, JobStatus.COMPLETED)


def _over(job: ClassAd, attributes: Attributes, status: JobStatus) -> Fate:
    """What becomes of a job that these attributes and this state are the last of."""
    if type(job.get("LeaveJobInQueue", False)) is bool and "LeaveJobInQueue" not in attributes:  # as nearly always
        return Fate.STAYS if job.get("LeaveJobInQueue", False) else Fate.LEAVES
    after = job.copy()
    after.update(attributes)
    after["JobStatus"] = int(status)
    return Fate.STAYS if after.eval_bool("LeaveJobInQueue", False) else Fate.LEAVES


def resting(job: ClassAd, changes: Changes, wanted: Expr | float | None, now: float) -> Changes:
    """The same changes to a job that runs again only after a while: so many seconds, or what an expression says."""
    if isinstance(wanted, Expr):
        after = job.copy()
        for name, value in changes.attributes.items():
            after[name] = value
        seconds = number_or(wanted.eval(after), 0.0)
    else:
        seconds = wanted or 0.0
    if seconds <= 0:
        return changes
    seconds = min(seconds, _LONGEST_REST_S)
    rest = {"NumJobCoolDowns": plus_one(job, "NumJobCoolDowns"), "JobCoolDownExpiration": math.ceil(now + seconds)}
    return replace(changes, attributes={**changes.attributes, **rest})


def _was_held(job: ClassAd, attributes: Attributes, end: End) -> tuple[Changes, Fate]:
    """Somebody put it on hold while it ran."""
    reason = job.eval_str("HoldReason", "")
    code, subcode = job.eval_int("HoldReasonCode", 0), job.eval_int("HoldReasonSubCode", 0)
    attributes.update(vacate_attributes(job, code, reason, subcode))
    left = evicted_event(job, reason, code, subcode, checkpointed=end.checkpointed)
    events = (left, log.Held(reason, code, subcode))
    return Changes(attributes, (*OF_THIS_RUN, *EXIT_ATTRIBUTES), events=events), Fate.HELD


def _was_removed(job: ClassAd, attributes: Attributes) -> tuple[Changes, Fate]:
    """Somebody removed it while it ran."""
    reason = job.eval_str("RemoveReason", "")
    attributes.update(vacate_attributes(job, VacateCode.JOB_REMOVED, reason, 0))
    events = (evicted_event(job, reason, VacateCode.JOB_REMOVED), log.Aborted(reason))
    return Changes(attributes, OF_THIS_RUN, events=events), _over(job, attributes, JobStatus.REMOVED)


def _by_the_starters_word(reason: str) -> StopReason:
    """Why a job left whose starter has reported before its startd did; it was told what the startd says."""
    code = vacate_code(reason)
    return StopReason(reason or "The job was evicted", 0 if code is VacateCode.CLAIM_DEACTIVATED else code)


def _evicted(
    job: ClassAd, attributes: Attributes, end: End, stop: StopReason, status: JobStatus
) -> tuple[Changes, Fate]:
    attributes.update(vacate_attributes(job, stop.code, stop.reason, stop.subcode))
    event = evicted_event(job, stop.reason, stop.code, stop.subcode, checkpointed=end.checkpointed)
    move = None if status is JobStatus.IDLE else JobEvent.REQUEUE
    return Changes(attributes, (*OF_THIS_RUN, *EXIT_ATTRIBUTES), move, (event,)), Fate.WAITS


def _cannot_run(job: ClassAd, attributes: Attributes, end: End, fixed: frozenset[str]) -> tuple[Changes, Fate]:
    """The slot found that the job cannot run as it is."""
    reason = job.eval_str("HoldReason") or end.reason or "The job cannot be run"
    code, subcode = job.eval_int("HoldReasonCode", 0), job.eval_int("HoldReasonSubCode", 0)
    host = job.eval_str("RemoteHost", "")
    attributes.update(vacate_attributes(job, code, reason, subcode))
    # The event names the host in its first line; HoldReason, which stands alone, has it in the text.
    said = reason.removeprefix(f"Error from {host}: ")
    error = log.RemoteErrorEvent("starter", host, said, code=code, subcode=subcode)
    if "TransformOnEvict" in job and (better := cure(job, attributes, fixed)):
        attributes.update(better)
        for name in HOLD_ATTRIBUTES:
            attributes.pop(name, None)
        moved = (error, evicted_event(job, reason, code, subcode))
        return Changes(
            attributes, (*OF_THIS_RUN, *EXIT_ATTRIBUTES, *HOLD_ATTRIBUTES), JobEvent.REQUEUE, moved
        ), Fate.WAITS
    attributes.update(hold_attributes(job, reason, code, subcode))
    events = (error, evicted_event(job, reason, code, subcode), log.Held(reason, code, subcode))
    return Changes(attributes, (*OF_THIS_RUN, *EXIT_ATTRIBUTES), JobEvent.HOLD, events), Fate.HELD


def is_sent_back(end: End) -> bool:
    """Whether the reason why the slot could not run the job has a hold's code, and yet is none to hold it."""
    code, subcode = end.ad.eval_int("HoldReasonCode", 0), end.ad.eval_int("HoldReasonSubCode", 0)
    return end.ending is Ending.HOLD and code == HoldCode.SINGULARITY_TEST_FAILED and not means_hold(code, subcode)


def failures(job: ClassAd) -> int:
    """How often slots could not run it so far, for whatever reason."""
    vacates, label = job.get("NumVacatesByReason"), vacate_code_name(HoldCode.SINGULARITY_TEST_FAILED)
    failed_tests = vacates.eval_int(label, 0) if isinstance(vacates, ClassAd) else 0
    return job.eval_int("NumShadowExceptions", 0) + failed_tests


def _sent_back(job: ClassAd, attributes: Attributes) -> tuple[Changes, Fate]:
    """It waits for another slot, or for this one to be mended; its ad and its log have the code and the reason."""
    host = job.eval_str("RemoteHost", "")
    code, subcode = job.eval_int("HoldReasonCode", 0), job.eval_int("HoldReasonSubCode", 0)
    said = job.eval_str("HoldReason", "").removeprefix(f"Error from {host}: ")
    whole = f"Error from {host}: {said}"
    for name in HOLD_ATTRIBUTES:
        attributes.pop(name, None)
    attributes.update(vacate_attributes(job, code, whole, subcode))
    error = log.RemoteErrorEvent("starter", host, said, code=code, subcode=subcode)
    events = (error, evicted_event(job, whole, code, subcode))
    return Changes(attributes, (*OF_THIS_RUN, *EXIT_ATTRIBUTES, *HOLD_ATTRIBUTES), JobEvent.REQUEUE, events), Fate.WAITS


def _failed(job: ClassAd, attributes: Attributes, reason: str) -> tuple[Changes, Fate]:
    """This slot could not run it; another may."""
    attributes.update(vacate_attributes(job, VacateCode.STARTER_ERROR, reason, 0))
    attributes.update(
        LastShadowException=reason,
        NumShadowExceptions=plus_one(job, "NumShadowExceptions"),
    )
    event = log.ShadowException(reason, job.eval_float("BytesSent", 0.0), job.eval_float("BytesRecvd", 0.0))
    return Changes(attributes, (*OF_THIS_RUN, *EXIT_ATTRIBUTES), JobEvent.REQUEUE, (event,)), Fate.WAITS


def lost(job: ClassAd, status: JobStatus, reason: str, now: float, system: SystemPolicy) -> tuple[Changes, Fate]:
    """The lease ran out in silence, or the slot says that it knows nothing of the job."""
    changes, fate = ended(
        job,
        status,
        End(Ending.EVICTED, ClassAd(), at=now),
        StopReason(reason, VacateCode.RECONNECT_FAILED),
        now,
        system,
    )
    failed = log.ReconnectFailed(reason, slot_of(job)[0])
    # 024 stands in the place of 004: each of them alone says that the execution is over.
    if fate is Fate.WAITS:
        return Changes(changes.attributes, changes.drop, changes.move, (failed,)), fate
    return Changes(changes.attributes, changes.drop, changes.move, (failed, *changes.events[1:])), fate


def _vacates_by_reason(job: ClassAd, attributes: Attributes, now: float) -> Attributes:
    """When and why the job has left slots, and how often before it had started to run there."""
    code = attributes["VacateReasonCode"]
    label = vacate_code_name(code if isinstance(code, int) else 0)
    counted: Attributes = {
        "LastVacateTime": int(now),
        "NumVacatesByReason": counter_raised(job, "NumVacatesByReason", label),
    }
    executing = job.eval_int("JobCurrentStartExecutingDate", 0)
    if executing < job.eval_int("ShadowBday", 0):
        name = "NumVacatesByReasonPreExecution"
        counted[name] = counter_raised(job, name, label)
        counted["NumVacatesPreExecution"] = plus_one(job, "NumVacatesPreExecution")
    return counted
