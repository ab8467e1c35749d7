"""What an execution has come to, and what is known of it. Times are those of one clock, in seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from pool.jobs.changes import End, StopReason
from pool.slots.lease import ALIVE_INTERVAL_S

NEVER: Final = math.inf


class Known(StrEnum):
    """What is known of the startd's part in it."""

    UNASKED = "the startd has not been asked"
    ASKED = "the startd has not answered yet"
    IN_DOUBT = "the startd's answer was lost"
    STARTED = "the job has a starter"


class Starter(StrEnum):
    """Where its starter is, as far as the schedd knows."""

    AWAY = "there is no connection to it"
    HERE = "there is a connection to it"
    RESTS = "it has left the job alone, and its startd can wake it"


@dataclass(frozen=True, slots=True)
class ByReport:
    """It ended as its starter reported."""

    end: End


@dataclass(frozen=True, slots=True)
class ByWord:
    """The startd says that nothing runs, and no starter has reported: it ended as that word says."""

    end: End


@dataclass(frozen=True, slots=True)
class Lost:
    """Nobody says what became of it, and nobody will."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unstarted:
    """It never ran; `reason` is empty where its own schedd did not want it to."""

    reason: str = ""
    slot_is_good: bool = True
    """The slot may have the next job."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """It need not run: its output is newer than its input."""


Outcome: TypeAlias = ByReport | ByWord | Lost | Unstarted | Skipped


@dataclass(frozen=True, slots=True)
class Starting:
    """A starter is to be set to work on the job."""


@dataclass(frozen=True, slots=True)
class Running:
    """The job has a starter."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """Nothing has been heard of the job for a while; the claim's lease still runs."""

    since: float


@dataclass(frozen=True, slots=True)
class Leaving:
    """The job shall end: at once (`fast`), or in the time that it may take."""

    fast: bool = False
    told: bool = False
    """The startd knows, or is just being told."""


@dataclass(frozen=True, slots=True)
class Over:
    """It is known what came of it."""

    outcome: Outcome


State: TypeAlias = Starting | Running | Disconnected | Leaving | Over


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution: its state, and what is known beside it."""

    slot: str
    state: State = Starting()
    known: Known = Known.UNASKED
    stop: StopReason | None = None
    """Why the job shall leave, where its own state does not say so."""
    transfer: bool = False
    """Its output is wanted although it was told to leave."""
    counted: bool = False
    """It was started, and the job's ad says so."""
    starter: Starter = Starter.AWAY
    silent_at: float = NEVER
    silence: str = ""
    """When its log hears that nothing is heard of the job, and why that is."""
    tell_at: float = NEVER
    """When it is its turn to be told to leave."""
    give_up_at: float = NEVER
    patience_s: float = NEVER
    """When it is waited for no longer, and how long that was, without the wait for its turn."""
    verdict: ByWord | Lost | None = None
    """What it comes to unless its starter reports."""
    alive_s: float = ALIVE_INTERVAL_S
    """How often its slot is asked for a sign of life: so long may a starter that is away be on its way back."""

    @property
    def is_over(self) -> bool:
        """Whether it is known what came of it."""
        return isinstance(self.state, Over)

    @property
    def may_report(self) -> bool:
        """Whether its starter's report, or the startd's first answer, may be on its way.

        That ends by itself: a connection on which nothing is heard is taken for lost.
        """
        return self.starter is Starter.HERE or self.known is Known.ASKED

    @property
    def is_told(self) -> bool:
        """Whether the job has been told to leave."""
        return isinstance(self.state, Leaving) and self.state.told

    @property
    def is_unwelcome(self) -> bool:
        """Whether a starter that wants to run the job comes too late. One that has reported may come again."""
        return isinstance(self.state, Over) and not isinstance(self.state.outcome, ByReport)

    def heeds(self, *, fast: bool) -> bool:
        """Whether the job has to be told (once more, harder) that it shall leave now."""
        return not isinstance(self.state, Leaving) or not self.state.told or (fast and not self.state.fast)
