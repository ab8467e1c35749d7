"""The Python API for scripts and notebooks: as `minipool.api`, without `await`.

    with minipool.connect() as pool:
        [job] = pool.submit(minipool.Submit(executable="/bin/true"))
        print(job.result().exit_code)

Not for several threads at once: each needs a connection of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from minipool.model import (
    JobResult,
    JobState,
    States,
    Status,
    Submit,
    UnknownJob,
    Value,
    check,
    expression,
    result_of,
    selection,
)
from minipool.session import Session
from pool.classad import ClassAd
from pool.ids import JobId
from protocol.messages.collector import QueryAds
from protocol.messages.schedd import (
    Action,
    ActOnJobs,
    EditJobs,
    QueryHistory,
    QueryJobs,
    ReserveCluster,
    WatchJobs,
)

if TYPE_CHECKING:
    from types import TracebackType

    from protocol.blocking import BlockingPeer

SUBMIT_TIMEOUT_S = 600.0
UNUSED_S = 60.0
"""A connection that was not used for so long may have been closed (CONNECTION_IDLE_TIMEOUT)."""
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
        self._schedd = schedd
        self._connection = session.daemon("schedd", name=schedd)
        self._used_at = time.monotonic()

    @property
    def _peer(self) -> BlockingPeer:
        """The connection; a new one when the schedd has closed it, since it was not used for long."""
        now = time.monotonic()
        if now - self._used_at >= UNUSED_S and not self._connection.is_open():
            self._connection = self.session.daemon("schedd", name=self._schedd)
        self._used_at = now
        return self._connection

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def submit(self, description: Submit | str | Mapping[str, Value], *, count: int | None = None) -> list[Job]:
        """Queue jobs; they are durable when this returns. SubmitError says what is wrong with the description."""
        from minipool.submission import request

        given = description if isinstance(description, Submit) else Submit(description)
        plan = given.plan(self.session, count=count)
        cluster = None
        if plan.needs_cluster_id:
            cluster = self._peer.call(ReserveCluster()).cluster
            plan = plan.for_cluster(cluster)
        answer = self._peer.call(request(plan, cluster=cluster), timeout=SUBMIT_TIMEOUT_S)
        return [Job(self, JobId(answer.cluster, proc)) for proc in range(answer.count)]

    def job(self, cluster: int, proc: int = 0) -> Job:
        """The job of this id."""
        return Job(self, JobId(cluster, proc))

    def jobs(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[ClassAd]:
        """Ads of jobs in the queue: these jobs or clusters, these users', all when none are named."""
        select = selection(which, users=users, constraint=constraint)
        request = QueryJobs(select=select, projection=list(projection), limit=limit)
        return [ad for batch in self._peer.stream(request) for ad in batch.ads]

    def history(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[ClassAd]:
        """Ads of jobs that left the queue, newest first."""
        select = selection(which, users=users, constraint=constraint)
        request = QueryHistory(select=select, projection=list(projection), limit=limit)
        return [ad for batch in self._peer.stream(request) for ad in batch.ads]

    def ads(
        self, ad_type: str = "Machine", *, constraint: str | None = None, projection: Sequence[str] = ()
    ) -> list[ClassAd]:
        """Ads that the collector has: Machine (slots), Scheduler, Submitter, DaemonMaster, Negotiator, Any."""
        request = QueryAds(ad_type=ad_type, constraint=constraint, projection=list(projection))
        where = self.session.collector_address()
        with self.session.connect(where) as peer:
            return [ad for batch in peer.stream(request) for ad in batch.ads]

    def watch(
        self, *which: object, users: Iterable[str] = (), constraint: str | None = None, forever: bool = True
    ) -> Iterator[JobState]:
        """The jobs as they are now, then each change. Without `forever`: until all that were seen have left."""
        states, present, synced = States(), set[JobId](), False
        request = WatchJobs(select=selection(which, users=users, constraint=constraint))
        for changed in self._peer.stream(request):
            for delta in changed.deltas:
                (present.discard if delta.left else present.add)(delta.job_id)
                yield states.take(delta)
            synced = synced or changed.synced
            if synced and not present and not forever:
                return

    def wait(self, jobs: Sequence[Job]) -> list[JobResult]:
        """The results of all these jobs, in their order, once each has left the queue."""
        results: dict[JobId, JobResult] = {}
        missing = list(jobs)
        while missing:
            for state in self.watch(*missing, forever=False):
                if state.left:
                    results[state.id] = result_of(state.id, state.ad)
            missing = [job for job in jobs if job.id not in results]
            if missing := self._not_in_history(missing, results):
                made = self._clusters_that_make_jobs(missing)
                lost = self._not_in_history([job for job in missing if job.id.cluster not in made], results)
                if lost:
                    raise UnknownJob(f"there is no job {lost[0].id}")
                time.sleep(MADE_LATER_S)
        return [results[job.id] for job in jobs]

    def _not_in_history(self, jobs: Sequence[Job], results: dict[JobId, JobResult]) -> list[Job]:
        """Note the results that the history has; the jobs that it has not."""
        if jobs:
            for ad in self.history(*jobs):
                id = JobId(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0))
                results[id] = result_of(id, ad)
        return [job for job in jobs if job.id not in results]

    def _clusters_that_make_jobs(self, jobs: Sequence[Job]) -> set[int]:
        """Those of the jobs' clusters that still make jobs, as there is room for them (max_materialize, max_idle)."""
        clusters = {str(job.id.cluster) for job in jobs}
        request = QueryJobs(select=selection(clusters), projection=["ClusterId"], factories=True)
        return {ad.eval_int("ClusterId", 0) for batch in self._peer.stream(request) for ad in batch.ads}

    def act(self, action: Action, *which: object, constraint: str | None = None, reason: str | None = None) -> int:
        """Do something to jobs; how many. NotDone names those to which it could not be done."""
        select = selection(which, constraint=constraint)
        return check(self._peer.call(ActOnJobs(select=select, action=action, reason=reason)), action.value)

    def remove(self, *which: object, constraint: str | None = None, reason: str | None = None) -> int:
        """Remove jobs from the queue."""
        return self.act(Action.REMOVE, *which, constraint=constraint, reason=reason)

    def hold(self, *which: object, constraint: str | None = None, reason: str | None = None) -> int:
        """Put jobs on hold."""
        return self.act(Action.HOLD, *which, constraint=constraint, reason=reason)

    def release(self, *which: object, constraint: str | None = None, reason: str | None = None) -> int:
        """Release held jobs."""
        return self.act(Action.RELEASE, *which, constraint=constraint, reason=reason)

    def edit(self, *which: object, constraint: str | None = None, **attributes: object) -> int:
        """Set attributes of jobs; a string is an expression (`'"text"'` is a text)."""
        select = selection(which, constraint=constraint)
        assignments = {name: expression(value) for name, value in attributes.items()}
        return check(self._peer.call(EditJobs(select=select, assignments=assignments)), "edit")


class Job:
    """One job, by its id."""

    def __init__(self, pool: Pool, id: JobId) -> None:
        self.pool = pool
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id})"

    def ad(self) -> ClassAd:
        """All that is known of the job, from the queue or from the history."""
        for ad in self.pool.jobs(self.id) or self.pool.history(self.id, limit=1):
            return ad
        raise UnknownJob(f"there is no job {self.id}")

    def status(self) -> Status:
        """Where it is in its life."""
        return Status(self.ad().eval_int("JobStatus", 1))

    def follow(self) -> Iterator[JobState]:
        """Its state now, then each change, until it has left the queue."""
        return self.pool.watch(self.id, forever=False)

    def result(self) -> JobResult:
        """How it ended, once it has."""
        [result] = self.pool.wait([self])
        return result

    def remove(self, reason: str | None = None) -> None:
        """Remove it from the queue."""
        self.pool.remove(self.id, reason=reason)

    def hold(self, reason: str | None = None) -> None:
        """Put it on hold."""
        self.pool.hold(self.id, reason=reason)

    def release(self, reason: str | None = None) -> None:
        """Release it."""
        self.pool.release(self.id, reason=reason)
