"""One execution of a job, seen from its schedd: what each thing that happens makes of the job's ad and its log.

Every function takes the job's ad as it is and returns `Changes`: attributes to set and to drop, the move of the job's
state, the events for its log. `ended` is where an execution's end, the job's state and its policy meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Final

from pool.classad import ClassAd, Expr
from pool.jobs import event_log as log
from pool.jobs import policy, transfer_life
from pool.jobs.codes import NOT_A_SYSTEM_HOLD, HoldCode, VacateCode, hold_code_name, vacate_code_name
from pool.jobs.event_log import Event, Usage
from pool.jobs.policy import Action, Decision, SystemPolicy
from pool.jobs.retry import cure
from pool.jobs.states import JobEvent, JobStatus
from pool.jobs.transfer_life import TimedEvent
from pool.jobs.usage_table import usage_ad

Attributes = dict[str, object]


@dataclass(frozen=True)
class Changes:
    """What to do to a job, in one transaction."""

    attributes: Mapping[str, object] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    move: JobEvent | None = None
    events: tuple[Event, ...] = ()
    earlier: tuple[TimedEvent, ...] = ()
    """Events that come before the others, with times of their own."""


class Fate(Enum):
    """Where the job is once its execution is over."""

    WAITS = "waits"
    HELD = "held"
    STAYS = "stays"
    """It is completed or removed, and stays in the queue because LeaveJobInQueue is true."""
    LEAVES = "leaves"


class Ending(StrEnum):
    """How an execution ended (see `protocol.messages.schedd.Ending`)."""

    EXITED = "exited"
    EVICTED = "evicted"
    HOLD = "hold"
    FAILED = "failed"


@dataclass(frozen=True)
class End:
    """What the starter reported, or what was found out about it."""

    ending: Ending
    ad: ClassAd
    reason: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class Stop:
    """Why a job was told to leave its slot, when its own state does not say so."""

    reason: str
    code: int = 0
    subcode: int = 0


_OF_THIS_RUN: Final = (
    "RemoteHost",
    "RemoteSlotID",
    "StartdIpAddr",
    "PublicClaimId",
    "ShadowBday",
    "JobCurrentReconnectAttempt",
    "JobDisconnectedDate",
    *transfer_life.STATES,
)

_HOLD: Final = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")
EXIT_ATTRIBUTES: Final = ("ExitCode", "ExitSignal", "JobCoreDumped", "JobCoreFileName")
DEFAULT_RESOURCES: Final = "Cpus, Memory, Disk, GPUs"


def begin(
    job: ClassAd,
    slot: ClassAd,
    public_claim: str,
    startd_address: str,
    now: float,
    *,
    machine_attrs: Iterable[str] = (),
    history_length: int = 1,
) -> Changes:
    """A slot is asked to run the job. `machine_attrs`: attributes of the slot that all jobs keep."""
    second = int(now)
    names = (slot.eval_str("MachineResources") or DEFAULT_RESOURCES).replace(",", " ").split()
    attributes: Attributes = {
        "CurrentHosts": 1,
        "FirstJobMatchDate": job.eval_int("FirstJobMatchDate", second),
        "JobCurrentStartDate": second,
        "JobRunCount": _plus(job, "JobRunCount"),
        "JobStartDate": job.eval_int("JobStartDate", second),
        "LastJobLeaseRenewal": second,
        "LastMatchTime": second,
        "NumJobMatches": _plus(job, "NumJobMatches"),
        "NumShadowStarts": _plus(job, "NumShadowStarts"),
        "ProvisionedResources": ", ".join(names),
        "PublicClaimId": public_claim,
        "RemoteHost": slot.eval_str("Name", ""),
        "RemoteSlotID": slot.eval_int("SlotID", 1),
        "ShadowBday": second,
        "StartdIpAddr": startd_address,
        "MachineAttrCpus0": slot.eval_int("Cpus", 1),
        "MachineAttrSlotWeight0": _number(slot.eval("SlotWeight"), slot.eval_int("Cpus", 1)),
    }
    if "FirstJobMatchDate" not in job:
        attributes["InitialWaitDuration"] = second - job.eval_int("QDate", second)
    if "JobCurrentStartDate" in job:
        attributes["JobLastStartDate"] = job["JobCurrentStartDate"]
    for name in names:
        given = slot.eval(name)
        if isinstance(given, int | float):
            attributes[f"{name}Provisioned"] = given
        assigned = slot.eval_str(f"Assigned{name}")
        if assigned:
            attributes[f"Assigned{name}"] = assigned
    attributes.update(_last_matches(job, slot))
    own = (job.eval_str("JobMachineAttrs") or "").replace(",", " ").split()
    for name in (*machine_attrs, *own) if own else machine_attrs:
        if f"MachineAttr{name}0" not in attributes:
            attributes[f"MachineAttr{name}0"] = slot.eval(name, job)
    length = max(history_length, job.eval_int("JobMachineAttrsHistoryLength") or 0)
    if length > 1:
        _remember(job, attributes, length)
    return Changes(attributes, drop=(*EXIT_ATTRIBUTES, *transfer_life.MOMENTS), move=JobEvent.START)


def _last_matches(job: ClassAd, slot: ClassAd) -> Attributes:
    """match_list_length: LastMatchName0 is the slot of this run, LastMatchName1 that of the run before, and so on."""
    length = job.eval_int("LastMatchListLength") or 0
    names: Attributes = {"LastMatchName0": slot.eval_str("Name", "")} if length > 0 else {}
    for number in range(1, length):
        if f"LastMatchName{number - 1}" not in job:
            break
        names[f"LastMatchName{number}"] = job[f"LastMatchName{number - 1}"]
    return names


def _remember(job: ClassAd, attributes: Attributes, length: int) -> None:
    """What was MachineAttrX0 in the run before is MachineAttrX1, and so on."""
    for first in [name for name in attributes if name.startswith("MachineAttr")]:
        for number in range(1, length):
            before = f"{first[:-1]}{number - 1}"
            if before in job:
                attributes[f"{first[:-1]}{number}"] = job[before]


def not_started(job: ClassAd) -> Changes:
    """The slot refused the job after all; it waits for another."""
    return Changes({"CurrentHosts": 0}, drop=_OF_THIS_RUN, move=JobEvent.REQUEUE)


def executing(job: ClassAd, slot: ClassAd, startd_address: str, started: ClassAd, at: float) -> Changes:
    """The program was started. `started` is what the starter says of it."""
    second = int(at)
    attributes: Attributes = {
        "JobCurrentStartExecutingDate": second,
        "NumJobStarts": _plus(job, "NumJobStarts"),
        "ActivationSetupDuration": max(0, second - job.eval_int("ShadowBday", second)),
    }
    attributes.update(started.items())
    earlier = transfer_life.reported(job, attributes)
    shown: Attributes = {}
    for name in (job.eval_str("ProvisionedResources") or DEFAULT_RESOURCES).replace(",", " ").split():
        given = job.eval(f"{name}Provisioned")
        if isinstance(given, int | float):
            shown[name] = given
        assigned = job.eval_str(f"Assigned{name}")
        if assigned:
            shown[f"Assigned{name}"] = assigned
    scratch = started.eval_str("CondorScratchDir")
    if scratch:
        shown["CondorScratchDir"] = scratch
        del attributes["CondorScratchDir"]
    for name in (job.eval_str("UserLogExecuteEventAttrs") or "").replace(",", " ").split():
        if name in slot and name not in shown:
            shown[name] = slot[name]
    name = slot.eval_str("Name", "")
    return Changes(attributes, events=(log.Executing(startd_address, name, shown),), earlier=tuple(earlier))


def used(job: ClassAd, update: ClassAd) -> Changes:
    """What the running job uses now. The log hears of its size when that is new."""
    attributes: Attributes = dict(update.items())
    earlier = transfer_life.reported(job, attributes)
    changes = _used(job, update, attributes)
    return replace(changes, earlier=tuple(earlier)) if earlier else changes


def _used(job: ClassAd, update: ClassAd, attributes: Attributes) -> Changes:
    if "CheckpointNumber" in update:
        return _checkpointed(job, attributes)
    size, known = update.eval_int("ImageSize"), job.eval_int("ImageSize") or 0
    if size is None or (size <= known and "ResidentSetSize_RAW" in job):
        return Changes(attributes)
    after = job.copy()
    after.update(attributes)
    attributes.setdefault("ResidentSetSize_RAW", after.eval_int("ResidentSetSize", 0))
    event = log.ImageSize(
        size,
        after.eval_int("MemoryUsage"),
        after.eval_int("ResidentSetSize"),
        after.eval_int("ProportionalSetSizeKb"),
    )
    return Changes(attributes, events=(event,))


def _checkpointed(job: ClassAd, attributes: Attributes) -> Changes:
    """What the job has done up to here is not lost any more."""
    attributes["NumCkpts"] = _plus(job, "NumCkpts")
    after = job.copy()
    after.update(attributes)
    event = log.Checkpointed(_usage(after, ""), after.eval_float("BytesSent", 0.0))
    return Changes(attributes, events=(event,))


def noticed(host: str, message: str) -> Changes:
    """The machine has something to say to the job's user, and the job goes on."""
    return Changes(events=(log.RemoteError("starter", host, message, critical=False),))


