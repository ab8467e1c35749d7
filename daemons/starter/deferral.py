"""Holds a job back until the moment that it asked for, by this machine's clock."""

from __future__ import annotations

import time
from typing import Final

import trio

from pool.classad import ClassAd
from pool.execute.exit import Hold
from pool.jobs.deferral import MISSED, DeferralError, Late, deferral_of
from pool.jobs.vocabulary.hold_codes import HoldCode

LONGEST_SLEEP_S: Final = 10.0
"""The clock may be set while the job waits."""


async def wait_for_moment(job: ClassAd, slot: ClassAd) -> Hold | None:
    """Return when the job may start; why it is to be held when its moment has passed, or is none."""
    if "DeferralTime" not in job:
        return None
    try:
        deferral = deferral_of(job, target=slot)
    except DeferralError as error:
        return Hold(f"Invalid deferral: {error}", HoldCode.MISSED_DEFERRED_EXECUTION_TIME)
    assert deferral is not None
    grace_s = 0.0
    while (late := deferral.judge(now := int(time.time()))) is Late.WAIT:
        grace_s = LONGEST_SLEEP_S  # whoever waited has not missed the moment by what waking up takes
        await trio.sleep(min(LONGEST_SLEEP_S, max(0.01, deferral.time - time.time())))
    if late is Late.MISSED and now - deferral.time > deferral.window + grace_s:
        return Hold(MISSED, HoldCode.MISSED_DEFERRED_EXECUTION_TIME)
    return None
