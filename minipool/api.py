"""The Python API for programs that use trio: a pool, submit descriptions, jobs.

    async with minipool.open_pool() as pool:
        [job] = await pool.submit(minipool.Submit(executable="/bin/true"))
        result = await job.result()

`minipool.connect()` offers the same to scripts and notebooks, without `await`. `timeout` is in seconds, and TimedOut
says that it is over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

import trio

from minipool.async_line import AsyncLine, within
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
from protocol import rpc
from protocol.ad_table import ads_of
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
from protocol.peer import CALL_TIMEOUT_S
from protocol.remote import TimedOut

SUBMIT_TIMEOUT_S = 600.0
MADE_LATER_S = 0.5
"""The pause before jobs are looked for again that their cluster has not made yet."""


@asynccontextmanager
async def open_pool(
    directory: str | None = None,
    *,
    pool: str | None = None,
    schedd: str | None = None,
    config: Sequence[str] | None = None,
) -> AsyncIterator[Pool]:
    """The pool of a directory, or of the collector `pool`, or the one that the configuration names.

    `schedd` names an access point other than this host's. The connection is kept for the time of the block.
    """
    session = Session.open(directory=directory, pool=pool, config=config)
    try:
        async with trio.open_nursery() as nursery:
            line = AsyncLine(session, schedd, nursery)
            await line.open()
            try:
                yield Pool(session, line)
            finally:
                await line.aclose()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # what went wrong is raised as what it is
        raise rpc.single(group) from None


class Pool:
    """An access point of a pool, and the pool behind it."""

    def __init__(self, session: Session, line: AsyncLine) -> None:
        self.session = session
        self._line = line

    async def submit(
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
            cluster = (await self._line.call(ReserveCluster(), timeout)).cluster
            plan = plan.for_cluster(cluster)
        answer = await self._line.call(request(plan, cluster=cluster), timeout)
        warn_of(plan, answer.warnings)
        return [Job(self, JobId(answer.cluster, proc)) for proc in range(answer.count)]

    def job(self, job: object, proc: int | None = None) -> Job:
        """The job of this id: `job(51, 0)`, `job("51.0")`; of a cluster alone, its first."""
        return Job(self, job_id(job, proc))

    async def jobs(
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
        return await self._all_ads(
            QueryJobs(select=select, projection=list(projection), limit=limit, tables=True), timeout
        )

    async def history(
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
        return await self._all_ads(QueryHistory(select=select, projection=list(projection), limit=limit), timeout)

    async def _all_ads(self, request: StreamRequest[AdBatch], timeout: float | None) -> list[ClassAd]:
        return [ad for batch in await self._line.items(request, timeout) for ad in ads_of(batch)]

    async def ads(
        self,
        ad_type: str = "Machine",
        *,
        constraint: str | None = None,
        projection: Sequence[str] = (),
        timeout: float | None = None,
    ) -> list[ClassAd]:
        """Ads that the collector has: Machine (slots), Scheduler, Submitter, DaemonMaster, Negotiator, Any."""
        request = QueryAds(ad_type=ad_type, constraint=constraint, projection=list(projection))

        async def ask() -> list[ClassAd]:
            where = await trio.to_thread.run_sync(self.session.collector_address)
            security = await trio.to_thread.run_sync(self.session.security_for, where)
            async with rpc.connected(where, security=security) as peer, peer.stream(request) as batches:
                return [ad async for batch in batches for ad in ads_of(batch)]

        return await within(Patience(trio.current_time(), timeout), ask)

    async def watch(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        forever: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[JobState]:
        """The jobs as they are now, then each change. Without `forever`: until all that were seen have left.

        It goes on when the schedd has restarted: a change that was missed is told when the schedd is back.
        """
        select = selection(which, users=users, constraint=constraint)
        if select is None:
            return
        following, patience = Following(), Patience(trio.current_time(), timeout)
        async with aclosing(self._line.changes(WatchJobs(select=select), patience)) as changes:
            async for changed in changes:
                if changed is None:
                    following.begin()
                    continue
                for state in following.take(changed):
                    yield state
                if gone := following.gone:
                    left = patience.left(trio.current_time())
                    for state in following.leave(await self.history(gone, timeout=left)):
                        yield state
                if following.over and not forever:
                    return

    async def wait(self, jobs: object, *, timeout: float | None = None) -> list[JobResult]:
        """The results of all these jobs, in their order, once each has left the queue.

        `jobs` are a job, an id, a cluster with all its jobs, or a list of such. JobHeldWarning tells of those on hold.
        """
        waiting, patience = Waiting(jobs), Patience(trio.current_time(), timeout)
        try:
            await self._wait(waiting, patience)
        except TimedOut:
            raise TimedOut(waiting.unfinished(timeout)) from None
        return waiting.results

    async def _wait(self, waiting: Waiting, patience: Patience) -> None:
        def left() -> float | None:
            return patience.left(trio.current_time())

        while waiting.missing:
            async for state in self.watch(waiting.missing, forever=False, timeout=left()):
                waiting.take(state)
            if missing := waiting.missing:
                waiting.take_history(await self.history(missing, timeout=left()))
            if missing := waiting.missing:
                making = await self._clusters_that_make_jobs(waiting.clusters, left())
                queued = await self.jobs(missing, projection=("ClusterId", "ProcId"), timeout=left())
                waiting.settle(making, queued, await self.history(missing, timeout=left()))
                if waiting.missing:
                    await trio.sleep(patience.rest(trio.current_time(), MADE_LATER_S))

    async def _clusters_that_make_jobs(self, clusters: Sequence[int], timeout: float | None) -> list[ClassAd]:
        """Those of the clusters that still make jobs, as there is room for them (max_materialize, max_idle)."""
        select = Selection(ids=[str(cluster) for cluster in clusters])
        return await self._all_ads(QueryJobs(select=select, projection=["ClusterId"], factories=True), timeout)

    async def act(
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
        return check(await self._line.call(request, timeout), action.value)

    async def remove(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> int:
        """Remove jobs from the queue."""
        return await self.act(Action.REMOVE, *which, constraint=constraint, reason=reason, timeout=timeout)

    async def hold(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> int:
        """Put jobs on hold."""
        return await self.act(Action.HOLD, *which, constraint=constraint, reason=reason, timeout=timeout)

    async def release(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> int:
        """Release held jobs."""
        return await self.act(Action.RELEASE, *which, constraint=constraint, reason=reason, timeout=timeout)

    async def edit(
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
        return check(await self._line.call(EditJobs(select=select, assignments=assignments), timeout), "edit")


class Job:
    """One job, by its id."""

    def __init__(self, pool: Pool, id: JobId) -> None:
        self.pool = pool
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id})"

    async def ad(self, *, timeout: float | None = None) -> ClassAd:
        """All that is known of the job, from the queue or from the history."""
        patience = Patience(trio.current_time(), timeout)
        queued = await self.pool.jobs(self.id, timeout=timeout)
        for ad in queued or await self.pool.history(self.id, limit=1, timeout=patience.left(trio.current_time())):
            return ad
        raise UnknownJob(f"there is no job {self.id}")

    async def status(self, *, timeout: float | None = None) -> Status:
        """Where it is in its life."""
        return Status((await self.ad(timeout=timeout)).eval_int("JobStatus", 1))

    def follow(self, *, timeout: float | None = None) -> AsyncIterator[JobState]:
        """Its state now, then each change, until it has left the queue."""
        return self.pool.watch(self.id, forever=False, timeout=timeout)

    async def result(self, *, timeout: float | None = None) -> JobResult:
        """How it ended, once it has; JobHeldWarning tells when it is on hold meanwhile."""
        [result] = await self.pool.wait([self], timeout=timeout)
        return result

    async def remove(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> None:
        """Remove it from the queue."""
        await self.pool.remove(self.id, reason=reason, timeout=timeout)

    async def hold(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> None:
        """Put it on hold."""
        await self.pool.hold(self.id, reason=reason, timeout=timeout)

    async def release(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> None:
        """Release it."""
        await self.pool.release(self.id, reason=reason, timeout=timeout)
