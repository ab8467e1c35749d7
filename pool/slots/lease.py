"""How long a claim lives without a word from its schedd.

The startd calculates with the alive interval that it was given when the claim was made. Times are monotonic seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

ALIVE_INTERVAL_S = 300.0
ALIVES_MISSED_MAX = 6
LEASE_DEFAULT_S = 2400.0
LEASE_MAX_S = 86400.0
"""How long a schedd may be silent at most: the slot is not its to keep."""
ALIVE_MIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Lease:
    """Renewed by each sign of life; over when none came for `lease_s`."""

    renewed_at: float
    lease_s: float

    @property
    def expires_at(self) -> float:
        """When the claim is dropped unless a word comes before."""
        return self.renewed_at + self.lease_s

    def is_over(self, *, now: float) -> bool:
        """Whether the schedd was silent for the whole lease."""
        return now >= self.expires_at

    def renewed(self, *, now: float) -> Lease:
        """The lease after a sign of life; a late one never shortens it."""
        return replace(self, renewed_at=max(self.renewed_at, now))

    def of_job(self, lease_s: float) -> Lease:
        """The lease while a job with that JobLeaseDuration has the slot (0: none is said); one without an end stays."""
        return replace(self, lease_s=min(lease_s, LEASE_MAX_S)) if lease_s > 0 and self.lease_s < math.inf else self

    def aged(self, seconds: float) -> Lease:
        """The lease on a machine that has slept for so long, while its clock stood still."""
        return replace(self, renewed_at=self.renewed_at - seconds)


def begin_lease(lease_s: float, alive_interval_s: float, *, now: float, missed_max: int = ALIVES_MISSED_MAX) -> Lease:
    """The lease that a schedd asked for; one without length lasts for `missed_max` alive intervals.

    None is longer than LEASE_MAX_S.
    """
    if lease_s <= 0:
        lease_s = missed_max * (alive_interval_s if alive_interval_s > 0 else ALIVE_INTERVAL_S)
    return Lease(now, min(lease_s, LEASE_MAX_S))


def alive_interval(before_s: float, job_lease_s: float) -> float:
    """How often a schedd that has started a job with this lease says that it lives; never more seldom again."""
    # A third: two may be lost on the way before the lease is over.
    return max(ALIVE_MIN_S, min(before_s, (job_lease_s or LEASE_DEFAULT_S) / 3))
