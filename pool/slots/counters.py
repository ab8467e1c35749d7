"""What a startd counts: jobs begun, ended and preempted, since it started and in the last twenty minutes."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

WINDOW_S: Final = 1200.0
SAMPLES_MAX: Final = 100_000
MIB: Final = 1 << 20


class Preempted(StrEnum):
    """Why a running job had to go."""

    OTHER = ""
    RANK = "Rank"
    USER_PRIO = "UserPrio"


class Counter:
    """How often something happened."""

    def __init__(self) -> None:
        self.total = 0
        self._times: deque[float] = deque(maxlen=SAMPLES_MAX)

    def note(self, now: float) -> None:
        """It happened."""
        self.total += 1
        self._times.append(now)

    def recent(self, now: float) -> int:
        """How often in the window."""
        while self._times and self._times[0] <= now - WINDOW_S:
            self._times.popleft()
        return len(self._times)


class Durations:
    """How long things took."""

    def __init__(self) -> None:
        self._count, self._sum = 0, 0.0
        self._least, self._most = 0.0, 0.0
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)

    def note(self, seconds: float, now: float) -> None:
        """One more has ended."""
        self._least = seconds if not self._count else min(self._least, seconds)
        self._most = max(self._most, seconds)
        self._count, self._sum = self._count + 1, self._sum + seconds
        self._samples.append((now, seconds))

    def attributes(self, name: str, now: float) -> dict[str, float | int]:
        """Avg, Count, Max and Min; nothing while nothing has ended."""
        while self._samples and self._samples[0][0] <= now - WINDOW_S:
            self._samples.popleft()
        shown: dict[str, float | int] = {}
        if self._count:
            shown = _figures(name, self._count, self._sum, self._most, self._least)
        if self._samples:
            recent = [seconds for _, seconds in self._samples]
            shown |= _figures(f"Recent{name}", len(recent), sum(recent), max(recent), min(recent))
        return shown


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


def _figures(name: str, count: int, total: float, most: float, least: float) -> dict[str, float | int]:
    return {f"{name}Avg": total / count, f"{name}Count": count, f"{name}Max": most, f"{name}Min": least}
