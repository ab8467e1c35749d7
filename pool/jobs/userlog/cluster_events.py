"""The events of a whole cluster whose jobs are made as they are needed (late materialization)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pool.jobs.userlog.event import LogEvent, one_line


@dataclass(frozen=True)
class ClusterSubmitted(LogEvent):
    """035: a cluster whose jobs are made as they are needed."""

    number = 35
    host: str

    def lines(self) -> Iterator[str]:
        yield f"Cluster submitted from host: {self.host}"


@dataclass(frozen=True)
class ClusterRemoved(LogEvent):
    """036: the last job of such a cluster is gone."""

    number = 36
    jobs: int
    items: int
    complete: bool = True

    def lines(self) -> Iterator[str]:
        yield "Cluster removed"
        how = "Complete" if self.complete else "Incomplete"
        yield f"\tMaterialized {self.jobs} jobs from {self.items} items.\t{how}"


@dataclass(frozen=True)
class FactoryPaused(LogEvent):
    """037: no more jobs of such a cluster are made for now."""

    number = 37
    reason: str
    pause_code: int
    hold_code: int = 0

    def lines(self) -> Iterator[str]:
        yield "Job Materialization Paused"
        yield f"\t{one_line(self.reason)}"
        if self.pause_code:
            yield f"\tPauseCode {self.pause_code}"
        if self.hold_code:
            yield f"\tHoldCode {self.hold_code}"


@dataclass(frozen=True)
class FactoryResumed(LogEvent):
    """038: they are made again."""

    number = 38
    reason: str

    def lines(self) -> Iterator[str]:
        yield "Job Materialization Resumed"
        if self.reason:
            yield f"\t{one_line(self.reason)}"
