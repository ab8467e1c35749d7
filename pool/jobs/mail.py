"""Mail about jobs: whom their owners want told of what, and in which words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pool.base.ids import JobId
from pool.base.words import split_list
from pool.classad import ClassAd
from pool.jobs.userlog import event_log
from pool.jobs.userlog.event import LogEvent
from pool.jobs.vocabulary.hold_codes import NOT_A_SYSTEM_HOLD

_ADDRESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=%-]*(@[A-Za-z0-9][A-Za-z0-9.-]*)?\Z", re.ASCII)
RECIPIENTS_MAX: Final = 20


class Notification(IntEnum):
    """JobNotification."""

    NEVER = 0
    ALWAYS = 1
    COMPLETE = 2
    ERROR = 3
    START = 4


@dataclass(frozen=True)
class Letter:
    """One mail, of the account `owner`."""

    owner: str
    to: tuple[str, ...]
    subject: str
    body: str


def letter(job: ClassAd, event: LogEvent, uid_domain: str) -> Letter | None:
    """The mail that the job's owner wants about this event, if any."""
    wish = job.eval_int("JobNotification", 0)
    said = _said(job, event, wish)
    to = _recipients(job, uid_domain)
    if not said or not to:
        return None
    id = JobId(job.eval_int("ClusterId", 0), job.eval_int("ProcId", 0))
    owner = job.eval_str("OsUser") or job.eval_str("Owner") or ""
    return Letter(
        owner, to, f"[Condor] Condor Job {id}", f"Your Condor job {id}\n{_command(job)}\n{said}\n{_more(job)}"
    )


def _said(job: ClassAd, event: LogEvent, wish: int) -> str:
    """What happened, in a few lines; nothing where its owner does not want to know."""
    if isinstance(event, event_log.Executing):
        first = job.eval_int("NumJobStarts", 0) <= 1
        return "has begun to run." if wish == Notification.START and first else ""
    if isinstance(event, event_log.Terminated):
        wants = wish in (Notification.ALWAYS, Notification.COMPLETE) or (
            wish == Notification.ERROR and not _succeeded(job)
        )
        return _end(job) if wants else ""
    if isinstance(event, event_log.Held):
        wants = wish in (Notification.ALWAYS, Notification.ERROR) and event.code not in NOT_A_SYSTEM_HOLD
        return f"is being put on hold.\n\n{event.reason}" if wants else ""
    return ""


def _succeeded(job: ClassAd) -> bool:
    if job.eval_bool("ExitBySignal", False):
        return False
    return job.eval_int("ExitCode", 0) == job.eval_int("JobSuccessExitCode", 0)


def _end(job: ClassAd) -> str:
    if job.eval_bool("ExitBySignal", False):
        how = f"was killed by signal {job.eval_int('ExitSignal', 0)}"
    else:
        how = f"exited normally with status {job.eval_int('ExitCode', 0)}"
    user, system = job.eval_float("RemoteUserCpu", 0.0), job.eval_float("RemoteSysCpu", 0.0)
    wall = job.eval_float("RemoteWallClockTime", 0.0)
    return (
        f"has {how}\n\nStatistics from all its runs:\n  Real time:   {wall:.0f} s\n"
        f"  User time:   {user:.0f} s\n  System time: {system:.0f} s"
    )


def _command(job: ClassAd) -> str:
    return f"\t{job.eval_str('Cmd') or ''} {job.eval_str('Arguments') or job.eval_str('Args') or ''}".rstrip()


def _more(job: ClassAd) -> str:
    """The attributes that the owner wants to read (email_attributes)."""
    names = split_list(job.eval_str("EmailAttributes"))
    lines = [f"{name} = {job.text(name) if name in job else 'UNDEFINED'}\n" for name in names]
    return "".join(["\n", *lines]) if lines else ""


def _recipients(job: ClassAd, uid_domain: str) -> tuple[str, ...]:
    """Whom to write to; what is no address is left out, so that nobody's words become a mailer's options."""
    named = job.eval_str("NotifyUser") or job.eval_str("Owner") or ""
    found = [name if "@" in name else f"{name}@{uid_domain}" for name in split_list(named)]
    # \Z and not $: a line end after the address would begin a header of its own.
    return tuple(name for name in found[:RECIPIENTS_MAX] if _ADDRESS.match(name))
