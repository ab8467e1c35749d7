"""What can happen to an execution: in its schedd, as startd and starter say, or because time passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pool.classad import ClassAd
from pool.jobs.changes import Changes, End, StopReason
from pool.jobs.execution.states import NEVER, Known


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened."""


class Prepared(Event):
    """all that a starter is given is there"""


@dataclass(frozen=True, slots=True)
class CannotStart(Event):
    """it cannot be started, or the startd does not start it"""

    reason: str
    slot_is_good: bool = True


class UpToDate(Event):
    """its output is newer than its input"""


class Started(Event):
    """the startd has started it"""


@dataclass(frozen=True, slots=True)
class AnswerLost(Event):
    """the connection was lost before the startd's answer came"""

    reason: str


@dataclass(frozen=True, slots=True)
class StarterHere(Event):
    """the starter is here, or here again"""

    address: str = ""


@dataclass(frozen=True, slots=True)
class Executing(Event):
    """the starter says that the program runs"""

    at: float
    ad: ClassAd


@dataclass(frozen=True, slots=True)
class Said(Event):
    """the starter or the startd says something of the job"""

    change: Callable[[ClassAd], Changes]
    """What that makes of the job's ad."""


class PolicyDue(Event):
    """its periodic policy is to be asked"""


@dataclass(frozen=True, slots=True)
class Reported(Event):
    """the starter reports the end"""

    end: End


class StarterRests(Event):
    """the starter leaves the job alone until it is woken"""


@dataclass(frozen=True, slots=True)
class StarterLost(Event):
    """the connection to the starter is lost"""

    reason: str


@dataclass(frozen=True, slots=True)
class SlotLost(Event):
    """the connection to the startd is lost"""

    reason: str


class SlotAway(Event):
    """the startd cannot be reached either"""


class SlotRunsIt(Event):
    """the startd is back, and runs it"""


@dataclass(frozen=True, slots=True)
class SlotRunsNothing(Event):
    """the startd is back, and does not run it"""

    known: Known
    """What was known when the startd was asked: it may have been given the job since."""


@dataclass(frozen=True, slots=True)
class Vacated(Event):
    """the startd has told it to leave"""

    stop: StopReason


@dataclass(frozen=True, slots=True)
class NothingRuns(Event):
    """the startd says that nothing runs"""

    end: End
    stop: StopReason | None = None


@dataclass(frozen=True, slots=True)
class ClaimLost(Event):
    """the claim is over, and nobody says what became of it"""

    reason: str


@dataclass(frozen=True, slots=True)
class Stop(Event):
    """it shall leave"""

    stop: StopReason
    fast: bool = False
    transfer: bool = False
    pause_s: float = 0.0
    """How long it is left alone before it is told."""
    patience_s: float = NEVER
    """How long it is waited for after that."""


class NotTold(Event):
    """the startd could not be reached to be told"""


@dataclass(frozen=True, slots=True)
class NotHeeded(Event):
    """the startd will not have it leave"""

    reason: str


class Time(Event):
    """time has passed"""


class Silence(Event):
    """nothing is heard of it: the startd cannot be reached either, or an alive interval has passed"""


class Turn(Event):
    """it is its turn to be told"""


class NoReport(Event):
    """the starter will not report any more"""


class PatienceOver(Event):
    """it was removed, and its slot did not end it in time"""
