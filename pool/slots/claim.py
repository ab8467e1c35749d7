"""Claim ids, who holds one, and the claim that waits behind it.

A claim id is a capability: `<startd address>#birth of the startd#sequence#secret`. A slot offers ids that nobody holds
yet: a static or claimed slot one (claiming with it preempts), a partitionable slot a purse of them, each good for one
dynamic slot, as many as could still be carved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from pool.base.ids import ClaimId, JobId
from pool.classad import ClassAd
from pool.slots.lease import Lease

OFFERS_MAX: Final = 128
"""Most ids that a partitionable slot offers at a time; they are replenished as they are used."""


class ClaimIds:
    """Makes the claim ids of one life of a startd."""

    def __init__(self, address: str, birth: int, secret: Callable[[], str]) -> None:
        self._address, self._birth, self._secret = address, birth, secret
        self._sequence = 0

    def new(self) -> ClaimId:
        """An id that was never used before and that nobody can guess."""
        self._sequence += 1
        return ClaimId(f"{self._address}#{self._birth}#{self._sequence}#{self._secret()}")

    def renewed(self, id: ClaimId) -> ClaimId:
        """Another id of the same claim."""
        return id.with_secret(self._secret())


@dataclass(frozen=True)
class Holder:
    """Who asked for a claim, and for what kind of job. The claim's id works for `bound_to` alone, as it was proven."""

    schedd_name: str
    submitter: str
    job_ad: ClassAd
    client: str = ""
    bound_to: str = ""


@dataclass(frozen=True)
class Activation:
    """One execution of a job under a claim. Times are monotonic, `started_wall` is for ads."""

    activation: str
    job_id: JobId
    job_ad: ClassAd
    started_at: float
    started_wall: float
    suspended_s: float = 0.0
    suspended_since: float | None = None

    def ran_s(self, *, now: float) -> float:
        """How long the job has run, without the time it was suspended."""
        return max(0.0, now - self.started_at - self.paused_s(now=now))

    def paused_s(self, *, now: float) -> float:
        """How long it was suspended, up to now."""
        return self.suspended_s + (now - self.suspended_since if self.suspended_since is not None else 0.0)

    def paused(self, *, now: float) -> Activation:
        """The execution from when it is suspended."""
        return self if self.suspended_since is not None else replace(self, suspended_since=now)

    def resumed(self, *, now: float) -> Activation:
        """The execution from when it goes on."""
        if self.suspended_since is None:
            return self
        return replace(self, suspended_s=self.suspended_s + now - self.suspended_since, suspended_since=None)


@dataclass(frozen=True)
class Claim:
    """A slot held for a schedd: since when, under which lease, with which job if any."""

    claim_id: ClaimId
    digest: str
    """Of the id that it was granted with: its name for a schedd that was started again."""
    holder: Holder
    lease: Lease
    rank: float
    claimed_at: float
    claimed_wall: float
    alive_interval_s: float = 300.0
    activation: Activation | None = None
    job_starts: int = 0
    past_ran_s: float = 0.0
    past_paused_s: float = 0.0
    """How long the jobs that are over ran, and were suspended."""
    while_draining: bool = False
    """Let in by the START that holds while the machine drains."""
    released: bool = False
    """Its schedd has the report of its last job: the slot is free when the starter has cleaned up."""
    given: str = ""
    """The execution that its starter was given last, which may be over; empty when it did not take it."""

    def with_activation(self, activation: Activation, *, started: bool = False) -> Claim:
        """The claim with this execution; `started` counts it."""
        return replace(self, activation=activation, job_starts=self.job_starts + started)

    def without_job(self, *, now: float) -> Claim:
        """The claim when its job is over."""
        ran_s, paused_s = self.ran_s(now=now), self.paused_s(now=now)
        return replace(self, activation=None, past_ran_s=ran_s, past_paused_s=paused_s)

    def ran_s(self, *, now: float) -> float:
        """How long jobs have run under it, up to now."""
        return self.past_ran_s + (self.activation.ran_s(now=now) if self.activation is not None else 0.0)

    def paused_s(self, *, now: float) -> float:
        """How long jobs have been suspended under it, up to now."""
        return self.past_paused_s + (self.activation.paused_s(now=now) if self.activation is not None else 0.0)

    def renewed(self, *, now: float) -> Claim:
        """The claim after a word from its schedd."""
        return replace(self, lease=self.lease.renewed(now=now))

    def granted(self, now: float, wall: float) -> Claim:
        """The claim as it begins, when it had to wait for its slot."""
        return replace(self, lease=self.lease.renewed(now=now), claimed_at=now, claimed_wall=wall)

    def worklife_over(self, worklife_s: float, *, now: float) -> bool:
        """Whether the claim takes no further job (CLAIM_WORKLIFE; negative: for ever)."""
        return worklife_s >= 0 and self.job_starts > 0 and now - self.claimed_at >= worklife_s


@dataclass
class Purse:
    """The unused ids that a slot offers, oldest first."""

    make: Callable[[], ClaimId]
    offers: list[ClaimId] = field(default_factory=list)

    def fill(self, wanted: int) -> None:
        """Offer as many as can be used; those above are withdrawn, the newest first."""
        # The newest go: an older one may be on its way back from a negotiator already.
        wanted = max(0, min(wanted, OFFERS_MAX))
        del self.offers[wanted:]
        while len(self.offers) < wanted:
            self.offers.append(self.make())

    def take(self, claim_id: str) -> bool:
        """Use an id up; False when it is none of ours, or was used before."""
        try:
            self.offers.remove(ClaimId(claim_id))
        except ValueError:
            return False
        return True
