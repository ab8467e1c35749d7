"""What the defragmenter has seen and done, as its ad shows it.

Source: HTCondor's manual, "Defrag ClassAd Attributes". Where HTCondor's code (defrag.cpp, defrag_stats.cpp) gives an
attribute another name than that page (AvgDrainingUnclaimed, MeanDrainedArrival), or another meaning, it is the code's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

from pool.classad import ClassAd
from pool.defrag.policy import DefragPolicy
from pool.defrag.survey import Survey

LOOKS_RECENT: Final = 10
"""Recent... counts what was done in the last so many looks at the pool."""
SHOWN_MAX: Final = 10
"""The last drains, and cancellations, that the ad lists."""


@dataclass
class _Done:
    """What was done after one look."""

    successes: int = 0
    failures: int = 0


class Arrivals:
    """Machines that have become whole, and how often one does.

    They are found by comparing looks: whole now and not before, or no longer draining, for one that is claimed as soon
    as it is whole is never seen so.
    """

    def __init__(self) -> None:
        self.count = 0
        self._draining: frozenset[str] = frozenset()
        self._whole: frozenset[str] = frozenset()
        self._last = 0.0
        self._waited_s = self._squares = 0.0

    def look(self, survey: Survey, now: float) -> None:
        """What is seen now; those that were whole before the first look have not arrived."""
        # One set: a machine that drained and is seen whole has arrived once.
        arrived = len((survey.whole - self._whole) | (self._draining - survey.draining))
        self._draining, self._whole = survey.draining, survey.whole
        if not arrived:
            return
        if self._last:
            since_s = max(1.0, now - self._last)
            self.count += arrived
            self._waited_s += arrived * since_s
            self._squares += (arrived / since_s - self.mean) ** 2
        self._last = now

    @property
    def mean(self) -> float:
        """Machines a second."""
        return self.count / self._waited_s if self._waited_s else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation of that rate."""
        return sqrt(self._squares / self.count) if self.count else 0.0


class DefragStatistics:
    """Everything since the daemon's start at `began`, wall time."""

    def __init__(self, began: float) -> None:
        self.arrivals = Arrivals()
        self._began = began
        self._seen: dict[str, int | float] = dict.fromkeys(("MachinesDraining", "WholeMachines"), 0)
        self._seen |= {"AvgDrainingBadput": 0.0, "AvgDrainingUnclaimed": 0.0}
        self._draining_peak = self._whole_peak = 0
        self._all = _Done()
        self._recent: deque[_Done] = deque([_Done()], maxlen=LOOKS_RECENT)
        self._drains: deque[ClassAd] = deque(maxlen=SHOWN_MAX)
        self._cancels: deque[ClassAd] = deque(maxlen=SHOWN_MAX)

    def look(self, survey: Survey, now: float) -> None:
        """Another look at the pool."""
        draining, whole = len(survey.draining), len(survey.whole)
        self._seen = {"MachinesDraining": draining, "WholeMachines": whole}
        self._seen |= {"AvgDrainingBadput": survey.badput, "AvgDrainingUnclaimed": survey.unclaimed}
        self._draining_peak, self._whole_peak = max(self._draining_peak, draining), max(self._whole_peak, whole)
        self.arrivals.look(survey, now)
        self._recent.append(_Done())

    def drained(self, who: str, policy: DefragPolicy, now: float, *, worked: bool) -> None:
        """A startd was told to drain, and does or does not."""
        for done in (self._all, self._recent[-1]):
            done.successes += worked
            done.failures += not worked
        self._drains.appendleft(ClassAd({"when": int(now), "who": who, "what": policy.schedule.name.lower()}))

    def cancelled(self, who: str, now: float) -> None:
        """A startd was told not to drain any more."""
        self._cancels.appendleft(ClassAd({"when": int(now), "who": who}))

    def attributes(self, policy: DefragPolicy, now: float) -> dict[str, Any]:
        """All that the ad shows."""
        lifetime_s = int(max(0.0, now - self._began))
        shown: dict[str, Any] = {
            "DrainSuccesses": self._all.successes,
            "DrainFailures": self._all.failures,
            "RecentDrainSuccesses": sum(done.successes for done in self._recent),
            "RecentDrainFailures": sum(done.failures for done in self._recent),
            **self._seen,
            "MachinesDrainingPeak": self._draining_peak,
            "WholeMachinesPeak": self._whole_peak,
            "DrainedMachines": self.arrivals.count,
            "MeanDrainedArrival": self.arrivals.mean,
            "MeanDrainedArrivalSD": self.arrivals.deviation,
            "StatsLifetime": lifetime_s,
            "RecentStatsLifetime": min(lifetime_s, int(LOOKS_RECENT * policy.interval_s)),
        }
        return {**shown, "RecentDrainsList": list(self._drains), "RecentCancelsList": list(self._cancels)}
