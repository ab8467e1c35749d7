"""Following jobs and waiting for them, apart from how the schedd is asked: what both faces of the Python API do alike.

A watch begins anew when its connection is lost. The schedd then tells all that is there, so jobs that were there before
and are not now have left meanwhile, and the history has how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from minipool.client.job_ids import of_ad
from minipool.client.model import JobHeldWarning, JobResult, JobState, Status, UnknownJob, named, result_of, warn
from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.schedd import JobDelta, JobsChanged


class Following:
    """The jobs of one watch, put together from their changes."""

    def __init__(self) -> None:
        self._ads: dict[JobId, ClassAd] = {}
        self._unseen: set[JobId] = set()
        self.synced = False

    def begin(self) -> None:
        """A connection is new: it tells everything from the start."""
        self._unseen, self.synced = set(self._ads), False

    def take(self, changed: JobsChanged) -> list[JobState]:
        """What has changed for whoever follows."""
        states = [state for delta in changed.deltas if (state := self._take(delta)) is not None]
        self.synced = self.synced or changed.synced
        return states

    def _take(self, delta: JobDelta) -> JobState | None:
        known = self._ads.get(delta.job_id)
        if delta.job_id in self._unseen:  # told again by a new connection: only what is different is news
            self._unseen.discard(delta.job_id)
            # Whoever follows was told this before the connection was lost.
            if not delta.left and known is not None and _tells_the_same(known, delta.ad):
                return None
        ad = ClassAd() if known is None else known.copy()
        for name, value in delta.ad.items():
            ad[name] = value
        if delta.left:
            self._ads.pop(delta.job_id, None)
        else:
            self._ads[delta.job_id] = ad
        return JobState(delta.job_id, _status(ad), ad, delta.left)

    @property
    def gone(self) -> list[JobId]:
        """The jobs that left while nobody listened; known when all that is there has been told."""
        return sorted(self._unseen) if self.synced else []

    def leave(self, history: Iterable[ClassAd]) -> list[JobState]:
        """The last states of those that are gone, by the history."""
        ended = {of_ad(ad): ad for ad in history}
        states = []
        for id in self.gone:
            ad = ended.get(id) or self._ads[id]
            states.append(JobState(id, _status(ad), ad, left=True))
            del self._ads[id]
        self._unseen.clear()
        return states

    @property
    def over(self) -> bool:
        """Whether all jobs that were seen have left."""
        return self.synced and not self._ads


def _tells_the_same(known: ClassAd, told: ClassAd) -> bool:
    return all(known.get(name) == value for name, value in told.items())


def _status(ad: ClassAd) -> Status:
    return Status(ad.eval_int("JobStatus", Status.IDLE.value))


class AwaitedJobs:
    """Jobs, and clusters with all their jobs, whose ends are waited for."""

    def __init__(self, jobs: object) -> None:
        self._wanted = named([jobs])
        self._results: dict[JobId, JobResult] = {}
        self._settled: set[int] = set()
        self._held: dict[JobId, str] = {}

    def take(self, state: JobState) -> None:
        """A job's state; whoever waits for a job that is on hold is warned."""
        # One that left in another state was lost to this watch: the history knows how it ended.
        if state.left and state.status in (Status.COMPLETED, Status.REMOVED):
            self._results[state.id] = result_of(state.id, state.ad)
        if state.status is not Status.HELD or state.left:
            self._held.pop(state.id, None)
        elif state.id not in self._held:
            reason = state.ad.eval_str("HoldReason", "no reason is known")
            self._held[state.id] = said = f"{state.id} is on hold: {reason}"
            warn(f"job {said} (it ends when it is released, or removed)", JobHeldWarning)

    def take_history(self, ads: Iterable[ClassAd]) -> None:
        """Jobs that have left."""
        for ad in ads:
            self._results[of_ad(ad)] = result_of(of_ad(ad), ad)

    def settle(self, making: Iterable[ClassAd], queued: Iterable[ClassAd], left: Iterable[ClassAd]) -> None:
        """What the queue and the history have of the missing ones, asked for in this order.

        UnknownJob when one is nowhere, and its cluster makes no more jobs.
        """
        self.take_history(left)
        makers = {ad.eval_int("ClusterId", 0) for ad in making}
        there = {of_ad(ad) for ad in queued}
        # A job that its cluster has not made yet may still come, and is no unknown one.
        alive: set[JobId | int] = there | makers | {id.cluster for id in there}
        alive |= {want for want in self._wanted if isinstance(want, JobId) and want.cluster in makers}
        ended = {id.cluster for id in self._results}
        for want in self.missing:
            if want in alive:
                continue
            if isinstance(want, JobId) or want not in ended:
                raise UnknownJob(f"there is no {'job' if isinstance(want, JobId) else 'cluster'} {want}")
            self._settled.add(want)

    @property
    def missing(self) -> list[JobId | int]:
        """The jobs that have no result yet, and the clusters that may get more."""
        return [want for want in self._wanted if want not in self._results and want not in self._settled]

    @property
    def results(self) -> list[JobResult]:
        """The results in the order in which the jobs were named; a cluster's in the order of its jobs."""
        return [result for want in self._wanted for result in self._results_of(want)]

    def _results_of(self, want: JobId | int) -> Iterator[JobResult]:
        if isinstance(want, JobId):
            yield self._results[want]
        else:
            yield from (self._results[id] for id in sorted(self._results) if id.cluster == want)

    def unfinished(self, timeout: float | None) -> str:
        """What to say when the time is over."""
        names: Sequence[object] = self.missing
        shown = ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
        said = f"after {timeout:g} s these have not ended: {shown}"
        return "; ".join([said, *list(self._held.values())[:3]])

    @property
    def clusters(self) -> list[int]:
        """The clusters of the missing ones."""
        return sorted({want.cluster if isinstance(want, JobId) else want for want in self.missing})
