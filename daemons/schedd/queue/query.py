"""Answers questions about jobs: those in the queue, those in the history, and each change from now on.

HTCondor's manual: man pages condor_q, condor_history and condor_wait; users-manual/job-sets.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import trio

from daemons.base.pace import Pace
from daemons.schedd.core.core import Core
from daemons.schedd.core.selection import Chosen, any_of, owner_of
from daemons.schedd.core.writer import Touched
from daemons.schedd.files.agents import SETTLE_S, Agents
from daemons.schedd.logs.records import RecordReader
from daemons.schedd.queue.answer import ADS_PER_BATCH, JobBatches, projected
from daemons.schedd.queue.factories import Factories
from pool.ads.limits import asked_for
from pool.base.errors import PoolError
from pool.base.ids import JobId, named_jobs
from pool.classad import ClassAd, expr
from pool.classad.eval.budget import Patience, TooDear
from pool.classad.values.truth import is_true
from pool.jobs.queue import job_sets
from pool.jobs.queue.cluster import Job
from pool.jobs.queue.history import HistoryReader
from pool.jobs.queue.store import WriteBatch
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe
from protocol.messages.common import AdBatch
from protocol.messages.schedd import (
    CountJobs,
    JobCounts,
    JobDelta,
    JobsChanged,
    OwnerCount,
    QueryHistory,
    QueryJobs,
    WatchJobs,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, SendItem, answer

DELTAS_PER_BATCH: Final = 200
BACKLOG_MAX: Final = 100_000
"""Changes that a watcher may be behind; it is then told to begin anew."""


class Slow(PoolError):
    """A watcher does not keep up."""


class Queries:
    """Handlers of questions. `history` opens a reader of its own for each query."""

    def __init__(self, core: Core, agents: Agents, open_history: Callable[[], HistoryReader]) -> None:
        self._core = core
        self._agents = agents
        self._open_history = open_history
        self._watchers: set[_Watcher] = set()

    def answers(self) -> list[Answer]:
        """Questions about jobs."""
        return [
            answer(QueryJobs, self.jobs),
            answer(CountJobs, self.count),
            answer(QueryHistory, self.history),
            answer(WatchJobs, self.watch),
        ]

    # ---- the queue

    async def jobs(self, peer: Peer, request: QueryJobs, send: SendItem[AdBatch]) -> None:
        """The ads of the selected jobs."""
        chosen = any_of(request.select)
        left = request.limit
        if request.factories:
            ads = [Factories.shown(cluster) for cluster in chosen.factories(self._core.queue)]
            wanted = asked_for(request.projection)
            await send(AdBatch(ads=[ad.project(wanted) if wanted else ad.flat() for ad in ads[:left]]))
            return
        if request.job_sets:
            asked_for(request.projection)
            await send(AdBatch(ads=await self._job_sets(chosen, request)))
            return
        shown = JobBatches(self._core, request.projection, request.tables)
        async with aclosing(chosen.pages(self._core.queue)) as pages:
            async for page in pages:
                page = page if left is None else page[:left]
                left = None if left is None else left - len(page)
                for some in shown.pieces(page):
                    for batch in list(shown.batches(some)):  # made at one go: jobs may leave while one is sent
                        await send(batch)
                if left == 0:
                    break
        await self._settled(peer)
        if shown.waiting:
            await send(shown.rest())

    async def _job_sets(self, chosen: Chosen, request: QueryJobs) -> list[ClassAd]:
        """The ads of the selected job sets, in order of id."""
        queue, threads = self._core.queue, self._core.start.world.threads
        sets = job_sets.by_id(queue.clusters.values())
        if not sets:
            return []
        await self._core.writer.durable()
        reader = await threads.run_sync(self._open_history)
        ads: list[ClassAd] = []
        try:
            for id, clusters in sorted(sets.items()):
                ended = await threads.run_sync(reader.ended_in_set, id)
                ad = job_sets.set_ad(id, clusters, ended)
                about = chosen.everything or any(_is_about(chosen, cluster.ad) for cluster in clusters)
                if about and chosen.satisfied_by(ad):
                    ads.append(projected(ad, request.projection) if request.projection else ad)
        finally:
            reader.close()  # nothing is awaited here: whoever has asked may be gone, and this be cancelled
        return ads[: request.limit]

    async def count(self, peer: Peer, request: CountJobs) -> JobCounts:
        """The totals."""
        queue = self._core.queue
        apart: dict[str, Counter[JobStatus]] = {}
        for cluster in queue.clusters.values():
            if cluster.ad.attrs["jobuniverse"] == Universe.SCHEDULER:
                apart.setdefault(cluster.owner, Counter()).update(job.status for job in cluster.jobs.values())
        found = []
        for owner, states in queue.by_owner.items():
            for status, count in states.items():
                own = apart[owner][status] if owner in apart else 0
                for scheduler, number in ((False, count - own), (True, own)):
                    if number:
                        found.append(OwnerCount(owner=owner, status=int(status), count=number, scheduler=scheduler))
        await self._settled(peer)
        return JobCounts(counts=found)

    async def _settled(self, peer: Peer) -> None:
        """Wait until who is not told of a job any more finds its end in the log, which hears of it when it is durable.

        A disk that hangs holds him up no longer than a log does.
        """
        with trio.move_on_after(SETTLE_S):
            await self._core.writer.durable()
        await self._agents.settled(owner_of(peer))

    # ---- the history

    async def history(self, peer: Peer, request: QueryHistory, send: SendItem[AdBatch]) -> None:
        """The ads of selected jobs that have left the queue."""
        threads = self._core.start.world.threads
        await self._core.writer.durable()
        asked_for(request.projection)
        search = _Search(request)
        reader: HistoryReader | RecordReader
        if request.kinds:
            reader = RecordReader(self._core.settings.records.epochs, request.kinds)
        else:
            reader = await threads.run_sync(self._open_history)
        read_page = partial(reader.page, forwards=request.forwards, **search.narrowed())
        after: int | None = None
        try:
            while not search.is_over:
                page = await threads.run_sync(read_page, after)
                ads = await search.found_in(page.ads)
                await self._agents.settled(owner_of(peer))
                for at in range(0, len(ads), ADS_PER_BATCH):
                    await send(AdBatch(ads=ads[at : at + ADS_PER_BATCH]))
                after = page.next_seq
                if after is None:
                    return
        finally:
            reader.close()

    # ---- changes

    async def watch(self, peer: Peer, request: WatchJobs, send: SendItem[JobsChanged]) -> None:
        """The selected jobs as they are, then each change of them."""
        watcher = _Watcher(self._core, any_of(request.select), request.projection)
        self._watchers.add(watcher)
        try:
            deltas = []
            async for job in watcher.chosen.find(self._core.queue):
                deltas.append(watcher.first(job))
                if len(deltas) >= DELTAS_PER_BATCH:
                    await send(JobsChanged(deltas=deltas))
                    deltas = []
            await send(JobsChanged(deltas=deltas + watcher.synced(), synced=True))
            while True:
                deltas = await watcher.next()
                if any(delta.left for delta in deltas):
                    await self._agents.settled(owner_of(peer))
                await send(JobsChanged(deltas=deltas))
        finally:
            self._watchers.discard(watcher)

    def committed(self, batch: WriteBatch, touched: Touched) -> None:
        """Watchers hear of what has become durable."""
        for watcher in self._watchers:
            for job, names in touched.items():
                try:
                    watcher.changed(job, names)
                except TooDear as error:
                    watcher.end(error)


class _Watcher:
    """One watch: what it wants, what it knows, and what it has not been sent yet."""

    def __init__(self, core: Core, chosen: Chosen, projection: Sequence[str]) -> None:
        self._core = core
        self.chosen = chosen
        self._projection = [*asked_for(projection)]
        self._wanted = {name.lower() for name in projection}
        self._known: set[JobId] = set()
        self._backlog: deque[JobDelta] = deque()
        self._wake = trio.Event()
        self._failed: PoolError | None = None
        self._again: dict[Job, None] | None = {}
        """Jobs that change while the first ones are still being sent."""

    def first(self, job: Job) -> JobDelta:
        """A job as it is now."""
        self._known.add(job.id)
        return JobDelta(job_id=job.id, ad=self._shown(job))

    def synced(self) -> list[JobDelta]:
        """What has changed while the jobs that were there were being sent; from now on changes come one by one."""
        # Before they are looked at: what changes from here on comes through `changed` by itself.
        again, self._again = self._again, None
        for job in again or ():
            self.changed(job, None)
        deltas = [*self._backlog]
        self._backlog.clear()
        return deltas

    def _shown(self, job: Job) -> ClassAd:
        ad = self._core.queue.ad(job)
        return ad.project(self._projection) if self._projection else ad.flat()

    def changed(self, job: Job, names: set[str] | None) -> None:
        """A change of a job has become durable."""
        if self._failed is not None or not self.chosen.about(job):
            return
        if self._again is not None:
            self._again[job] = None
            return
        left = job.cluster.jobs.get(job.proc) is not job
        if job.id not in self._known:
            if self.chosen.satisfied_by(self._core.queue.ad(job)):
                self._known.add(job.id)
                self._put(JobDelta(job_id=job.id, ad=self._shown(job), left=left))
        elif left or names is None:
            self._put(JobDelta(job_id=job.id, ad=self._shown(job), left=left))
        else:
            shown = [name for name in names if not self._wanted or name.lower() in self._wanted]
            if shown:
                self._put(JobDelta(job_id=job.id, ad=self._core.queue.ad(job).project(shown)))
        if left:
            self._known.discard(job.id)

    def end(self, error: PoolError) -> None:
        """The watch cannot go on."""
        self._failed = error
        self._backlog.clear()
        self._wake.set()

    def _put(self, delta: JobDelta) -> None:
        if len(self._backlog) >= BACKLOG_MAX:
            self.end(Slow(f"the watcher is more than {BACKLOG_MAX} changes behind; watch anew"))
            return
        self._backlog.append(delta)
        self._wake.set()

    async def next(self) -> list[JobDelta]:
        """What has changed since the last time."""
        await self._wake.wait()
        if self._failed is not None:
            raise self._failed
        deltas = [self._backlog.popleft() for _ in range(min(len(self._backlog), DELTAS_PER_BATCH))]
        if not self._backlog:
            self._wake = trio.Event()
        return deltas


class _Search:
    """What one question about the history wants, and how much of that is still to be found."""

    def __init__(self, request: QueryHistory) -> None:
        self._chosen = any_of(request.select)
        self._since = _Since(request.since)
        self._projection = request.projection
        self._left, self._unseen = request.limit, request.scan_limit
        self.is_over = self._left is not None and self._left <= 0

    def narrowed(self) -> dict[str, Any]:
        """What the reader itself can look for."""
        cluster, proc = _only(self._chosen)
        return {"cluster": cluster, "proc": proc, "owner": _only_owner(self._chosen)}

    async def found_in(self, ads: Iterable[ClassAd]) -> list[ClassAd]:
        """Those of a page that are wanted, as they are shown."""
        found: list[ClassAd] = []
        pace = Pace()
        for ad in ads:
            await pace.breathe()
            if self.is_over or self._since.reached(ad) or self._unseen == 0:
                self.is_over = True
                break
            self._unseen = None if self._unseen is None else self._unseen - 1
            if _is_about(self._chosen, ad) and self._chosen.satisfied_by(ad):
                found.append(projected(ad, self._projection) if self._projection else ad.flat())
                if self._left is not None:
                    self._left -= 1
                    self.is_over = self._left <= 0
        return found


class _Since:
    """Where a search of the history stops: at a job's id, a cluster's, or when an expression holds."""

    def __init__(self, since: str | None) -> None:
        text = (since or "").strip()
        self._id = named_jobs(text)
        self._expr = Patience(expr(text)) if text and self._id is None else None

    def reached(self, ad: ClassAd) -> bool:
        """Whether this job, and all before it, are not wanted."""
        if self._id is not None:
            cluster, proc = self._id
            return ad.eval_int("ClusterId") == cluster and (proc is None or ad.eval_int("ProcId") == proc)
        if self._expr is None:
            return False
        value = self._expr.eval(ad)
        return is_true(value)


def _only(chosen: Chosen) -> tuple[int | None, int | None]:
    """The one cluster or job that a selection is about, if it names just one."""
    if chosen.everything or chosen.users or len(chosen.jobs) + len(chosen.clusters) != 1:
        return None, None
    return next(iter(chosen.jobs)) if chosen.jobs else (next(iter(chosen.clusters)), None)


def _only_owner(chosen: Chosen) -> str | None:
    """The one owner that a selection is about, if it names nothing else."""
    if chosen.everything or chosen.jobs or chosen.clusters or len(chosen.users) != 1:
        return None
    return next(iter(chosen.users)).partition("@")[0]


def _is_about(chosen: Chosen, ad: ClassAd) -> bool:
    """Whether a job of the history is among the ids and users of a selection."""
    if chosen.everything:
        return True
    cluster, proc = ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0)
    return (
        cluster in chosen.clusters
        or JobId(cluster, proc) in chosen.jobs
        or ad.eval_str("Owner", "") in chosen.users
        or ad.eval_str("User", "") in chosen.users
    )