def suspended(job: ClassAd, now: float) -> Changes:
    """The job's processes were frozen."""
    attributes = {"LastSuspensionTime": int(now), "TotalSuspensions": _plus(job, "TotalSuspensions")}
    return Changes(attributes, move=JobEvent.SUSPEND, events=(log.Suspended(job.eval_int("NumPids", 0)),))


def continued(job: ClassAd, now: float) -> Changes:
    """The job's processes go on."""
    return Changes(_suspension_over(job, now), move=JobEvent.CONTINUE, events=(log.Continued(),))


def _suspension_over(job: ClassAd, now: float) -> Attributes:
    since = job.eval_int("LastSuspensionTime", 0)
    if not since:
        return {}
    total = job.eval_int("CumulativeSuspensionTime", 0) + max(0, int(now) - since)
    return {"CumulativeSuspensionTime": total, "LastSuspensionTime": 0}


def disconnected(job: ClassAd, reason: str, now: float) -> Changes:
    """Nothing is heard from the job's slot; its lease still runs."""
    if job.eval_int("JobDisconnectedDate") is not None:
        return Changes()
    attributes = {
        "JobDisconnectedDate": int(now),
        "JobCurrentReconnectAttempt": 1,
        "TotalJobReconnectAttempts": _plus(job, "TotalJobReconnectAttempts"),
    }
    return Changes(attributes, events=(log.Disconnected(reason, *_where(job)),))


