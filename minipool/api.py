"""The Python API for programs that use trio: a pool, submit descriptions, jobs.

    async with minipool.open_pool() as pool:
        [job] = await pool.submit(minipool.Submit(executable="/bin/true"))
        result = await job.result()

`minipool.connect()` offers the same to scripts and notebooks, without `await`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

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
from pool.errors import PoolError
from pool.ids import JobId
from protocol import rpc
from protocol.ad_table import ads_of
from protocol.address import Address
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
    WatchJobs,
)

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
    address = await trio.to_thread.run_sync(lambda: session.address("schedd", name=schedd))
    security = await trio.to_thread.run_sync(session.security_for, address)
    failed: PoolError | None = None
    async with rpc.connected(address, security=security) as peer:
        try:
            yield Pool(session, peer)
        except PoolError as error:  # leave the connection's nursery as what it is, not as a group
            failed = error
    if failed is not None:
        raise failed


async def _all_ads(peer: rpc.Peer, request: StreamRequest[AdBatch]) -> list[ClassAd]:
    async with peer.stream(request) as batches:
        return [ad async for batch in batches for ad in ads_of(batch)]


class Pool:
    """An access point of a pool, and the pool behind it."""

    def __init__(self, session: Session, peer: rpc.Peer) -> None:
        self.session = session
        self._peer = peer

    async def submit(self, description: Submit | str | Mapping[str, Value], *, count: int | None = None) -> list[Job]:
        """Queue jobs; they are durable when this returns. SubmitError says what is wrong with the description."""
        from minipool.submission import request

        given = description if isinstance(description, Submit) else Submit(description)
        plan = given.plan(self.session, count=count)
        if not plan.count:  # no item, no job
            return []
        cluster = None
        if plan.needs_cluster_id:
            cluster = (await self._peer.call(ReserveCluster())).cluster
            plan = plan.for_cluster(cluster)
        answer = await self._peer.call(request(plan, cluster=cluster), timeout=SUBMIT_TIMEOUT_S)
        return [Job(self, JobId(answer.cluster, proc)) for proc in range(answer.count)]

    def job(self, cluster: int, proc: int = 0) -> Job:
        """The job of this id."""
        return Job(self, JobId(cluster, proc))

    async def jobs(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[ClassAd]:
        """Ads of jobs in the queue: these jobs or clusters, these users', all when none are named."""
        select = selection(which, users=users, constraint=constraint)
        request = QueryJobs(select=select, projection=list(projection), limit=limit, tables=True)
        return await _all_ads(self._peer, request)

    async def history(
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
        return await _all_ads(self._peer, request)

    async def ads(
        self, ad_type: str = "Machine", *, constraint: str | None = None, projection: Sequence[str] = ()
    ) -> list[ClassAd]:
        """Ads that the collector has: Machine (slots), Scheduler, Submitter, DaemonMaster, Negotiator, Any."""
        request = QueryAds(ad_type=ad_type, constraint=constraint, projection=list(projection))
        where: Address = await trio.to_thread.run_sync(self.session.collector_address)
        security = await trio.to_thread.run_sync(self.session.security_for, where)
        async with rpc.connected(where, security=security) as peer:
            return await _all_ads(peer, request)

    async def watch(
        self, *which: object, users: Iterable[str] = (), constraint: str | None = None, forever: bool = True
    ) -> AsyncIterator[JobState]:
        """The jobs as they are now, then each change. Without `forever`: until all that were seen have left."""
        states, present, synced = States(), set[JobId](), False
        request = WatchJobs(select=selection(which, users=users, constraint=constraint))
        async with self._peer.stream(request) as changes:
            async for changed in changes:
                for delta in changed.deltas:
                    (present.discard if delta.left else present.add)(delta.job_id)
                    yield states.take(delta)
                synced = synced or changed.synced
                if synced and not present and not forever:
                    return

    async def wait(self, jobs: Sequence[Job]) -> list[JobResult]:
        """The results of all these jobs, in their order, once each has left the queue."""
        results: dict[JobId, JobResult] = {}
        missing = list(jobs)
        while missing:
            async for state in self.watch(*missing, forever=False):
                if state.left:
                    results[state.id] = result_of(state.id, state.ad)
            missing = [job for job in jobs if job.id not in results]
            if missing := await self._not_in_history(missing, results):
                made = await self._clusters_that_make_jobs(missing)
                lost = await self._not_in_history([job for job in missing if job.id.cluster not in made], results)
                if lost:
                    raise UnknownJob(f"there is no job {lost[0].id}")
                await trio.sleep(MADE_LATER_S)
        return [results[job.id] for job in jobs]

    async def _not_in_history(self, jobs: Sequence[Job], results: dict[JobId, JobResult]) -> list[Job]:
        """Note the results that the history has; the jobs that it has not."""
        if jobs:
            for ad in await self.history(*jobs):
                id = JobId(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0))
                results[id] = result_of(id, ad)
        return [job for job in jobs if job.id not in results]

    async def _clusters_that_make_jobs(self, jobs: Sequence[Job]) -> set[int]:
        """Those of the jobs' clusters that still make jobs, as there is room for them (max_materialize, max_idle)."""
        clusters = {str(job.id.cluster) for job in jobs}
        request = QueryJobs(select=selection(clusters), projection=["ClusterId"], factories=True)
        return {ad.eval_int("ClusterId", 0) for ad in await _all_ads(self._peer, request)}

    async def act(
        self, action: Action, *which: object, constraint: str | None = None, reason: str | None = None
    ) -> int:
        """Do something to jobs; how many. NotDone names those to which it could not be done."""
        select = selection(which, constraint=constraint)
        return check(await self._peer.call(ActOnJobs(select=select, action=action, reason=reason)), action.value)

    async def remove(self, *which: object, constraint: str | None = None, reason: str | None = None) -> int:
        """Remove jobs from the queue."""
        return await self.act(Action.REMOVE, *which, constraint=constraint, reason=reason)

    async def hold(self, *which: object, constraint: str | None = None, reason: str | None = None) -> int:
        """Put jobs on hold."""
        return await self.act(Action.HOLD, *which, constraint=constraint, reason=reason)

    async def release(self, *which: object, constraint: str | None = None, reason: str | None = None) -> int:
        """Release held jobs."""
        return await self.act(Action.RELEASE, *which, constraint=constraint, reason=reason)

    async def edit(self, *which: object, constraint: str | None = None, **attributes: object) -> int:
        """Set attributes of jobs; a string is an expression (`'"text"'` is a text)."""
        select = selection(which, constraint=constraint)
        assignments = {name: expression(value) for name, value in attributes.items()}
        return check(await self._peer.call(EditJobs(select=select, assignments=assignments)), "edit")


class Job:
    """One job, by its id."""

    def __init__(self, pool: Pool, id: JobId) -> None:
        self.pool = pool
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id})"

    async def ad(self) -> ClassAd:
        """All that is known of the job, from the queue or from the history."""
        for ad in await self.pool.jobs(self.id) or await self.pool.history(self.id, limit=1):
            return ad
        raise UnknownJob(f"there is no job {self.id}")

    async def status(self) -> Status:
        """Where it is in its life."""
        return Status((await self.ad()).eval_int("JobStatus", 1))

    def follow(self) -> AsyncIterator[JobState]:
        """Its state now, then each change, until it has left the queue."""
        return self.pool.watch(self.id, forever=False)

    async def result(self) -> JobResult:
        """How it ended, once it has."""
        [result] = await self.pool.wait([self])
        return result

    async def remove(self, reason: str | None = None) -> None:
        """Remove it from the queue."""
        await self.pool.remove(self.id, reason=reason)

    async def hold(self, reason: str | None = None) -> None:
        """Put it on hold."""
        await self.pool.hold(self.id, reason=reason)

    async def release(self, reason: str | None = None) -> None:
        """Release it."""
        await self.pool.release(self.id, reason=reason)
