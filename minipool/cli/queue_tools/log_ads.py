"""Jobs as an event log tells of them: what -userlog shows instead of a queue or a history."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.jobs.userlog.reader import EventReader, LoggedEvent
from pool.jobs.vocabulary.states import JobStatus


def jobs_of_log(path: str, *, cannot: str) -> list[ClassAd]:
    """An ad for each job that the log saw submitted. `cannot`: what is said when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        raise UserError(cannot.format(path=path)) from None
    return jobs_of_events(EventReader().feed(text), path)


def jobs_of_events(events: Iterable[LoggedEvent], path: str) -> list[ClassAd]:
    """An ad for each job, as its events left it."""
    jobs: dict[tuple[int, int], ClassAd] = {}
    for event in events:
        key = event.job.cluster, event.job.proc
        if event.number == 0:
            jobs[key] = _submitted(event, path)
        elif key in jobs:
            _step(jobs[key], event)
    return list(jobs.values())


def _owner() -> str:
    try:
        from pwd import getpwuid

        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return "???"


def _submitted(event: LoggedEvent, path: str) -> ClassAd:
    at, (cluster, proc) = int(event.at), (event.job.cluster, event.job.proc)
    counts = ("JobPrio", "ImageSize", "LastSuspensionTime", "CompletionDate", "NumJobStarts", "TotalSuspensions",
              "NumSystemHolds")  # fmt: skip
    times = ("LocalUserCpu", "RemoteUserCpu", "LocalSysCpu", "RemoteSysCpu", "RemoteWallClockTime")
    return ClassAd(
        {
            "MyType": "Job",
            "TargetType": "Machine",
            "ClusterId": cluster,
            "ProcId": proc,
            "UserLog": path,
            "QDate": at,
            "EnteredCurrentStatus": at,
            # What HTCondor makes up for -userlog (userlog_to_classads.cpp), so that formats which name these attributes
            # work.
            "GlobalJobId": f"localhost#{cluster}.{proc}#{at}",
            "ServerTime": int(time.time()),
            "SubmitHost": event.attributes.get("SubmitHost", ""),
            "JobStatus": JobStatus.IDLE,
            "LastJobStatus": 0,
            # A log does not say whose jobs they are; who can read it is most likely their owner.
            "Owner": _owner(),
            "Cmd": "???",
            **dict.fromkeys(counts, 0),
            **dict.fromkeys(times, 0.0),
        }
    )


def _step(ad: ClassAd, event: LoggedEvent) -> None:
    """What one event changes."""
    step = {
        1: _executing, 4: _evicted, 5: _terminated, 6: _image_size, 9: _removed, 10: _suspended, 11: _continued,
        12: _held, 13: _released,
    }.get(event.number)  # fmt: skip
    if step is not None:
        step(ad, event)


def _enter(ad: ClassAd, status: int, at: float) -> None:
    ad["LastJobStatus"], ad["JobStatus"] = ad.eval_int("JobStatus", 0), status
    ad["EnteredCurrentStatus"] = int(at)


def _leave_host(ad: ClassAd, at: float) -> None:
    """The run is over: its host and its time are counted."""
    host = ad.eval_str("RemoteHost")
    if host is not None:
        ad["LastRemoteHost"] = host
        del ad["RemoteHost"]
    started = ad.eval_int("JobCurrentStartDate")
    if started is not None:
        ran = float(int(at) - started)
        ad["LastRemoteWallClockTime"] = ran
        ad["RemoteWallClockTime"] = ad.eval_float("RemoteWallClockTime", 0.0) + ran


def _executing(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.RUNNING, event.at)
    ad["JobCurrentStartDate"] = int(event.at)
    ad["NumJobStarts"] = ad.eval_int("NumJobStarts", 0) + 1
    ad["StartdIpAddr"] = ad["RemoteHost"] = event.attributes.get("ExecuteHost", "")


def _terminated(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.COMPLETED, event.at)
    ad["CompletionDate"] = int(event.at)
    normal = event.attributes.get("TerminatedNormally", True) is True
    ad["ExitBySignal"] = not normal
    name, source = ("ExitCode", "ReturnValue") if normal else ("ExitSignal", "TerminatedBySignal")
    if source in event.attributes:
        ad[name] = event.attributes[source]
    _leave_host(ad, event.at)


def _evicted(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.IDLE, event.at)
    _leave_host(ad, event.at)


def _removed(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.REMOVED, event.at)
    _leave_host(ad, event.at)
    if "Reason" in event.attributes:
        ad["RemoveReason"] = event.attributes["Reason"]


def _image_size(ad: ClassAd, event: LoggedEvent) -> None:
    for name, source in (("ImageSize", "Size"), ("MemoryUsage", "MemoryUsage"), ("ResidentSetSize", "ResidentSetSize")):
        if source in event.attributes:
            ad[name] = event.attributes[source]


def _suspended(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.SUSPENDED, event.at)
    ad["LastSuspensionTime"] = int(event.at)
    ad["TotalSuspensions"] = ad.eval_int("TotalSuspensions", 0) + 1


def _continued(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.RUNNING, event.at)


def _held(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.HELD, event.at)
    _leave_host(ad, event.at)
    ad["NumSystemHolds"] = ad.eval_int("NumSystemHolds", 0) + 1
    for name in ("HoldReason", "HoldReasonCode", "HoldReasonSubCode"):
        if name in event.attributes:
            ad[name] = event.attributes[name]


def _released(ad: ClassAd, event: LoggedEvent) -> None:
    _enter(ad, JobStatus.IDLE, event.at)
    for name in ("HoldReason", "HoldReasonCode", "HoldReasonSubCode"):
        if name in ad:
            ad[f"Last{name}"] = ad[name]
            del ad[name]
