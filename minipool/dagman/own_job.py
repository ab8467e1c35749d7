"""condor_dagman's own job: what its ad says of the graph, and what a user changes there with condor_qedit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio

from minipool.dagman.cycle_times import Statistics
from minipool.dagman.schedd import Schedd
from pool.base.errors import UserError
from pool.base.ids import JobId
from pool.classad import ClassAd, quote
from pool.dag.course import happenings as it
from pool.dag.course.course import Course
from pool.dag.course.states import Limits

if TYPE_CHECKING:
    from minipool.dagman.manager import Manager

LIMITS: Final = (
    "DAGMan_MaxJobs", "DAGMan_MaxIdle", "DAGMan_MaxPreScripts", "DAGMan_MaxPostScripts", "DAGMan_MaxHoldScripts",
    "DAGMan_MaxSubmitsPerInterval",
)  # fmt: skip
"""The attributes of the limits, in the order of `Limits`."""
SOONEST_S: Final = 1.0
"""The ad is not changed more often: every change is a transaction of the schedd's."""


def own_id() -> JobId | None:
    """The id of this process's job; None when it was started by hand."""
    try:
        return JobId.parse(os.environ.get("CONDOR_ID", ""))
    except (UserError, ValueError):
        return None


class OwnJob:
    """The job that this process is."""

    def __init__(self, schedd: Schedd, id: JobId | None, ad: ClassAd, bounds: Limits = Limits()) -> None:
        self.schedd, self.id, self.ad = schedd, id, ad
        self._changed = trio.Event()
        self._limits: Limits | None = None
        self._refused: dict[str, str] = {}
        """The values of limits that were told last, so that one that is no limit is told once."""
        self.statistics = Statistics()
        self.bounds = bounds
        """What no limit may be above, whoever sets it."""

    @property
    def parent(self) -> str:
        """The cluster of the graph that this one is nested in, or empty."""
        return str(self.ad.eval_int("DAGManJobId", "") if "DAGManJobId" in self.ad else "")

    def batch_name(self, primary: str) -> str:
        """Under which name condor_q shows the graph."""
        if self.id is None:
            return primary
        return self.ad.eval_str("JobBatchName") or f"{os.path.basename(primary)}+{self.id.cluster}"

    def batch_id(self) -> str:
        """The identifier of all jobs of the graph."""
        return self.ad.eval_str("JobBatchId") or ("" if self.id is None else str(self.id))

    def limits(self, asked: Limits) -> Limits:
        """The limits that an earlier run or a user has set, else those that were asked for."""
        # They are in the ad from an earlier run, and a user may have edited them since.
        kept = [self.ad.eval_int(name, default) for name, default in zip(LIMITS, asked, strict=True)]
        self._limits = Limits(*kept).within(self.bounds)
        return self._limits

    def told(self, ad: ClassAd, now: Limits) -> list[it.NewLimits]:
        """What a change of the ad says. A limit that is no number, or below 0, is as it was."""
        said = (ad.eval_int(name, kept) for name, kept in zip(LIMITS, now, strict=True))
        limits = Limits(*(kept if new < 0 else new for new, kept in zip(said, now, strict=True))).within(self.bounds)
        return [] if limits == now else [it.NewLimits(limits)]

    def told_lines(self, ad: ClassAd, now: Limits) -> Iterator[str]:
        """Lines for the log: which limit is another one now, and which value is none."""
        bound = self.told(ad, now)
        for name, kept, new in zip(LIMITS, now, bound[0].limits if bound else now, strict=True):
            text = ad.text(name) if name in ad else ""
            if new != kept:
                yield f"{name} is {new} now, and was {kept}"
            elif text and ad.eval_int(name, -1) < 0 and self._refused.get(name) != text:
                yield f"Warning: {name} stays {kept}: {text} is not a limit (expected a whole number from 0 up)"
            self._refused[name] = text

    def changed(self) -> None:
        """The figures are different."""
        self._changed.set()

    async def keep(self, manager: Manager) -> None:
        """Keep the ad current."""
        while True:
            await self._changed.wait()
            # Before the update, so that a change meanwhile is not lost.
            self._changed = trio.Event()
            await self.update(manager.course)
            await trio.sleep(SOONEST_S)

    async def update(self, course: Course) -> None:
        """The ad shall say how the graph fares."""
        if self.id is None:
            return
        counts, jobs = course.counts(), course.job_figures()
        await self.schedd.edit(
            self.id,
            {
                "DAG_AdUpdateTime": int(time.time()),
                "DAG_NodesTotal": counts.total,
                "DAG_NodesDone": counts.done,
                "DAG_NodesPrerun": counts.pre,
                "DAG_NodesQueued": counts.queued,
                "DAG_NodesPostrun": counts.post,
                "DAG_NodesHoldrun": course.hold,
                "DAG_NodesReady": counts.ready,
                "DAG_NodesFailed": counts.failed,
                "DAG_NodesUnready": counts.unready,
                "DAG_NodesFutile": counts.futile,
                "DAG_Status": int(course.status),
                "DAG_InRecovery": int(course.recovering),
                "DAG_JobsSubmitted": jobs.submitted,
                "DAG_JobsIdle": jobs.idle,
                "DAG_JobsHeld": jobs.held,
                "DAG_JobsRunning": jobs.running,
                "DAG_JobsCompleted": course.jobs_ended,
                "DAG_Stats": self.statistics.ad_text(),
            },
        )

    async def introduce(self, primary: str, limits: Limits) -> None:
        """What the ad is to have from the start."""
        if self.id is not None:
            names = {"JobBatchName": quote(self.batch_name(primary)), "JobBatchId": quote(self.batch_id())}
            await self.schedd.edit(self.id, {**names, **dict(zip(LIMITS, limits, strict=True))})
