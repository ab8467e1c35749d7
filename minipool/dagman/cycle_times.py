"""How long condor_dagman's steps take: DAG_Stats in its job's ad, and a line of its log. The names are HTCondor's.

There one loop polls. Here each thing happens when it is its time, so the steps mean: an event is what the course makes
of one thing that has happened; sleep is the wait for the next; a submit is a node, from the request to the answer; and
log processing is one reading of the nodes' log, in a recovery.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Probe:
    """Durations of one kind."""

    count: int = 0
    sum: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = 0.0

    def add(self, seconds: float) -> None:
        """It has taken so long once more."""
        self.count += 1
        self.sum += seconds
        self.squares += seconds * seconds
        self.least, self.most = min(self.least, seconds), max(self.most, seconds)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """What is done meanwhile is measured."""
        since = time.monotonic()
        try:
            yield
        finally:
            self.add(time.monotonic() - since)

    def figures(self) -> Iterator[tuple[str, float]]:
        """Average, greatest, least, deviation and sum; of nothing there is but a sum."""
        if self.count:
            yield "Avg", self.sum / self.count
            yield "Max", self.most
            yield "Min", self.least
            yield "Std", self._deviation()
        yield "Sum", self.sum

    def _deviation(self) -> float:
        # Of a single one HTCondor gives itself.
        if self.count == 1:
            return self.least
        return math.sqrt(max(0.0, (self.squares - self.sum * self.sum / self.count) / (self.count - 1)))


@dataclass
class Statistics:
    """All of them."""

    event: Probe = field(default_factory=Probe)
    sleep: Probe = field(default_factory=Probe)
    submit: Probe = field(default_factory=Probe)
    log: Probe = field(default_factory=Probe)

    def figures(self) -> Iterator[tuple[str, float]]:
        """Names and figures, in HTCondor's order."""
        cycles = (("EventCycleTime", self.event), ("SleepCycleTime", self.sleep), ("SubmitCycleTime", self.submit))
        for name, probe in cycles:
            yield from ((f"{name}{what}", value) for what, value in probe.figures())
        yield from ((f"{name}Count", float(probe.count)) for name, probe in cycles)
        yield from ((f"LogProcessCycleTime{what}", value) for what, value in self.log.figures())
        yield "LogProcessCycleTimeCount", float(self.log.count)

    def line(self) -> str:
        """As the log has them."""
        figures = "".join(f"{name}={value:.3f}; " for name, value in self.figures())
        return f"DAGMan Runtime Statistics: [{figures}]"

    def ad_text(self) -> str:
        """The value of DAG_Stats, an ad within the job's."""
        return f"[ {'; '.join(f'{name} = {value!r}' for name, value in self.figures())} ]"
