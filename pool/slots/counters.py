"""What a startd counts: jobs begun, ended and preempted, since it started and in the last twenty minutes.

Source: HTCondor's manual, "Machine ClassAd Attributes" (JobStarts, RecentJobStarts and their kin), and its knobs
STATISTICS_WINDOW_SECONDS and STATISTICS_WINDOW_QUANTUM, whose windows move in steps too.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WINDOW_S: Final = 1200.0
QUANTUM_S: Final = 30.0
"""The window moves on in steps of this length."""
MIB: Final = 1 << 20


class Preempted(StrEnum):
    """Why a running job had to go."""

    OTHER = ""
    RANK = "Rank"
    USER_PRIO = "UserPrio"


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of some values."""

    count: int = 0
    total: float = 0.0
    most: float = 0.0
    least: float = 0.0

    def __add__(self, other: Figures) -> Figures:
        if not self.count or not other.count:
            return other if other.count else self
        return Figures(
            self.count + other.count,
            self.total + other.total,
            max(self.most, other.most),
            min(self.least, other.least),
        )

    def attributes(self, name: str) -> dict[str, float | int]:
        """Avg, Count, Max and Min; nothing of nothing."""
        if not self.count:
            return {}
        return {
            f"{name}Avg": self.total / self.count,
            f"{name}Count": self.count,
            f"{name}Max": self.most,
            f"{name}Min": self.least,
        }


class Series:
    """Values since the start, and those of the window.

    No value is kept, only the sums of each QUANTUM_S: a startd on which ten thousand jobs end in the window needs no
    more memory than another.
    """

    def __init__(self) -> None:
        self.all = Figures()
        self._steps: deque[tuple[float, Figures]] = deque()

    def note(self, value: float, now: float) -> None:
        """Another one."""
        one, begun = Figures(1, value, value, value), now - now % QUANTUM_S
        self.all += one
        if self._steps and self._steps[-1][0] == begun:
            self._steps[-1] = begun, one + self._steps[-1][1]
        else:
            self._steps.append((begun, one))
            self._forget(now)

    def recent(self, now: float) -> Figures:
        """Those of the window."""
        self._forget(now)
        return sum((figures for _, figures in self._steps), start=Figures())

    def _forget(self, now: float) -> None:
        while self._steps and self._steps[0][0] <= now - WINDOW_S:
            self._steps.popleft()


class Counter:
    """How often something happened."""

    def __init__(self) -> None:
        self._series = Series()

    @property
    def total(self) -> int:
        """How often since the start."""
        return self._series.all.count

    def note(self, now: float) -> None:
        """It happened."""
        self._series.note(0.0, now)

    def recent(self, now: float) -> int:
        """How often in the window."""
        return self._series.recent(now).count


class Durations:
    """How long things took."""

    def __init__(self) -> None:
        self._series = Series()

    def note(self, seconds: float, now: float) -> None:
        """One more has ended."""
        self._series.note(seconds, now)

    def attributes(self, name: str, now: float) -> dict[str, float | int]:
        """Avg, Count, Max and Min; nothing while nothing has ended."""
        return self._series.all.attributes(name) | self._series.recent(now).attributes(f"Recent{name}")


class TransferSizes:
    """How many bytes moved for jobs."""

    def __init__(self) -> None:
        self._count, self._sum = 0, 0

    def note(self, size: int) -> None:
        """Another job's."""
        self._count, self._sum = self._count + 1, self._sum + max(0, size)

    def attributes(self, name: str) -> dict[str, float]:
        """Avg and Total in MiB, 0 while nothing has moved."""
        total = self._sum / MIB
        return {f"Avg{name}MB": total / self._count if self._count else 0.0, f"Total{name}MB": total}


class MachineStatistics:
    """All counts of one machine. `now` is wall time."""

    def __init__(self) -> None:
        self._starts = Counter()
        self._claims = Counter()
        self._activations = Counter()
        self._preemptions = {why: Counter() for why in Preempted}
        self._busy = Durations()
        self._ran = Durations()
        self._input, self._output = TransferSizes(), TransferSizes()

    def claim_asked(self, now: float) -> None:
        """A schedd asks for a claim, whether it gets it or not."""
        self._claims.note(now)

    def activation_asked(self, now: float) -> None:
        """A schedd asks for a job to be started, whether it is or not."""
        self._activations.note(now)

    def started(self, now: float) -> None:
        """A job begins."""
        self._starts.note(now)

    def preempted(self, why: Preempted, now: float) -> None:
        """A running job has to go."""
        self._preemptions[why].note(now)

    def ended(self, busy_s: float, now: float) -> None:
        """A job is gone, `busy_s` after it was given to its starter."""
        self._busy.note(max(0.0, busy_s), now)

    def ran(self, ran_s: float | None, now: float, *, received: int, sent: int) -> None:
        """What a job's starter has said at its end; `ran_s` is None when its program never ran."""
        if ran_s is not None:
            self._ran.note(max(0.0, ran_s), now)
        self._input.note(received)
        self._output.note(sent)

    @property
    def starts(self) -> int:
        """How many jobs have begun."""
        return self._starts.total

    @property
    def preemptions(self) -> int:
        """How many jobs had to go."""
        return sum(one.total for one in self._preemptions.values())

    def attributes(self, now: float) -> dict[str, float | int]:
        """What every slot's ad shows."""
        ranked, by_user = self._preemptions[Preempted.RANK], self._preemptions[Preempted.USER_PRIO]
        return {
            "JobStarts": self.starts,
            "RecentJobStarts": self._starts.recent(now),
            "JobPreemptions": self.preemptions,
            "RecentJobPreemptions": sum(one.recent(now) for one in self._preemptions.values()),
            "JobRankPreemptions": ranked.total,
            "RecentJobRankPreemptions": ranked.recent(now),
            "JobUserPrioPreemptions": by_user.total,
            "RecentJobUserPrioPreemptions": by_user.recent(now),
            "ClaimRequests": self._claims.total,
            "RecentClaimRequests": self._claims.recent(now),
            "ActivationRequests": self._activations.total,
            "RecentActivationRequests": self._activations.recent(now),
            **self._busy.attributes("JobBusyTime", now),
            **self._ran.attributes("JobDuration", now),
            **self._input.attributes("TransferInput"),
            **self._output.attributes("TransferOutput"),
        }
