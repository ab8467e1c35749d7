"""A job's transfers as its ad and its log tell of them: queued, begun, over.

What waits in the access point's queue is told as it happens. Of the rest the starter says when it began and ended, with
what it says anyway (that the program runs, that it is over); events then have the times of what they tell, and stand
before the one that they came with. What this execution's ad has already, the log has too.
"""

from __future__ import annotations

import math
from typing import Final

from pool.classad import ClassAd
from pool.jobs.userlog.event import LogEvent
from pool.jobs.userlog.event_log import FileTransfer

TimedEvent = tuple[float, LogEvent]

IN_QUEUED, IN_STARTED, IN_FINISHED, OUT_QUEUED, OUT_STARTED, OUT_FINISHED = range(1, 7)
STATES: Final = ("TransferQueued", "TransferringInput", "TransferringOutput")
"""What is known of an execution while it lasts."""
MOMENTS: Final = tuple(f"Transfer{way}{what}" for way in ("In", "Out") for what in ("Queued", "Started", "Finished"))
"""What is known of the newest execution: the next one begins without."""


def queued(job: ClassAd, *, upload: bool, now: float) -> tuple[dict[str, object], list[TimedEvent]]:
    """Its files wait for their turn."""
    name, moving = ("TransferInQueued", "TransferringInput") if upload else ("TransferOutQueued", "TransferringOutput")
    attributes: dict[str, object] = {"TransferQueued": True, moving: True}
    if _is_known(job, name) or _is_known(job, _started(upload)):
        return attributes, []  # asked again, after a cut connection
    events = [] if upload else _end_of_input(job, attributes, now)
    attributes[name] = int(now)
    event = FileTransfer(IN_QUEUED, _host(job)) if upload else FileTransfer(OUT_QUEUED)
    return attributes, [*events, (now, event)]


def started(job: ClassAd, *, upload: bool, now: float) -> tuple[dict[str, object], list[TimedEvent]]:
    """They move."""
    attributes: dict[str, object] = {
        "TransferQueued": False,
        "TransferringInput" if upload else "TransferringOutput": True,
    }
    if not upload:
        attributes["TransferringInput"] = False
    if _is_known(job, _started(upload)):
        return attributes, []
    events = [] if upload else _end_of_input(job, attributes, now)
    attributes[_started(upload)] = int(now)
    return attributes, [*events, (now, _start_event(job, upload, now))]


def _end_of_input(job: ClassAd, attributes: dict[str, object], now: float) -> list[TimedEvent]:
    """Output comes, so the input is there: a job of a moment is over before its starter has said so."""
    events: list[TimedEvent] = []
    for name, event in ((_started(True), _start_event(job, True, now)), (_finished(True), FileTransfer(IN_FINISHED))):
        if not _is_known(job, name):
            attributes[name] = int(now)
            events.append((now, event))
    return events


def reported(job: ClassAd, said: dict[str, object]) -> list[TimedEvent]:
    """What a starter's report makes of the job: the events not yet written; `said` becomes what its ad shall say."""
    events: list[TimedEvent] = []
    for upload in (True, False):
        start, finish = _started(upload), _finished(upload)
        began, ended = _time(said.get(start)), _time(said.get(finish))
        if began is not None and ended is None and job.eval_bool("TransferQueued", False):
            del said[start]  # it waits here, which its starter cannot know
            continue
        if began is not None:
            if _is_known(job, start):
                said[start] = job[start]
            else:
                events.append((began, _start_event(job, upload, began)))
            said["TransferringInput" if upload else "TransferringOutput"] = ended is None
            said["TransferQueued"] = False
        if ended is not None and not _is_known(job, finish):
            events.append((ended, FileTransfer(IN_FINISHED if upload else OUT_FINISHED)))
    return events


def _start_event(job: ClassAd, upload: bool, at: float) -> FileTransfer:
    name = "TransferInQueued" if upload else "TransferOutQueued"
    kind = IN_STARTED if upload else OUT_STARTED
    if _is_known(job, name):
        return FileTransfer(kind, queueing_delay=max(0, int(at) - int(job.eval_int(name, 0))))
    return FileTransfer(kind, _host(job) if upload else "")


def _started(upload: bool) -> str:
    return "TransferInStarted" if upload else "TransferOutStarted"


def _finished(upload: bool) -> str:
    return "TransferInFinished" if upload else "TransferOutFinished"


def _is_known(job: ClassAd, name: str) -> bool:
    return job.eval_int(name) is not None


def _time(value: object) -> float | None:
    # A starter is not trusted with times: NaN or infinity is no moment that a log could show.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _host(job: ClassAd) -> str:
    return job.eval_str("StartdIpAddr") or ""