def reconnected(job: ClassAd, starter_address: str) -> Changes:
    """The starter is back."""
    if job.eval_int("JobDisconnectedDate") is None:
        return Changes()
    event = log.Reconnected(*_where(job), starter_address or _where(job)[1])
    return Changes(
        {"NumJobReconnects": _plus(job, "NumJobReconnects")},
        drop=("JobDisconnectedDate", "JobCurrentReconnectAttempt"),
        events=(event,),
    )


def _where(job: ClassAd) -> tuple[str, str]:
    return job.eval_str("RemoteHost", "") or "unknown", job.eval_str("StartdIpAddr", "") or "unknown"


def ended(
    job: ClassAd, status: JobStatus, end: End, stop: Stop | None, now: float, system: SystemPolicy
) -> tuple[Changes, Fate]:
    """The execution is over: what becomes of the job."""
    attributes = _sums(job, end, now)
    earlier = transfer_life.reported(job, attributes)
    for name in transfer_life.STATES:
        attributes.pop(name, None)
    changes, fate = _decide(job, status, end, stop, now, system, attributes)
    if "NumVacates" in attributes:
        attributes.update(_vacates_by_reason(job, attributes, now))
    return (replace(changes, earlier=tuple(earlier)) if earlier else changes), fate


def _decide(
    job: ClassAd,
    status: JobStatus,
    end: End,
    stop: Stop | None,
    now: float,
    system: SystemPolicy,
    attributes: Attributes,
) -> tuple[Changes, Fate]:
    if end.ending is Ending.EXITED:
        attributes["NumJobCompletions"] = _plus(job, "NumJobCompletions")  # max_retries counts these
    after = job.copy()
    after.update(attributes)
    if status is JobStatus.HELD:
        return _was_held(after, attributes, end)
    if status is JobStatus.REMOVED:
        return _was_removed(after, attributes, end)
    if status is JobStatus.IDLE or end.ending is Ending.EVICTED:
        return _evicted(after, attributes, stop or Stop(end.reason or "The job was evicted"), status)
    if end.ending is Ending.EXITED:
        return _exited(after, attributes, policy.on_exit(after, status, now, system), now)
    if end.ending is Ending.HOLD:
        return _cannot_run(after, attributes, end, system.fixed)
    return _failed(after, attributes, end.reason or "The job could not be run")


