"""What hooks are given to read, and what their output means."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pool.base.errors import ClassAdError
from pool.classad import ClassAd, parse_long
from pool.hooks.table import HookProgram

SEPARATOR: Final = "-----\n"
"""Between a job's ad and a slot's."""

HOLD_MAX: Final = 299
"""Up to this status a failed prepare hook puts the job on hold; above, the job may be tried elsewhere."""


class Verdict(Enum):
    """What becomes of a job after a prepare hook."""

    GO = "go"
    HOLD = "hold"
    IDLE = "idle"


@dataclass(frozen=True)
class Prepared:
    """What a prepare hook has decided. `message`: for the job's log; empty when there is nothing to tell."""

    verdict: Verdict
    updates: ClassAd = field(default_factory=ClassAd)
    status: int = 0
    message: str = ""


def prepared(program: HookProgram, status: int, stdout: str, *, timed_out: bool = False) -> Prepared:
    """What a prepare hook's end means; `status` is negative for a signal."""
    label = f"{program.hook.value} ({program.name})"
    # What takes too long may be the machine's fault: the job is tried elsewhere and not held.
    if timed_out:
        said = f"{label} failed (took longer than {program.timeout_s:g} seconds): <no message>"
        return Prepared(Verdict.IDLE, status=HOLD_MAX + 1, message=said)
    try:
        updates = parse_long(stdout)
    except ClassAdError as error:
        if status == 0:
            status = 1
        return _judged(label, status, f"exited with status {status}", f"its output is not an ad: {error.message}")
    message = updates.eval_str("HookStatusMessage") or ""
    reported = updates.eval_int("HookStatusCode", -1)
    how = f"exited with status {status}"
    if status < 0:
        how = f"died on signal {-status}"
    # What the hook says wins over its status, which scripts forget to set.
    elif reported >= 0:
        status, how = reported, f"reported status {reported:03d}"
    # Words to the starter: in the job's ad the next hook would find them.
    for name in ("HookStatusCode", "HookStatusMessage"):
        updates.pop(name, None)
    return _judged(label, status, how, message, updates)


def _judged(label: str, status: int, how: str, message: str, updates: ClassAd | None = None) -> Prepared:
    ended = "failed" if status else "succeeded"
    said = f"{label} {ended} ({how}): {message or '<no message>'}"
    if status == 0:
        return Prepared(Verdict.GO, updates if updates is not None else ClassAd(), message=said if message else "")
    # Died by a signal (a negative status) says nothing of the job.
    verdict = Verdict.HOLD if 0 < status <= HOLD_MAX else Verdict.IDLE
    return Prepared(verdict, status=status, message=said)


def changed_by(job: ClassAd, updates: ClassAd) -> ClassAd:
    """The job with a prepare hook's updates. A program that a hook names is not the one that was sent with the job."""
    after = job.flat()
    after.update(updates)
    if "Cmd" in updates:
        # Else the starter would look for it in the sandbox, under the name of the one that was sent.
        after["TransferExecutable"] = False
    return after


def job_and_slot(job: ClassAd, slot: ClassAd) -> str:
    """What REPLY_FETCH and EVICT_CLAIM read."""
    return f"{job.long()}{SEPARATOR}{slot.long()}"
