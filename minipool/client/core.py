"""The Python API without its input and output: each method is the steps of one call (`steps.py`).

`blocking.py` and `over_trio.py` make the two faces of it. A change belongs here, and both faces have it.

Rules. What changes something is sent once: when the connection is lost before the answer, ConnectionLost says that it
is not known whether the request had its effect. What only asks is asked again. A watch goes on where it was, for the
schedd tells everything from the start (`tracking.py`). An empty list of jobs means none; no list at all means all for
what asks, and none for what changes. `timeout` is in seconds and for the whole call; TimedOut says that it is over.

Source: docs/api.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minipool.client.model import (
    EDGE,
    JobResult,
    JobState,
    Status,
    Submit,
    SubmitWarning,
    UnknownJob,
    Value,
    check,
    expression,
    selection,
    to_change,
    warn,
)
from minipool.client.patience import Attempts
from minipool.client.steps import (
    AllOfCollector,
    Now,
    Sleep,
    Step,
    Steps,
    Tell,
    call,
    changes,
    do,
    items,
    left,
    patience_of,
)
from minipool.client.tracking import AwaitedJobs, Following
from minipool.client.watching import changes_of_ads
from pool.ads.seen import AdNews, SeenAds
from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.collector import QueryAds, WatchAds
from protocol.messages.common import AdBatch
from protocol.messages.schedd import (
    Action,
    ActOnJobs,
    EditJobs,
    JobsChanged,
    QueryHistory,
    QueryJobs,
    Selection,
    WatchJobs,
)
from protocol.rpc.remote import TimedOut
from protocol.wire.ad_table import ads_of
from protocol.wire.message import StreamRequest

if TYPE_CHECKING:
    from minipool.client.session import Session

CALL_TIMEOUT_S: Final = 20.0
SUBMIT_TIMEOUT_S: Final = 600.0
MADE_LATER_S: Final = 0.5
"""The pause before jobs are looked for again that their cluster has not made yet."""

Take = Callable[[Sequence[JobState], bool], Iterable[Step]]
"""Takes the states that are new, and whether everything that is there has been told; what it returns is done next."""


class PoolCore:
    """An access point of a pool, and the pool behind it."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def submit(
        self,
        description: Submit | str | Mapping[str, Value],
        *,
        count: int | None = None,
        timeout: float | None = SUBMIT_TIMEOUT_S,
    ) -> Steps[list[JobId]]:
        """Queue jobs; they are durable when this returns. SubmitError says what is wrong with the description.

        SubmitWarning tells what is odd about it. When the connection is lost meanwhile (ConnectionLost), it is not
        known whether the jobs are queued.
        """
        from minipool.client.submission import queue

        given = description if isinstance(description, Submit) else Submit(description)
        plan = yield from do(lambda: given.plan(self.session, count=count))
        queued = yield from queue(plan, timeout=timeout)
        for warning in queued.warnings:
            if EDGE not in warning:  # a column that the API has made, and the user knows nothing of
                warn(warning, SubmitWarning)
        return [JobId(queued.cluster, proc) for proc in range(queued.jobs)]

    def jobs(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
        timeout: float | None = None,
    ) -> Steps[list[ClassAd]]:
        """Ads of jobs in the queue: these jobs or clusters, these users', all when none are named."""
        select = selection(which, users=users, constraint=constraint)
        if select is None:
            return []
        request = QueryJobs(select=select, projection=list(projection), limit=limit, tables=True)
        return (yield from _ads(request, timeout))

    def history(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
        timeout: float | None = None,
    ) -> Steps[list[ClassAd]]:
        """Ads of jobs that left the queue, newest first."""
        select = selection(which, users=users, constraint=constraint)
        if select is None:
            return []
        request = QueryHistory(select=select, projection=list(projection), limit=limit)
        return (yield from _ads(request, timeout))

    def ads(
        self,
        ad_type: str = "Machine",
        *,
        constraint: str | None = None,
        projection: Sequence[str] = (),
        timeout: float | None = None,
    ) -> Steps[list[ClassAd]]:
        """Ads that the collector has: Machine (slots), Scheduler, Submitter, DaemonMaster, Negotiator, Any."""
        request = QueryAds(ad_type=ad_type, constraint=constraint, projection=list(projection))
        batches: list[AdBatch] = yield AllOfCollector(request=request, patience=(yield from patience_of(timeout)))
        return [ad for batch in batches for ad in ads_of(batch)]

    def watch_ads(
        self,
        ad_type: str = "Machine",
        *,
        constraint: str | None = None,
        projection: Sequence[str] = (),
        seen: SeenAds | None = None,
        timeout: float | None = None,
    ) -> Steps[None]:
        """The ads that the collector has, then each change of one, without end.

        It goes on when the connection is lost or the collector restarts: what is different then is told, and what is
        the same is not told again. So it does where `seen`, which it keeps, has been kept from another watch of the
        same ads.
        """
        patience = yield from patience_of(timeout)
        seen = SeenAds() if seen is None else seen
        yield from watched_ads(ad_type, constraint, projection, seen, patience, _told)

    def watch(
        self,
        *which: object,
        users: Iterable[str] = (),
        constraint: str | None = None,
        forever: bool = True,
        timeout: float | None = None,
    ) -> Steps[None]:
        """The jobs as they are now, then each change. Without `forever`: until all that were seen have left.

        It goes on when the schedd has restarted: a change that was missed is told when the schedd is back.
        """
        select = selection(which, users=users, constraint=constraint)
        return _watch(select, forever, timeout)

    def wait(self, jobs: object, *, timeout: float | None = None) -> Steps[list[JobResult]]:
        """The results of all these jobs, in their order, once each has left the queue.

        `jobs` are a job, an id, a cluster with all its jobs, or a list of such. JobHeldWarning tells of those on hold.
        """
        waiting, patience = AwaitedJobs(jobs), (yield from patience_of(timeout))
        try:
            while waiting.missing:
                yield from self._wait(waiting, patience)
        except TimedOut:
            raise TimedOut(waiting.unfinished(timeout)) from None
        return waiting.results

    def _wait(self, waiting: AwaitedJobs, patience: Attempts) -> Steps[None]:
        """Wait for the missing jobs that are in the queue, and look for those that are not."""

        def take(states: Sequence[JobState], complete: bool) -> Iterable[Step]:
            for state in states:
                waiting.take(state)
            return ()

        select = selection(waiting.missing)
        if select is not None:
            yield from follow(select, patience, take)
        if missing := waiting.missing:
            # What is asked for in this order can be believed: clusters that make jobs before the queue, the queue
            # before the history. A job that moves on meanwhile is found in the later of two.
            waiting.take_history((yield from self.history(missing, timeout=(yield from left(patience)))))
        if missing := waiting.missing:
            making = yield from _clusters_that_make_jobs(waiting.clusters, (yield from left(patience)))
            names = ("ClusterId", "ProcId")
            queued = yield from self.jobs(missing, projection=names, timeout=(yield from left(patience)))
            ended = yield from self.history(missing, timeout=(yield from left(patience)))
            waiting.settle(making, queued, ended)
            if waiting.missing:
                yield Sleep(seconds=patience.rest((yield Now()), MADE_LATER_S))

    def act(
        self,
        action: Action,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> Steps[int]:
        """Do something to jobs; how many. NotDone names those to which it could not be done; none is none at all."""
        select = to_change(which, constraint)
        if select is None:
            return 0
        results = yield from call(ActOnJobs(select=select, action=action, reason=reason), timeout)
        return check(results, action.value)

    # Each verb has its own parameters: they are what both faces, editors and mypy show.

    def remove(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> Steps[int]:
        """Remove jobs from the queue."""
        return self.act(Action.REMOVE, *which, constraint=constraint, reason=reason, timeout=timeout)

    def hold(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> Steps[int]:
        """Put jobs on hold."""
        return self.act(Action.HOLD, *which, constraint=constraint, reason=reason, timeout=timeout)

    def release(
        self,
        *which: object,
        constraint: str | None = None,
        reason: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
    ) -> Steps[int]:
        """Release held jobs."""
        return self.act(Action.RELEASE, *which, constraint=constraint, reason=reason, timeout=timeout)

    def edit(
        self,
        /,
        *which: object,
        constraint: str | None = None,
        timeout: float | None = CALL_TIMEOUT_S,
        **attributes: object,
    ) -> Steps[int]:
        """Set attributes of jobs; a string is an expression (`'"text"'` is a text)."""
        select = to_change(which, constraint)
        if select is None:
            return 0
        assignments = {name: expression(value) for name, value in attributes.items()}
        return check((yield from call(EditJobs(select=select, assignments=assignments), timeout)), "edit")


class JobCore:
    """One job, by its id."""

    def __init__(self, pool: PoolCore, id: JobId) -> None:
        self.pool = pool
        self.id = id

    def ad(self, *, timeout: float | None = None) -> Steps[ClassAd]:
        """All that is known of the job, from the queue or from the history."""
        patience = yield from patience_of(timeout)
        found = yield from self.pool.jobs(self.id, timeout=timeout)
        if not found:
            found = yield from self.pool.history(self.id, limit=1, timeout=(yield from left(patience)))
        if not found:
            raise UnknownJob(f"there is no job {self.id}")
        return found[0]

    def status(self, *, timeout: float | None = None) -> Steps[Status]:
        """Where it is in its life."""
        ad = yield from self.ad(timeout=timeout)
        return Status(ad.eval_int("JobStatus", Status.IDLE.value))

    def follow(self, *, timeout: float | None = None) -> Steps[None]:
        """Its state now, then each change, until it has left the queue."""
        return self.pool.watch(self.id, forever=False, timeout=timeout)

    def result(self, *, timeout: float | None = None) -> Steps[JobResult]:
        """How it ended, once it has; JobHeldWarning tells when it is on hold meanwhile."""
        [result] = yield from self.pool.wait([self], timeout=timeout)
        return result

    def remove(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> Steps[None]:
        """Remove it from the queue."""
        yield from self.pool.remove(self.id, reason=reason, timeout=timeout)

    def hold(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> Steps[None]:
        """Put it on hold."""
        yield from self.pool.hold(self.id, reason=reason, timeout=timeout)

    def release(self, reason: str | None = None, *, timeout: float | None = CALL_TIMEOUT_S) -> Steps[None]:
        """Release it."""
        yield from self.pool.release(self.id, reason=reason, timeout=timeout)


def follow(
    select: Selection,
    patience: Attempts,
    take: Take,
    *,
    forever: bool = False,
    projection: Sequence[str] = (),
) -> Steps[None]:
    """`take` the selected jobs as they are now, then each change. Without `forever`: until all that were seen left."""
    following = Following()

    def one(changed: JobsChanged | None) -> Steps[bool]:
        if changed is None:
            following.begin()
            return False
        # What is new is told before those that are gone: a watcher counts a job that came and left while nobody
        # listened.
        new = following.take(changed)
        gone = following.gone
        yield from take(new, following.synced and not gone)
        if gone:
            ids = Selection(ids=[str(id) for id in gone])
            request = QueryHistory(select=ids, projection=list(projection))
            ended = yield from _ads(request, (yield from left(patience)))
            yield from take(following.leave(ended), True)
        return following.over and not forever

    yield from changes(WatchJobs(select=select, projection=list(projection)), patience, one)


def watched_ads(
    ad_type: str,
    constraint: str | None,
    projection: Sequence[str],
    seen: SeenAds,
    patience: Attempts,
    take: Callable[[list[AdNews]], Iterable[Step]],
) -> Steps[None]:
    """`take` the news of these ads, without end."""

    def request() -> WatchAds:
        return WatchAds(
            ad_types=[ad_type],
            constraint=constraint,
            projection=list(projection),
            changes_only=True,
            resume=seen.begin(),
        )

    return changes_of_ads(request, seen, patience, take)


def _told(values: Iterable[object]) -> Iterator[Tell]:
    """Each to whoever iterates."""
    return (Tell(value=value) for value in values)


def _watch(select: Selection | None, forever: bool, timeout: float | None) -> Steps[None]:
    if select is None:
        return
    patience = yield from patience_of(timeout)
    yield from follow(select, patience, lambda states, complete: _told(states), forever=forever)


def _ads(request: StreamRequest[AdBatch], timeout: float | None) -> Steps[list[ClassAd]]:
    return [ad for batch in (yield from items(request, timeout)) for ad in ads_of(batch)]


def _clusters_that_make_jobs(clusters: Sequence[int], timeout: float | None) -> Steps[list[ClassAd]]:
    """Those of the clusters that still make jobs, as there is room for them (max_materialize, max_idle)."""
    select = Selection(ids=[str(cluster) for cluster in clusters])
    return (yield from _ads(QueryJobs(select=select, projection=["ClusterId"], factories=True), timeout))
