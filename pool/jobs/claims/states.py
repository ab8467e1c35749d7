"""What has become of a claim on its schedd's side, and what is known of it. Times are those of the wall clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Requesting:
    """The startd has been asked for the slot."""


@dataclass(frozen=True, slots=True)
class Idle:
    """The slot is held, and has no job."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The slot has a job."""

    activation: str
    asked: bool = False
    """The startd may have started it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The startd holds the claim no more; what ran there is still being concluded."""


@dataclass(frozen=True, slots=True)
class Releasing:
    """The slot is being given back, until the startd says that the claim is over."""

    fast: bool = False
    told: bool = True
    """The startd is told, as far as is known; else it is told when it can be reached."""


@dataclass(frozen=True, slots=True)
class Over:
    """There is no such claim any more."""


State: TypeAlias = Requesting | Idle | Busy | Ended | Releasing | Over


@dataclass(frozen=True, slots=True)
class ClaimLife:
    """One claim: its state, and what is known beside it."""

    lease_s: float
    renewed_at: float
    """When the startd may have heard of its schedd last: a word without an answer may have renewed the lease there."""
    state: State = Requesting()
    takes_jobs: bool = True
    """Another job may have the slot: nobody takes it away, and nothing went wrong there."""
    is_here: bool = True
    """The startd knows on which connection its schedd is; else it is to be asked after the claim."""
    unreported: str = ""
    """The last execution that may have been started there, and is over without a report of its starter's."""

    @property
    def is_over(self) -> bool:
        """Whether there is no such claim any more."""
        return isinstance(self.state, Over)

    @property
    def is_held(self) -> bool:
        """Whether the slot is this schedd's, as far as it knows."""
        return isinstance(self.state, Idle | Busy)

    @property
    def is_alive(self) -> bool:
        """Whether the startd may still hold it."""
        return isinstance(self.state, Idle | Busy | Releasing)

    @property
    def may_have_job(self) -> bool:
        """Whether a job may be begun there now."""
        return isinstance(self.state, Idle) and self.takes_jobs

    @property
    def is_concluded(self) -> bool:
        """Nothing of what was started there may still run: all of it has reported its end."""
        return not self.unreported and not (isinstance(self.state, Busy) and self.state.asked)

    @property
    def asks_after(self) -> bool:
        """Whether its startd is to be asked whether it holds the claim, as soon as it can be reached."""
        match self.state:
            case Releasing(told=told):
                return not told
            case Busy():
                return not self.is_here
            case Idle():
                return not self.is_here and self.takes_jobs
        return False
