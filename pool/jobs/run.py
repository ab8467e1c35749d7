"""One execution of a job, seen from its schedd: what each thing that happens makes of the job's ad and its log.

Every function takes the job's ad as it is and returns `Changes`. How an execution ends is `conclusion`; what users and
policies do to a job besides is `holds`.

Source: HTCondor manual, "Job ClassAd Attributes" (classad-attributes/job-classad-attributes), for what each attribute
counts and when it is set:

* JobStartDate and FirstJobMatchDate are set once; JobCurrentStartDate, ShadowBday and RemoteHost by each execution,
  JobLastStartDate from the one before.
* NumShadowStarts and NumJobMatches count slots that were asked, NumJobStarts programs that were started.
* MachineAttrX0 is what the slot of this execution says of X, MachineAttrX1 what the one before said.
* JobDisconnectedDate is there only while nothing is heard from the slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pool.base.words import split_list
from pool.classad import ClassAd
from pool.jobs.changes import (
    EXIT_ATTRIBUTES,
    OF_THIS_RUN,
    Attributes,
    Changes,
    number_or,
    plus_one,
    slot_of,
    suspension_over,
    usage_of,
)
from pool.jobs.transfers import progress
from pool.jobs.transfers.progress import TimedEvent
from pool.jobs.userlog import event_log as log
from pool.jobs.vocabulary.states import JobEvent

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
    pool: str = "",
) -> Changes:
    """A slot is asked to run the job. `machine_attrs`: attributes of the slot that all jobs keep. `pool`: the other
    pool that the slot is of."""
    second = int(now)
    names = split_list(slot.eval_str("MachineResources") or DEFAULT_RESOURCES)
    attributes: Attributes = {
        "CurrentHosts": 1,
        "FirstJobMatchDate": job.eval_int("FirstJobMatchDate", second),
        "JobCurrentStartDate": second,
        "JobRunCount": plus_one(job, "JobRunCount"),
        "JobStartDate": job.eval_int("JobStartDate", second),
        "LastJobLeaseRenewal": second,
        "LastMatchTime": second,
        "NumJobMatches": plus_one(job, "NumJobMatches"),
        "NumShadowStarts": plus_one(job, "NumShadowStarts"),
        "ProvisionedResources": ", ".join(names),
        "PublicClaimId": public_claim,
        "RemoteHost": slot.eval_str("Name", ""),
        "RemoteSlotID": slot.eval_int("SlotID", 1),
        "ShadowBday": second,
        "StartdIpAddr": startd_address,
        "MachineAttrCpus0": slot.eval_int("Cpus", 1),
        "MachineAttrSlotWeight0": number_or(slot.eval("SlotWeight"), slot.eval_int("Cpus", 1)),
    }
    if pool:
        attributes["RemotePool"] = pool
    # Manual, "Job ClassAd Attributes", InitialWaitDuration: until the first attempt, and never anew.
    if "FirstJobMatchDate" not in job:
        attributes["InitialWaitDuration"] = second - job.eval_int("QDate", second)
    if "JobCurrentStartDate" in job:
        attributes["JobLastStartDate"] = job["JobCurrentStartDate"]
    attributes.update(_given(slot, names))
    attributes.update(_last_matches(job, slot))
    own = split_list(job.eval_str("JobMachineAttrs"))
    for name in (*machine_attrs, *own) if own else machine_attrs:
        if f"MachineAttr{name}0" not in attributes:
            attributes[f"MachineAttr{name}0"] = slot.eval(name, job)
    length = max(history_length, job.eval_int("JobMachineAttrsHistoryLength") or 0)
    if length > 1:
        _remember(job, attributes, length)
    return Changes(attributes, drop=(*EXIT_ATTRIBUTES, *progress.MOMENTS), move=JobEvent.START)


def _given(slot: ClassAd, names: Iterable[str]) -> Attributes:
    """How much of each resource the slot has for the job, and which pieces."""
    given: Attributes = {}
    for name in names:
        amount, pieces = slot.eval(name), slot.eval_str(f"Assigned{name}")
        if isinstance(amount, int | float):
            given[f"{name}Provisioned"] = amount
        if pieces:
            given[f"Assigned{name}"] = pieces
    return given


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


def not_started() -> Changes:
    """The slot refused the job after all; it waits for another."""
    return Changes({"CurrentHosts": 0}, drop=OF_THIS_RUN, move=JobEvent.REQUEUE)


def executing(job: ClassAd, slot: ClassAd, startd_address: str, started: ClassAd, at: float) -> Changes:
    """The program was started. `started` is what the starter says of it."""
    second = int(at)
    attributes: Attributes = {
        "JobCurrentStartExecutingDate": second,
        "NumJobStarts": plus_one(job, "NumJobStarts"),
        "ActivationSetupDuration": max(0, second - job.eval_int("ShadowBday", second)),
    }
    attributes.update(started.items())
    earlier = progress.reported(job, attributes)
    shown: Attributes = {}
    for name in split_list(job.eval_str("ProvisionedResources") or DEFAULT_RESOURCES):
        given = job.eval(f"{name}Provisioned")
        if isinstance(given, int | float):
            shown[name] = given
        assigned = job.eval_str(f"Assigned{name}")
        if assigned:
            shown[f"Assigned{name}"] = assigned
    scratch = started.eval_str("CondorScratchDir")
    if scratch:
        shown["CondorScratchDir"] = scratch
        # It is for the event alone: in the job's ad it would outlive the sandbox.
        del attributes["CondorScratchDir"]
    for name in split_list(job.eval_str("UserLogExecuteEventAttrs")):
        if name in slot and name not in shown:
            shown[name] = slot[name]
    name = slot.eval_str("Name", "")
    return Changes(attributes, events=(log.Executing(startd_address, name, shown),), earlier=tuple(earlier))


def used(job: ClassAd, update: ClassAd) -> Changes:
    """What the running job uses now. The log hears of a new size; all else is told again, also after a crash."""
    attributes: Attributes = dict(update.items())
    earlier = progress.reported(job, attributes)
    changes = _used(job, update, attributes)
    return replace(changes, earlier=tuple(earlier), is_note=False) if earlier else changes


def _used(job: ClassAd, update: ClassAd, attributes: Attributes) -> Changes:
    if "CheckpointNumber" in update:
        return _checkpointed(job, attributes)
    size, known = update.eval_int("ImageSize"), job.eval_int("ImageSize") or 0
    if size is None or (size <= known and "ResidentSetSize_RAW" in job):
        return Changes(attributes, is_note=True)
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
    attributes["NumCkpts"] = plus_one(job, "NumCkpts")
    after = job.copy()
    after.update(attributes)
    event = log.Checkpointed(usage_of(after, ""), after.eval_float("BytesSent", 0.0))
    return Changes(attributes, ("CheckpointFailedReason",), events=(event,))


def noticed(host: str, message: str) -> Changes:
    """The machine has something to say to the job's user, and the job goes on."""
    return Changes(events=(log.RemoteErrorEvent("starter", host, message, critical=False),))


