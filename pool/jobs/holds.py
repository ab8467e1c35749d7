"""A job is put on hold, released or removed: what that writes into its ad and its log."""

from __future__ import annotations

from pool.classad import ClassAd
from pool.jobs.changes import (
    HOLD_ATTRIBUTES,
    Attributes,
    Changes,
    counter_raised,
    plus_one,
)
from pool.jobs.userlog import event_log as log
from pool.jobs.vocabulary.hold_codes import (
    NOT_A_SYSTEM_HOLD,
    hold_code_name,
)
from pool.jobs.vocabulary.states import JobEvent


def hold(job: ClassAd, reason: str, code: int, subcode: int) -> Changes:
    """Put a job on hold. The log hears of it now, or, of one that has a slot, when it has left that."""
    return Changes(hold_attributes(job, reason, code, subcode), drop=("ReleaseReason",), move=JobEvent.HOLD)


def hold_attributes(job: ClassAd, reason: str, code: int, subcode: int) -> Attributes:
    """What a hold writes into the job."""
    attributes: Attributes = {
        "HoldReason": reason,
        "HoldReasonCode": code,
        "HoldReasonSubCode": subcode,
        "NumHolds": plus_one(job, "NumHolds"),
        "NumHoldsByReason": counter_raised(job, "NumHoldsByReason", hold_code_name(code)),
    }
    # Manual, "Job ClassAd Attributes", NumSystemHolds: holds for an error, and not those that somebody asked for.
    if code not in NOT_A_SYSTEM_HOLD:
        attributes["NumSystemHolds"] = plus_one(job, "NumSystemHolds")
    return attributes


def release(job: ClassAd, reason: str) -> Changes:
    """A job on hold may run again."""
    attributes: Attributes = {"ReleaseReason": reason}
    for name in HOLD_ATTRIBUTES:
        if name in job:
            attributes[f"Last{name}"] = job[name]
    return Changes(
        attributes,
        drop=HOLD_ATTRIBUTES,
        move=JobEvent.RELEASE,
        events=(log.Released(reason),),
    )


def remove(reason: str) -> Changes:
    """Take a job out of the queue, once it has left its slot."""
    return Changes({"RemoveReason": reason}, move=JobEvent.REMOVE)
