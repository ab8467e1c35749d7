"""What can happen to a claim: in its schedd, as its startd says, or on the way between them."""

from __future__ import annotations

from dataclasses import dataclass

from pool.jobs.execution.states import Known


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened."""


@dataclass(frozen=True, slots=True)
class Granted(Event):
    """the startd grants the slot"""

    lease_s: float = 0.0
    """The lease that it gives; 0 where it does not say."""


class Refused(Event):
    """the startd does not grant the slot, or cannot be asked"""


# ---- what the schedd does with it


@dataclass(frozen=True, slots=True)
class JobGiven(Event):
    """a job is to have the slot"""

    activation: str
    lease_s: float = 0.0
    """How long that job's lease is to be; 0: as it is."""


class Asked(Event):
    """the startd is asked to start the job"""


@dataclass(frozen=True, slots=True)
class Started(Event):
    """the startd says that it starts the job"""

    lease_s: float = 0.0
    """How long it waits for a word meanwhile; 0 where it does not say."""


class NotStarted(Event):
    """the startd says that it does not start the job"""


@dataclass(frozen=True, slots=True)
class JobOver(Event):
    """the execution there is over"""

    reported: bool
    """Its starter has reported the end."""
    slot_is_good: bool = True
    """The slot may have another job."""


class Spoiled(Event):
    """something went wrong there: no other job shall have the slot"""


class Unneeded(Event):
    """no job is to have the slot"""


class GivenUp(Event):
    """the slot is given up, whatever may run there"""


# ---- what the startd says


@dataclass(frozen=True, slots=True)
class OfJob(Event):
    """the startd says something of the job"""

    activation: str
    """Which execution it means; empty: whatever runs."""


@dataclass(frozen=True, slots=True)
class Vacating(OfJob):
    """the startd takes the slot away, and has told the job to leave"""

    reason: str = ""
    hold_code: int = 0
    hold_subcode: int = 0


@dataclass(frozen=True, slots=True)
class Frozen(OfJob):
    """the startd has frozen the job, or thawed it"""

    suspended: bool = True


@dataclass(frozen=True, slots=True)
class StarterGone(OfJob):
    """the startd says that the starter is gone"""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class EndedThere(Event):
    """the startd has ended the claim"""

    reason: str = ""


class Renewed(Event):
    """the startd says that it holds the claim"""


@dataclass(frozen=True, slots=True)
class Held(Event):
    """the startd is back, and holds the claim"""

    activation: str = ""
    """What it runs there."""
    ran: str = ""
    known: Known = Known.UNASKED
    """What the claim ran when the startd was asked, and what was known then: it may have another job since."""


@dataclass(frozen=True, slots=True)
class NotHeld(Event):
    """the startd says that it does not hold the claim"""

    reason: str = "The startd no longer holds the claim"


class ReleaseLost(Event):
    """the startd could not be told that the slot is given back"""


# ---- the way to it


class Spoken(Event):
    """a word about the claim is on its way to the startd"""


@dataclass(frozen=True, slots=True)
class LinkLost(Event):
    """the connection to the startd is lost"""

    reason: str = ""


class Unreached(Event):
    """the startd could not be reached"""
