"""What happened to a job, as a value: attributes to set and to drop, a move of its state, the events for its log.

Here is also what the modules that return `Changes` share: how an execution ended, and figures read from a job's ad.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pool.classad import ClassAd
from pool.jobs.transfers import progress
from pool.jobs.transfers.progress import TimedEvent
from pool.jobs.userlog import event_log as log
from pool.jobs.userlog.event import LogEvent
from pool.jobs.userlog.usage import Usage
from pool.jobs.userlog.usage_table import usage_ad
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.states import JobEvent

Attributes = dict[str, object]


@dataclass(frozen=True)
class Changes:
    """What to do to a job, in one transaction."""

    attributes: Mapping[str, object] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    move: JobEvent | None = None
    events: tuple[LogEvent, ...] = ()
    earlier: tuple[TimedEvent, ...] = ()
    """Events that come before the others, with times of their own."""
    is_note: bool = False
    """No promise hangs on these attributes: they are kept with what is made durable next."""


class Fate(Enum):
    """Where the job is once its execution is over."""

    WAITS = "waits"
    HELD = "held"
    STAYS = "stays"
    """It is completed or removed, and stays in the queue because LeaveJobInQueue is true."""
    LEAVES = "leaves"


@dataclass(frozen=True)
class End:
    """What the starter reported, or what was found out about it."""

    ending: Ending
    ad: ClassAd
    reason: str = ""
    at: float = 0.0
    checkpointed: bool = False
    """The program was written down as it left."""


@dataclass(frozen=True)
class StopReason:
    """Why a job was told to leave its slot, when its own state does not say so."""

    reason: str
    code: int = 0
    subcode: int = 0


OF_THIS_RUN: Final = (
    "RemoteHost",
    "RemotePool",
    "RemoteSlotID",
    "StartdIpAddr",
    "PublicClaimId",
    "ShadowBday",
    "JobCurrentReconnectAttempt",
    "JobDisconnectedDate",
    *progress.STATES,
)


HOLD_ATTRIBUTES: Final = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")


EXIT_ATTRIBUTES: Final = ("ExitCode", "ExitSignal", "JobCoreDumped", "JobCoreFileName")


def suspension_over(job: ClassAd, now: float) -> Attributes:
    since = job.eval_int("LastSuspensionTime", 0)
    if not since:
        return {}
    total = job.eval_int("CumulativeSuspensionTime", 0) + max(0, int(now) - since)
    return {"CumulativeSuspensionTime": total, "LastSuspensionTime": 0}


def slot_of(job: ClassAd) -> tuple[str, str]:
    return job.eval_str("RemoteHost", "") or "unknown", job.eval_str("StartdIpAddr", "") or "unknown"


def vacate_attributes(job: ClassAd, code: int, reason: str, subcode: int) -> Attributes:
    return {
        "NumVacates": plus_one(job, "NumVacates"),
        "VacateReason": reason,
        "VacateReasonCode": int(code),
        "VacateReasonSubCode": subcode,
    }


def evicted_event(
    job: ClassAd, reason: str, code: int = 0, subcode: int = 0, *, exited: bool = False, checkpointed: bool = False
) -> log.Evicted:
    return log.Evicted(
        reason=reason,
        code=int(code),
        subcode=subcode,
        exit=exit_of(job) if exited else None,
        run_usage=usage_of(job, ""),
        sent=job.eval_float("BytesSent", 0.0),
        received=job.eval_float("BytesRecvd", 0.0),
        table=usage_ad(job),
        checkpointed=checkpointed,
    )


def exit_of(job: ClassAd) -> log.Exit:
    if job.eval_bool("ExitBySignal", False):
        return log.Exit(signal=job.eval_int("ExitSignal", 0), core_file=job.eval_str("JobCoreFileName", ""))
    return log.Exit(code=job.eval_int("ExitCode", 0))


def usage_of(job: ClassAd, prefix: str) -> Usage:
    return Usage(
        job.eval_float(f"{prefix}RemoteUserCpu", 0.0),
        job.eval_float(f"{prefix}RemoteSysCpu", 0.0),
    )


def counter_raised(job: ClassAd, name: str, label: str) -> ClassAd:
    """A copy of a nested ad of counters with one of them raised."""
    known = job.get(name)
    counters = known.copy() if isinstance(known, ClassAd) else ClassAd()
    counters[label] = (counters.eval_int(label) or 0) + 1
    return counters


def plus_one(job: ClassAd, name: str) -> int:
    return (job.eval_int(name) or 0) + 1


def number_or(value: object, default: float | int) -> float | int:
    """A number that can be added up; the default for NaN and infinity too, which no sum would ever lose again."""
    return value if isinstance(value, int | float) and math.isfinite(value) else default