def _sums(job: ClassAd, end: End, now: float) -> Attributes:
    """What an execution adds to the job's accounts."""
    sums: Attributes = dict(end.ad.items())
    over_at = end.at or now
    started = job.eval_int("ShadowBday", int(over_at))
    wall = float(max(0, int(over_at) - started))
    weight = job.eval_float("MachineAttrSlotWeight0", 1.0)
    executing = job.eval_int("JobCurrentStartExecutingDate")
    sums.update(
        _suspension_over(job, over_at),
        ActivationDuration=int(wall),
        CumulativeSlotTime=job.eval_float("CumulativeSlotTime", 0.0) + wall * weight,
        CurrentHosts=0,
        LastPublicClaimId=job.eval_str("PublicClaimId", ""),
        LastRemoteHost=job.eval_str("RemoteHost", ""),
        LastRemoteWallClockTime=wall,
        RemoteWallClockTime=job.eval_float("RemoteWallClockTime", 0.0) + wall,
    )
    if executing is not None and executing >= started:
        cpu_s = sum(_number(end.ad.eval(name), 0.0) for name in ("RemoteUserCpu", "RemoteSysCpu"))
        sums["CpusUsage"] = round(cpu_s / max(1.0, over_at - executing), 3)
        sums["ActivationExecutionDuration"] = max(0, int(over_at) - executing)
        sums["ActivationTeardownDuration"] = max(0, int(now) - int(over_at))
    for name in ("RemoteUserCpu", "RemoteSysCpu"):
        used = _number(end.ad.eval(name), job.eval_float(name, 0.0))
        sums[f"Cumulative{name}"] = job.eval_float(f"Cumulative{name}", 0.0) + used
    for total, name in (("TotalBytesSent", "BytesSent"), ("TotalBytesRecvd", "BytesRecvd")):
        sums[total] = job.eval_float(total, 0.0) + float(_number(end.ad.eval(name), 0.0))
    return sums


def _exited(job: ClassAd, attributes: Attributes, decision: Decision, now: float) -> tuple[Changes, Fate]:
    if decision.action is Action.COMPLETE:
        return _completed(job, attributes, now)
    if decision.action is Action.REQUEUE:
        vacated = _vacated(job, VacateCode.JOB_SHOULD_REQUEUE, decision.reason, 0)
        del vacated["NumVacates"]  # it left by itself
        attributes.update(vacated, RequeueReason=decision.reason, ExitBySignal=False)
        event = _evicted_event(job, decision.reason, exited=True)
        drop = (*_OF_THIS_RUN, "ExitCode", "ExitSignal")
        return Changes(attributes, drop, JobEvent.REQUEUE, (event,)), Fate.WAITS
    if decision.action is Action.HOLD:
        attributes.update(hold_attributes(job, decision.reason, decision.code, decision.subcode, now))
        held = log.Held(decision.reason, decision.code, decision.subcode)
        return Changes(attributes, _OF_THIS_RUN, JobEvent.HOLD, (held,)), Fate.HELD
    attributes["RemoveReason"] = decision.reason
    fate = _over(job, attributes, JobStatus.REMOVED)
    return Changes(attributes, _OF_THIS_RUN, JobEvent.REMOVE, (log.Aborted(decision.reason),)), fate


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
        _exit(job),
        run_usage=_usage(job, ""),
        total_usage=_usage(job, "Cumulative"),
        sent=job.eval_float("BytesSent", 0.0),
        received=job.eval_float("BytesRecvd", 0.0),
        total_sent=job.eval_float("TotalBytesSent", 0.0),
        total_received=job.eval_float("TotalBytesRecvd", 0.0),
        table=usage_ad(job),
    )
    return Changes(attributes, _OF_THIS_RUN, JobEvent.COMPLETE, (event,)), _over(job, attributes, JobStatus.COMPLETED)


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
        seconds = _number(wanted.eval(after), 0.0)
    else:
        seconds = wanted or 0.0
    if seconds <= 0:
        return changes
    rest = {"NumJobCoolDowns": _plus(job, "NumJobCoolDowns"), "JobCoolDownExpiration": math.ceil(now + seconds)}
    return replace(changes, attributes={**changes.attributes, **rest})


def _was_held(job: ClassAd, attributes: Attributes, end: End) -> tuple[Changes, Fate]:
    """Somebody put it on hold while it ran."""
    reason = job.eval_str("HoldReason", "")
    code, subcode = job.eval_int("HoldReasonCode", 0), job.eval_int("HoldReasonSubCode", 0)
    attributes.update(_vacated(job, code, reason, subcode))
    events = (_evicted_event(job, reason, code, subcode), log.Held(reason, code, subcode))
    return Changes(attributes, (*_OF_THIS_RUN, *EXIT_ATTRIBUTES), events=events), Fate.HELD