def suspended(job: ClassAd, now: float) -> Changes:
    """The job's processes were frozen."""
    attributes = {"LastSuspensionTime": int(now), "TotalSuspensions": plus_one(job, "TotalSuspensions")}
    return Changes(attributes, move=JobEvent.SUSPEND, events=(log.Suspended(job.eval_int("NumPids", 0)),))


def continued(job: ClassAd, now: float) -> Changes:
    """The job's processes go on."""
    return Changes(suspension_over(job, now), move=JobEvent.CONTINUE, events=(log.Continued(),))


def disconnected(job: ClassAd, reason: str, now: float) -> Changes:
    """Nothing is heard from the job's slot; its lease still runs."""
    # Told once: the schedd tries again and again, and the log would fill with the same.
    if job.eval_int("JobDisconnectedDate") is not None:
        return Changes()
    attributes = {
        "JobDisconnectedDate": int(now),
        "JobCurrentReconnectAttempt": 1,
        "TotalJobReconnectAttempts": plus_one(job, "TotalJobReconnectAttempts"),
    }
    return Changes(attributes, events=(log.Disconnected(reason, *slot_of(job)),))


def reconnected(job: ClassAd, starter_address: str) -> Changes:
    """The starter is back."""
    if job.eval_int("JobDisconnectedDate") is None:
        return Changes()
    event = log.Reconnected(*slot_of(job), starter_address or slot_of(job)[1])
    return Changes(
        {"NumJobReconnects": plus_one(job, "NumJobReconnects")},
        drop=("JobDisconnectedDate", "JobCurrentReconnectAttempt"),
        events=(event,),
    )


def transfer_queued(job: ClassAd, *, upload: bool, now: float) -> Changes:
    """The job's input or output waits for its turn in the access point's transfer queue."""
    return _transfer(progress.queued(job, upload=upload, now=now))


def transfer_started(job: ClassAd, *, upload: bool, now: float) -> Changes:
    """It is the turn of the job's input or output."""
    return _transfer(progress.started(job, upload=upload, now=now))


def _transfer(decided: tuple[Attributes, list[TimedEvent]]) -> Changes:
    attributes, events = decided
    return Changes(attributes, earlier=tuple(events))
