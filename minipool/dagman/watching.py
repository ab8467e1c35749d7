"""What the schedd tells of nodes' jobs, as events of the course.

A watch begins anew when its connection is lost, and then tells all that is there. So a job that was there before and is
not now has left meanwhile; the history has how. A job that nobody knows of belongs to a submission whose answer is on
its way, or was lost: it waits here until that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.dag.course import happenings as it
from pool.dag.course.states import LIMIT_LOWERED, PROVISIONED
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.schedd import JobDelta

PROJECTION: Final = [
    *("ClusterId", "ProcId", "JobStatus", "DAGNodeName", "TotalSubmitProcs", "ExitCode", "ExitBySignal", "ExitSignal"),
    *("NumJobStarts", "HoldReason", "RemoveReason", "ProvisionerState"),
    *("DAGMan_MaxJobs", "DAGMan_MaxIdle", "DAGMan_MaxPreScripts", "DAGMan_MaxPostScripts", "DAGMan_MaxHoldScripts"),
    "DAGMan_MaxSubmitsPerInterval",
]


class Told(NamedTuple):
    """An event, and what of it condor_dagman's log shows: the name of HTCondor's event, and the reason of a hold."""

    event: it.Event
    name: str = ""
    reason: str = ""


class NodeJobs:
    """The jobs of nodes in the queue."""

    def __init__(self) -> None:
        self._node_of: dict[int, int] = {}
        self._status: dict[JobId, int] = {}
        self._ran: set[JobId] = set()
        self._strange: dict[int, dict[JobId, JobDelta]] = {}
        """Jobs of clusters that belong to no node yet."""
        self._unseen: set[JobId] = set()
        self._left: set[JobId] = set()

    # ---- which jobs are whose

    def belongs(self, cluster: int, node: int, known: Mapping[int, int]) -> list[Told]:
        """The cluster is the node's, and its jobs are known to have these states; what has been told of them."""
        self._node_of[cluster] = node
        for proc, status in known.items():
            self._status.setdefault(JobId(cluster, proc), status)
        return [told for delta in self._strange.pop(cluster, {}).values() for told in self.take(delta)]

    def is_told(self, id: JobId) -> bool:
        """Whether the schedd has told of a job that belongs to no node yet."""
        return id in self._strange.get(id.cluster, {})

    def strange(self, name: str) -> list[int]:
        """The clusters of a node's name that belong to no node yet, by number."""
        return sorted(
            cluster
            for cluster, jobs in self._strange.items()
            if any(delta.ad.eval_str("DAGNodeName") == name for delta in jobs.values())
        )

    def all_strange(self) -> list[tuple[int, str]]:
        """All clusters that belong to no node yet, with the names of theirs."""
        return [
            (cluster, next((name for one in jobs.values() if (name := one.ad.eval_str("DAGNodeName"))), ""))
            for cluster, jobs in self._strange.items()
        ]

    def strange_size(self, cluster: int) -> int:
        """How many jobs such a cluster was submitted with."""
        jobs = self._strange[cluster]
        told: int = max((delta.ad.eval_int("TotalSubmitProcs", 0) for delta in jobs.values()), default=0)
        return max(told, len(jobs))

    def forget(self, cluster: int) -> None:
        """The node is over with this cluster."""
        self._node_of.pop(cluster, None)

    # ---- what is told

    def begin(self) -> None:
        """A connection is new: all that is there is told."""
        self._unseen = {job for job in self._status if job.cluster in self._node_of}
        for cluster, jobs in list(self._strange.items()):
            if left := {id: delta for id, delta in jobs.items() if delta.left}:
                self._strange[cluster] = left  # that is not told again
            else:
                del self._strange[cluster]

    def gone(self) -> list[JobId]:
        """The jobs that left while nobody listened, now that all that is there has been told."""
        gone, self._unseen = sorted(self._unseen), set()
        return gone

    def take(self, delta: JobDelta) -> Iterator[Told]:
        """What a change says."""
        id = delta.job_id
        node = self._node_of.get(id.cluster)
        if node is None:
            if delta.ad.eval_str("DAGNodeName") is not None or id.cluster in self._strange:
                self._keep(delta)
            return
        # The schedd may tell of a job once more that it has said has left; to the course it would be another one.
        if id in self._left:
            return
        self._unseen.discard(id)
        if delta.ad.eval_int("ProvisionerState") == PROVISIONED:
            yield Told(it.ProvisionerReady())
        if id not in self._status:
            self._status[id] = JobStatus.IDLE
            yield Told(it.JobMade(node, *id), "ULOG_SUBMIT")
        # The last ad has the exit code: a job that leaves is no matter of its status alone.
        if delta.left:
            yield from self.left(id, delta.ad)
        else:
            yield from self._changed(node, id, delta.ad)

    def _keep(self, delta: JobDelta) -> None:
        jobs = self._strange.setdefault(delta.job_id.cluster, {})
        known = jobs.get(delta.job_id)
        if known is not None and not delta.left:
            ad = known.ad.copy()
            for name, value in delta.ad.items():
                ad[name] = value
            delta = JobDelta(job_id=delta.job_id, ad=ad)
        jobs[delta.job_id] = delta

    def _changed(self, node: int, id: JobId, ad: ClassAd) -> Iterator[Told]:
        before, now = self._status[id], ad.eval_int("JobStatus")
        if now is None or now == before:
            return
        self._status[id] = now
        if before == JobStatus.HELD:
            yield Told(it.JobReleased(node, *id), "ULOG_JOB_RELEASED")
        if now == JobStatus.HELD:
            yield Told(it.JobHeld(node, *id), "ULOG_JOB_HELD", ad.eval_str("HoldReason") or "")
        elif now == JobStatus.RUNNING:
            self._ran.add(id)
            yield Told(it.JobRuns(node, *id), "ULOG_EXECUTE")
        elif now == JobStatus.IDLE and before != JobStatus.HELD:
            yield Told(it.JobWaits(node, *id), "ULOG_JOB_EVICTED")
        elif now == JobStatus.SUSPENDED:
            yield Told(it.JobWaits(node, *id), "ULOG_JOB_SUSPENDED")

    def left(self, id: JobId, ad: ClassAd) -> Iterator[Told]:
        """The job has left the queue with this ad."""
        node = self._node_of.get(id.cluster)
        if node is None or self._status.pop(id, None) is None:
            return
        self._left.add(id)
        # Changes that follow each other closely come as one.
        starts: int = ad.eval_int("NumJobStarts", 0)
        if id not in self._ran and starts:
            yield Told(it.JobRuns(node, *id), "ULOG_EXECUTE")
        self._ran.discard(id)
        if ad.eval_int("JobStatus") != JobStatus.COMPLETED:
            beyond = LIMIT_LOWERED in ad.eval_str("RemoveReason", "")
            yield Told(it.JobEnded(node, *id, beyond_limit=beyond), "ULOG_JOB_ABORTED")
        elif ad.eval_bool("ExitBySignal"):
            yield Told(it.JobEnded(node, *id, signal=ad.eval_int("ExitSignal", 0)), "ULOG_JOB_TERMINATED")
        else:
            yield Told(it.JobEnded(node, *id, code=ad.eval_int("ExitCode", 0)), "ULOG_JOB_TERMINATED")

    def leave(self, gone: Iterable[JobId], history: Iterable[ClassAd]) -> Iterator[Told]:
        """How those that are gone ended, by the history; one that it does not have counts as removed."""
        ended = {JobId(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0)): ad for ad in history}
        for id in gone:
            yield from self.left(id, ended.get(id) or ClassAd())
