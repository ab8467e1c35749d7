"""The Python API for scripts and notebooks: as `minipool.api`, without `await`.

    with minipool.connect() as pool:
        [job] = pool.submit(minipool.Submit(executable="/bin/true"))
        print(job.result().exit_code)

Threads may share a Pool, since each has a connection of its own (`lines.py`); so programs over asyncio call it in
threads. A stream belongs to the thread that reads it. `timeout` is in seconds, and TimedOut says that it is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from minipool.lines import Lines
from minipool.model import (
    JobResult,
    JobState,
    Status,
    Submit,
    UnknownJob,
    Value,
    check,
    expression,
    job_id,
    selection,
    to_change,
    warn_of,
)
from minipool.patience import Patience
from minipool.session import Session
from minipool.tracking import Following, Waiting
from pool.classad import ClassAd
from pool.ids import JobId
from protocol.blocking import CALL_TIMEOUT_S
from protocol.message import StreamRequest
from protocol.messages.collector import QueryAds
from protocol.messages.common import AdBatch
from protocol.messages.schedd import (
    Action,
    ActOnJobs,
    EditJobs,
    QueryHistory,
    QueryJobs,
    ReserveCluster,
    Selection,
    WatchJobs,
)
from protocol.remote import TimedOut

if TYPE_CHECKING:
    from types import TracebackType

SUBMIT_TIMEOUT_S = 600.0
MADE_LATER_S = 0.5
"""The pause before jobs are looked for again that their cluster has not made yet."""


def connect(
    directory: str | None = None,
    *,
    pool: str | None = None,
    schedd: str | None = None,
    config: Sequence[str] | None = None,
) -> Pool:
    """The pool of a directory, or of the collector `pool`, or the one that the configuration names.

    `schedd` names an access point other than this host's. Use it in a `with`, or close it.
    """
    session = Session.open(directory=directory, pool=pool, config=config)
    return Pool(session, schedd)


class Pool:
    """An access point of a pool, and the pool behind it."""

    def __init__(self, session: Session, schedd: str | None = None) -> None:
        self.session = session
        self._lines = Lines(session, schedd)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._lines.close()

    def submit(
        self,
        description: Submit | str | Mapping[str, Value],
        *,
        count: int | None = None,
        timeout: float | None = SUBMIT_TIMEOUT_S,
    ) -> list[Job]:
        """Queue jobs; they are durable when this returns. SubmitError says what is wrong with the description.

        SubmitWarning tells what is odd about it. When the connection is lost meanwhile (ConnectionLost), it is not
        known whether the jobs are queued.
        """
        from minipool.submission import request

        given = description if isinstance(description, Submit) else Submit(description)
        plan = given.plan(self.session, count=count)
        if not plan.count:  # no item, no job
            warn_of(plan)
            return []
        cluster = None
        if plan.needs_cluster_id:
            cluster = self._lines.call(ReserveCluster(), timeout).cluster
            plan = plan.for_cluster(cluster)
        answer = self._lines.call(request(plan, cluster=cluster), timeout)
        warn_of(plan, answer.warnings)
        return [Job(self, JobId(answer.cluster, proc)) for proc in range(answer.count)]

    def job(self, job: object, proc: int | None = None) -> Job:
        """The job of this id: `job(51, 0)`, `job("51.0")`; of a cluster alone, its first."""
        return Job(self, job_id(job, proc))

    def jobs(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
        timeout: float | None = None,
    ) -> list[ClassAd]:
        """Ads of jobs in the queue: these jobs or clusters, these users', all when none are named."""
        select = selection(which, users=users, constraint=constraint)
        if select is None:
            return []
        return self._all_ads(QueryJobs(select=select, projection=list(projection), limit=limit), timeout)

    def history(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
        timeout: float | None = None,
    ) -> list[ClassAd]:
        """Ads of jobs that left the queue, newest first."""
        select = selection(which, users=users, constraint=constraint)
        if select is None:
            return []
        return self._all_ads(QueryHistory(select=select, projection=list(projection), limit=limit), timeout)

    def _all_ads(self, request: StreamRequest[AdBatch], timeout: float | None) -> list[ClassAd]:
        return [ad for batch in self._lines.items(request, timeout) for ad in batch.ads]

    def ads(
        self,
        ad_type: str = "Machine",
        *,
        constraint: str | None = None,
        projection: Sequence[str] = (),
        timeout: float | None = None,
    ) -> list[ClassAd]:
        """Ads that the collector has: Machine (slots), Scheduler, Submitter, DaemonMaster, Negotiator, Any."""
        request = QueryAds(ad_type=ad_type, constraint=constraint, projection=list(projection))
        patience = Patience(time.monotonic(), timeout)
        where = self.session.collector_address()
        with self.session.connect(where, timeout=patience.connecting(time.monotonic())) as peer:
            return [ad for batch in peer.stream(request, deadline=patience.deadline) for ad in batch.ads]

    def watch(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        forever: bool = True,
        timeout: float | None = None,
    ) -> Iterator[JobState]:
        """The jobs as they are now, then each change. Without `forever`: until all that were seen have left.

        It goes on when the schedd has restarted: a change that was missed is told when the schedd is back.
        """
        select = selection(which, users=users, constraint=constraint)
        return iter(()) if select is None else self._watch(WatchJobs(select=select), forever, timeout)

    def _watch(self, request: WatchJobs, forever: bool, timeout: float | None) -> Iterator[JobState]:
        following, patience = Following(), Patience(time.monotonic(), timeout)
        for changed in self._lines.changes(request, patience):
            if changed is None:
                following.begin()
                continue
            yield from following.take(changed)
            if gone := following.gone:
                yield from following.leave(self.history(gone, timeout=patience.left(time.monotonic())))
            if following.over and not forever:
                return

    def wait(self, jobs: object, *, timeout: float | None = None) -> list[JobResult]:
        """The results of all these jobs, in their order, once each has left the queue.

        `jobs` are a job, an id, a cluster with all its jobs, or a list of such. JobHeldWarning tells of those on hold.
        """
        waiting, patience = Waiting(jobs), Patience(time.monotonic(), timeout)
        try:
            self._wait(waiting, patience)
        except TimedOut:
            raise TimedOut(waiting.unfinished(timeout)) from None
        return waiting.results

    def _wait(self, waiting: Waiting, patience: Patience) -> None:
        def left() -> float | None:
            return patience.left(time.monotonic())

        while waiting.missing:
            for state in self.watch(waiting.missing, forever=False, timeout=left()):
                waiting.take(state)
            if missing := waiting.missing:
                waiting.take_history(self.history(missing, timeout=left()))
            if missing := waiting.missing:
                making = self._clusters_that_make_jobs(waiting.clusters, left())
                queued = self.jobs(missing, projection=("ClusterId", "ProcId"), timeout=left())
                waiting.settle(making, queued, self.history(missing, timeout=left()))
                if waiting.missing:
                    time.sleep(patience.rest(time.monotonic(), MADE_LATER_S))

    def _clusters_that_make_jobs(self, clusters: Sequence[int], timeout: float | None) -> list[ClassAd]:
        """Those of the clusters that still make jobs, as there is room for them (max_materialize, max_idle)."""
        select = Selection(ids=[str(cluster) for cluster in clusters])
        return self._all_ads(QueryJobs(select=select, projection=["ClusterId"], factories=True), timeout)

    def act(
        self,
        action: Action,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> int:
        """Do something to jobs; how many. NotDone names those to which it could not be done; none is none at all."""
        select = to_change(which, constraint)
        if select is None:
            return 0
        request = ActOnJobs(select=select, action=action, reason=reason)
        return check(self._lines.call(request, timeout), action.value)

    def remove(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> int:
        """Remove jobs from the queue."""
        return self.act(Action.REMOVE, *which, constraint=constraint, reason=reason, timeout=timeout)

    def hold(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> int:
        """Put jobs on hold."""
        return self.act(Action.HOLD, *which, constraint=constraint, reason=reason, timeout=timeout)

    def release(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> int:
        """Release held jobs."""
        return self.act(Action.RELEASE, *which, constraint=constraint, reason=reason, timeout=timeout)

    def edit(
        self,
        *which: object,
        constraint: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
        **attributes: object,
    ) -> int:
        """Set attributes of jobs; a string is an expression (`'"text"'` is a text)."""
        select = to_change(which, constraint)
        if select is None:
            return 0
        assignments = {name: expression(value) for name, value in attributes.items()}
        return check(self._lines.call(EditJobs(select=select, assignments=assignments), timeout), "edit")


class Job:
    """One job, by its id."""

    def __init__(self, pool: Pool, id: JobId) -> None:
        self.pool = pool
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id})"

    def ad(self, *, timeout: float | None = None) -> ClassAd:
        """All that is known of the job, from the queue or from the history."""
        patience = Patience(time.monotonic(), timeout)
        queued = self.pool.jobs(self.id, timeout=timeout)
        for ad in queued or self.pool.history(self.id, limit=1, timeout=patience.left(time.monotonic())):
            return ad
        raise UnknownJob(f"there is no job {self.id}")

    def status(self, *, timeout: float | None = None) -> Status:
        """Where it is in its life."""
        return Status(self.ad(timeout=timeout).eval_int("JobStatus", 1))

    def follow(self, *, timeout: float | None = None) -> Iterator[JobState]:
        """Its state now, then each change, until it has left the queue."""
        return self.pool.watch(self.id, forever=False, timeout=timeout)

    def result(self, *, timeout: float | None = None) -> JobResult:
        """How it ended, once it has; JobHeldWarning tells when it is on hold meanwhile."""
        [result] = self.pool.wait([self], timeout=timeout)
        return result

    def remove(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> None:
        """Remove it from the queue."""
        self.pool.remove(self.id, reason=reason, timeout=timeout)

    def hold(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> None:
        """Put it on hold."""
        self.pool.hold(self.id, reason=reason, timeout=timeout)

    def release(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> None:
        """Release it."""
        self.pool.release(self.id, reason=reason, timeout=timeout)