def _was_removed(job: ClassAd, attributes: Attributes, end: End) -> tuple[Changes, Fate]:
    """Somebody removed it while it ran."""
    reason = job.eval_str("RemoveReason", "")
    attributes.update(_vacated(job, VacateCode.JOB_REMOVED, reason, 0))
    events = (_evicted_event(job, reason, VacateCode.JOB_REMOVED), log.Aborted(reason))
    return Changes(attributes, _OF_THIS_RUN, events=events), _over(job, attributes, JobStatus.REMOVED)


def _evicted(job: ClassAd, attributes: Attributes, stop: Stop, status: JobStatus) -> tuple[Changes, Fate]:
    attributes.update(_vacated(job, stop.code, stop.reason, stop.subcode))
    event = _evicted_event(job, stop.reason, stop.code, stop.subcode)
    move = None if status is JobStatus.IDLE else JobEvent.REQUEUE
    return Changes(attributes, (*_OF_THIS_RUN, *EXIT_ATTRIBUTES), move, (event,)), Fate.WAITS


def _cannot_run(job: ClassAd, attributes: Attributes, end: End, fixed: frozenset[str]) -> tuple[Changes, Fate]:
    """The slot found that the job cannot run as it is."""
    reason = job.eval_str("HoldReason") or end.reason or "The job cannot be run"
    code, subcode = job.eval_int("HoldReasonCode", 0), job.eval_int("HoldReasonSubCode", 0)
    host = job.eval_str("RemoteHost", "")
    attributes.update(_vacated(job, code, reason, subcode))
    said = reason.removeprefix(f"Error from {host}: ")
    error = log.RemoteError("starter", host, said, code=code, subcode=subcode)
    if "TransformOnEvict" in job and (better := cure(job, attributes, fixed)):
        attributes.update(better)
        for name in _HOLD:
            attributes.pop(name, None)
        moved = (error, _evicted_event(job, reason, code, subcode))
        return Changes(attributes, (*_OF_THIS_RUN, *EXIT_ATTRIBUTES, *_HOLD), JobEvent.REQUEUE, moved), Fate.WAITS
    attributes.update(hold_attributes(job, reason, code, subcode, end.at))
    events = (error, _evicted_event(job, reason, code, subcode), log.Held(reason, code, subcode))
    return Changes(attributes, (*_OF_THIS_RUN, *EXIT_ATTRIBUTES), JobEvent.HOLD, events), Fate.HELD


def _failed(job: ClassAd, attributes: Attributes, reason: str) -> tuple[Changes, Fate]:
    """This slot could not run it; another may."""
    attributes.update(_vacated(job, VacateCode.STARTER_ERROR, reason, 0))
    attributes.update(
        LastShadowException=reason,
        NumShadowExceptions=_plus(job, "NumShadowExceptions"),
    )
    event = log.ShadowException(reason, job.eval_float("BytesSent", 0.0), job.eval_float("BytesRecvd", 0.0))
    return Changes(attributes, (*_OF_THIS_RUN, *EXIT_ATTRIBUTES), JobEvent.REQUEUE, (event,)), Fate.WAITS


def lost(job: ClassAd, status: JobStatus, reason: str, now: float, system: SystemPolicy) -> tuple[Changes, Fate]:
    """The lease ran out in silence, or the slot says that it knows nothing of the job."""
    changes, fate = ended(
        job, status, End(Ending.EVICTED, ClassAd(), at=now), Stop(reason, VacateCode.RECONNECT_FAILED), now, system
    )
    failed = log.ReconnectFailed(reason, _where(job)[0])
    if fate is Fate.WAITS:
        return Changes(changes.attributes, changes.drop, changes.move, (failed,)), fate
    return Changes(changes.attributes, changes.drop, changes.move, (failed, *changes.events[1:])), fate


def hold(job: ClassAd, reason: str, code: int, subcode: int, now: float) -> Changes:
    """Put a job on hold. The log hears of it now, or, of one that has a slot, when it has left that."""
    return Changes(hold_attributes(job, reason, code, subcode, now), drop=("ReleaseReason",), move=JobEvent.HOLD)


def hold_attributes(job: ClassAd, reason: str, code: int, subcode: int, now: float) -> Attributes:
    """What a hold writes into the job."""
    attributes: Attributes = {
        "HoldReason": reason,
        "HoldReasonCode": code,
        "HoldReasonSubCode": subcode,
        "NumHolds": _plus(job, "NumHolds"),
        "NumHoldsByReason": _counted(job, "NumHoldsByReason", hold_code_name(code)),
    }
    if code not in NOT_A_SYSTEM_HOLD:
        attributes["NumSystemHolds"] = _plus(job, "NumSystemHolds")
    return attributes


