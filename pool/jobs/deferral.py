"""A job that starts at a given time: when it may be matched, and whether it waits, starts or has missed its moment."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.jobs.crontab import FIELDS, CronTab, FromLocal, LocalTime

DEFAULT_WINDOW = 0
DEFAULT_PREPARATION = 300
MISSED = "Job missed deferred execution time"
"""The hold's reason."""


class DeferralError(UserError):
    """DeferralTime or one of its companions is not a time."""


class Late(Enum):
    """How now stands to the moment of the start."""

    WAIT = "wait"
    START = "start"
    MISSED = "missed"


class Deferral(NamedTuple):
    """When the job starts, how many seconds late it may, and how many seconds before it may be matched."""

    time: int
    window: int = DEFAULT_WINDOW
    preparation: int = DEFAULT_PREPARATION

    def judge(self, now: float) -> Late:
        """Wait until the moment, start within the window, else too late."""
        if now < self.time:
            return Late.WAIT
        return Late.START if now - self.time <= self.window else Late.MISSED

    def left(self, now: float) -> float:
        """Seconds until the moment; after it, seconds that are left of the window."""
        return self.time - now if now < self.time else self.time + self.window - now


def deferral_of(ad: ClassAd, *, target: ClassAd | None = None) -> Deferral | None:
    """The job's deferral, or None when it has no DeferralTime; DeferralError when that is not a time."""
    if "DeferralTime" not in ad:
        return None
    moment = _seconds(ad, "DeferralTime", None, target)
    window = _seconds(ad, "DeferralWindow", DEFAULT_WINDOW, target)
    return Deferral(moment, window, _seconds(ad, "DeferralPrepTime", DEFAULT_PREPARATION, target))


def _seconds(ad: ClassAd, name: str, default: int | None, target: ClassAd | None) -> int:
    if name not in ad and default is not None:
        return default
    value = ad.eval(name, target)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        text = ad.text(name)
        raise DeferralError(f"{name} = {text} is not a time", expected="a number of seconds that is not negative")
    return value


def has_missed(ad: ClassAd, now: float) -> bool:
    """Whether an idle job's moment is over for good: it is not one of a crontab's, whose next moment comes."""
    if "DeferralTime" not in ad or any(name in ad for name, _, _ in FIELDS):
        return False
    try:
        deferral = deferral_of(ad)
    except DeferralError:  # it may ask what only the machine knows, where the starter looks again
        return False
    return deferral is not None and deferral.judge(now) is Late.MISSED


def next_deferral(ad: ClassAd, now: float, local: LocalTime, from_local: FromLocal) -> int | None:
    """The DeferralTime that the job's crontab gives from `now` on; None when it has no crontab.

    CronError when the fields cannot be read, DeferralError when their date never comes.
    """
    table = CronTab.of(ad)
    if table is None:
        return None
    found = table.next_run(now, local, from_local)
    if found is None:
        fields = " ".join(str(ad.get(name, "*")) for name, _, _ in FIELDS)
        raise DeferralError(f"the crontab {fields} names a date that never comes")
    return found