def release(job: ClassAd, reason: str, now: float) -> Changes:
    """A job on hold may run again."""
    attributes: Attributes = {"ReleaseReason": reason}
    for name in ("HoldReason", "HoldReasonCode", "HoldReasonSubCode"):
        if name in job:
            attributes[f"Last{name}"] = job[name]
    return Changes(
        attributes,
        drop=("HoldReason", "HoldReasonCode", "HoldReasonSubCode"),
        move=JobEvent.RELEASE,
        events=(log.Released(reason),),
    )


def remove(reason: str) -> Changes:
    """Take a job out of the queue, once it has left its slot."""
    return Changes({"RemoveReason": reason}, move=JobEvent.REMOVE)


def _vacated(job: ClassAd, code: int, reason: str, subcode: int) -> Attributes:
    return {
        "NumVacates": _plus(job, "NumVacates"),
        "VacateReason": reason,
        "VacateReasonCode": int(code),
        "VacateReasonSubCode": subcode,
    }


def _vacates_by_reason(job: ClassAd, attributes: Attributes, now: float) -> Attributes:
    """When and why the job has left slots, and how often before it had started to run there."""
    code = attributes["VacateReasonCode"]
    label = vacate_code_name(code if isinstance(code, int) else 0)
    counted: Attributes = {
        "LastVacateTime": int(now),
        "NumVacatesByReason": _counted(job, "NumVacatesByReason", label),
    }
    executing = job.eval_int("JobCurrentStartExecutingDate", 0)
    if executing < job.eval_int("ShadowBday", 0):
        name = "NumVacatesByReasonPreExecution"
        counted[name] = _counted(job, name, label)
        counted["NumVacatesPreExecution"] = _plus(job, "NumVacatesPreExecution")
    return counted


def _evicted_event(job: ClassAd, reason: str, code: int = 0, subcode: int = 0, *, exited: bool = False) -> log.Evicted:
    return log.Evicted(
        reason=reason,
        code=int(code),
        subcode=subcode,
        exit=_exit(job) if exited else None,
        run_usage=_usage(job, ""),
        sent=job.eval_float("BytesSent", 0.0),
        received=job.eval_float("BytesRecvd", 0.0),
        table=usage_ad(job),
    )


def _exit(job: ClassAd) -> log.Exit:
    if job.eval_bool("ExitBySignal", False):
        return log.Exit(signal=job.eval_int("ExitSignal", 0), core_file=job.eval_str("JobCoreFileName", ""))
    return log.Exit(code=job.eval_int("ExitCode", 0))


def _usage(job: ClassAd, prefix: str) -> Usage:
    return Usage(
        job.eval_float(f"{prefix}RemoteUserCpu", 0.0),
        job.eval_float(f"{prefix}RemoteSysCpu", 0.0),
    )


def _counted(job: ClassAd, name: str, label: str) -> ClassAd:
    """A copy of a nested ad of counters with one of them raised."""
    known = job.get(name)
    counters = known.copy() if isinstance(known, ClassAd) else ClassAd()
    counters[label] = (counters.eval_int(label) or 0) + 1
    return counters


def _plus(job: ClassAd, name: str) -> int:
    return (job.eval_int(name) or 0) + 1


def _number(value: object, default: float | int) -> float | int:
    return value if isinstance(value, int | float) else default


def transfer_queued(job: ClassAd, *, upload: bool, now: float) -> Changes:
    """The job's input or output waits for its turn in the access point's transfer queue."""
    return _transfer(transfer_life.queued(job, upload=upload, now=now))


def transfer_started(job: ClassAd, *, upload: bool, now: float) -> Changes:
    """It is the turn of the job's input or output."""
    return _transfer(transfer_life.started(job, upload=upload, now=now))


def _transfer(decided: tuple[Attributes, list[TimedEvent]]) -> Changes:
    attributes, events = decided
    return Changes(attributes, earlier=tuple(events))


__all__ = [
    "Changes",
    "End",
    "Ending",
    "Fate",
    "HoldCode",
    "Stop",
    "begin",
    "continued",
    "disconnected",
    "ended",
    "executing",
    "hold",
    "lost",
    "not_started",
    "noticed",
    "reconnected",
    "release",
    "remove",
    "suspended",
    "transfer_queued",
    "transfer_started",
    "used",
]
