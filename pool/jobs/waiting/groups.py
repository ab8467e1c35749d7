"""What waits for slots, in which order: groups of jobs that are alike to every slot, sorted anew when more matters.

A schedd asks for slots by group, and a slot that it gets runs the first job of its group that still waits.

* A group's key is (submitter, autocluster), and within it the priority: higher ones are served first, then lower ids.
* A submitter's groups of all autoclusters are in order, too (`order.py`), for a claim takes the first job that fits.
* A group is a heap of jobs. A job that no longer waits stays in it until it comes to the top, and is dropped there: to
  leave costs nothing, and to find the first costs as much as was left before it. `count` is how many really wait.
* When another attribute becomes significant, jobs that were alike may differ. They are sorted anew in short steps
  (`sort_some`), between which jobs come and go: what is not sorted yet waits as it did.
* A whole group moves at once where none of its jobs differs from its cluster, else it is divided job by job.

Source: HTCondor manual, "Configuration Macros", SIGNIFICANT_ATTRIBUTES, and "Job ClassAd Attributes", AutoClusterId
and JobPrio; which job a claim takes is FindRunnableJob of HTCondor's schedd.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from pool.base.ids import JobId
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.vocabulary.priority import Priority
from pool.jobs.waiting.autoclusters import Autoclusters
from pool.jobs.waiting.order import Fits, Order

REJECTIONS_MAX: Final = 10_000

ALIKE_MAX: Final = 1000
"""Jobs of a cluster that are asked together whether they differ from it; one that does costs the others a look each."""
CLUSTERS_MAX: Final = 100
"""Clusters whose autocluster is looked for in one step of a sorting."""
HEAPIFY: Final = 20
"""From which part of a heap on it is quicker to order all of it than to put in one job after another."""

_OVER: Final = object()
_proc: Final = attrgetter("proc")


class WaitingGroup:
    """Jobs of one submitter, autocluster and priority that wait for a slot, in order of id."""

    __slots__ = ("_heap", "_highest", "autocluster", "clusters", "count", "priority", "submitter")

    def __init__(self, submitter: str, autocluster: int, priority: Priority) -> None:
        self.submitter = submitter
        self.autocluster = autocluster
        self.priority = priority
        self.count = 0
        self._heap: list[Job] = []
        self._highest = JobId(0, 0)
        self.clusters: dict[Cluster, int] = {}
        """How many of its jobs are of each cluster."""

    def add(self, job: Job) -> None:
        """One more waits."""
        job.group = self
        self.count += 1
        self.clusters[job.cluster] = self.clusters.get(job.cluster, 0) + 1
        heapq.heappush(self._heap, job)
        self._highest = max(self._highest, job.id)

    def add_all(self, jobs: Sequence[Job]) -> None:
        """More wait, all of one cluster, in order of id."""
        for job in jobs:
            job.group = self
        self.count += len(jobs)
        cluster = jobs[0].cluster
        self.clusters[cluster] = self.clusters.get(cluster, 0) + len(jobs)
        if not self._heap or self._highest < jobs[0].id:  # what is larger than all of a heap leaves it one
            self._heap += jobs
        elif len(jobs) < len(self._heap) // HEAPIFY:
            for job in jobs:
                heapq.heappush(self._heap, job)
        else:
            self._heap += jobs
            heapq.heapify(self._heap)
        self._highest = max(self._highest, jobs[-1].id)

    def discard(self, job: Job) -> None:
        """It waits no longer."""
        if job.group is self:
            job.group = None
            self.count -= 1
            self.clusters[job.cluster] -= 1
            if not self.clusters[job.cluster]:
                del self.clusters[job.cluster]
            if not self.count:
                self._heap.clear()
                self._highest = JobId(0, 0)

    def members(self) -> list[Job]:
        """The jobs that wait, in no order."""
        return self.some_of(self._heap)

    def entries(self) -> list[Job]:
        """Jobs among which are all that wait, in no order: a copy, quickly made."""
        return self._heap[:]

    def some_of(self, jobs: Iterable[Job]) -> list[Job]:
        """Those of these that wait here, each once."""
        return list({job: None for job in jobs if job.group is self})

    def first(self) -> Job | None:
        """The job that is next, still waiting."""
        while self._heap:
            if self._heap[0].group is self:
                return self._heap[0]
            heapq.heappop(self._heap)
        return None


def urgency(group: WaitingGroup) -> tuple[Priority, int, int]:
    """The highest goes first: by priority, then by the id of the next job."""
    job = group.first()
    return (group.priority, -job.cluster.id, -job.proc) if job is not None else (group.priority, 0, 0)


class Waiting:
    """All jobs that wait for a slot, by submitter, autocluster and priority."""

    def __init__(self, autoclusters: Autoclusters) -> None:
        self._autoclusters = autoclusters
        self._generation = autoclusters.generation
        self._groups: dict[tuple[str, int], dict[Priority, WaitingGroup]] = {}
        self._orders: dict[str, Order] = {}
        self._rejected: dict[tuple[str, int], dict[str, tuple[str, float]]] = {}
        """By the slice of the pool of which it was said."""
        self._steps: Iterator[None] | None = None
        """What is left of the sorting under way."""

    def reject(self, submitter: str, autocluster: int, reason: str, now: float, slice: str = "") -> None:
        """Remember why jobs of an autocluster got no slot of a slice of the pool."""
        if len(self._rejected) >= REJECTIONS_MAX:
            self._rejected.clear()
        self._rejected.setdefault((submitter, autocluster), {})[slice] = (reason, now)

    def forget_rejections(self, slice: str) -> None:
        """Nobody hands out this slice any more."""
        for reasons in self._rejected.values():
            reasons.pop(slice, None)

    def rejected(self, group: WaitingGroup) -> tuple[str, float] | None:
        """Why the group got no slot, and when that was said."""
        said = self._rejected.get((group.submitter, group.autocluster))
        if not said:
            return None
        if len(said) == 1:
            return next(iter(said.values()))
        reasons = [f"{name}: {reason}" if name else reason for name, (reason, _) in sorted(said.items())]
        return "; ".join(reasons), max(at for _, at in said.values())

    def add(self, job: Job, submitter: str) -> WaitingGroup:
        """The job wants a slot."""
        if isinstance(job.group, WaitingGroup):
            return job.group
        group = self._group(submitter, self._autoclusters.number_of(job), job.priority)
        self._add(group, job)
        return group

    def _add(self, group: WaitingGroup, job: Job) -> None:
        group.add(job)
        if group.first() is job:
            self._put_in_order(group)

    def _put_in_order(self, group: WaitingGroup) -> None:
        self._orders.setdefault(group.submitter, Order()).put(group)

    def add_alike(self, jobs: Sequence[Job], submitter: str) -> None:
        """These jobs of one cluster, none of which waits yet, want slots."""
        number_of = self._autoclusters.number_of
        if self._autoclusters.may_differ(jobs):
            for job in jobs:
                self._add(self._group(submitter, number_of(job), job.priority), job)
            return
        by_priority: dict[Priority, list[Job]] = {}
        for job in jobs:
            by_priority.setdefault(job.priority, []).append(job)
        for priority, alike in by_priority.items():
            group = self._group(submitter, number_of(alike[0]), priority)
            group.add_all(alike)
            if group.first() is alike[0]:
                self._put_in_order(group)

    @staticmethod
    def group_of(job: Job) -> WaitingGroup | None:
        """Where the job waits, if it does."""
        return job.group if isinstance(job.group, WaitingGroup) else None

    def discard(self, job: Job) -> None:
        """The job does not want a slot."""
        group = job.group
        if not isinstance(group, WaitingGroup):
            return
        group.discard(job)
        if not group.count:
            self._take_out(group)

    def next(self, submitter: str, autocluster: int) -> Job | None:
        """The job that a slot for this autocluster should run; it waits until it is discarded."""
        by_priority = self._groups.get((submitter, autocluster))
        return by_priority[max(by_priority)].first() if by_priority else None

    def first(self, submitter: str, fits: Fits) -> Job | None:
        """The submitter's job that goes first among those that fit; it waits until it is discarded."""
        order = self._orders.get(submitter)
        return order.first(fits) if order is not None else None

    def groups(self) -> Iterator[WaitingGroup]:
        """All groups with jobs in them."""
        for by_priority in self._groups.values():
            yield from by_priority.values()

    # ---- sorting anew

    @property
    def is_stale(self) -> bool:
        """Whether something waits that was sorted by what was significant before."""
        return self._steps is not None or self._autoclusters.generation != self._generation

    def sort_some(self, steps: int) -> bool:
        """Sort anew what waits, as something else is significant now: so many steps of that; whether more are left.

        Each step is short, and all that happens to waiting jobs may happen between two: what is not sorted yet waits
        as it did.
        """
        for _ in range(steps):
            if self._steps is None:
                if not self.is_stale:
                    return False
                self._steps = self._sort()
            if next(self._steps, _OVER) is _OVER:
                self._steps = None
        return self.is_stale

    def _sort(self) -> Iterator[None]:
        generation = self._generation = self._autoclusters.generation
        for group in list(self.groups()):
            number = yield from self._still_alike(group)
            if self._autoclusters.generation != generation:
                return  # a job that was looked at, or a slot, has made more significant: all anew
            if not group.count:
                continue
            if number is None:
                yield from self._divide(group)
            else:
                yield from self._renumber(group, number)
            yield

    def _still_alike(self, group: WaitingGroup) -> Generator[None, None, int | None]:
        """The one autocluster of all jobs of a group; None if they may be of several."""
        numbers = set()
        for at, cluster in enumerate(list(group.clusters), 1):
            numbers.add(self._autoclusters.number_of_cluster(cluster))
            if at % CLUSTERS_MAX == 0:
                yield
        if len(numbers) != 1:
            return None
        for some in _portions(group.entries()):
            if self._autoclusters.may_differ(group.some_of(some)):
                return None
            yield
        return numbers.pop()

    def _renumber(self, group: WaitingGroup, number: int) -> Iterator[None]:
        """All jobs of the group are of this autocluster now; others may be of it already."""
        other = self._groups.get((group.submitter, number), {}).get(group.priority)
        if other is group:
            return
        if other is not None and other.count >= group.count:
            yield from self._divide(group)
            return
        self._take_out(group)
        group.autocluster = number
        self._groups.setdefault((group.submitter, number), {})[group.priority] = group
        self._put_in_order(group)
        if other is not None:
            yield from self._divide(other)

    def _divide(self, group: WaitingGroup) -> Iterator[None]:
        """Let each job of the group wait where it belongs now."""
        for some in _portions(group.entries()):
            by_cluster: dict[int, list[Job]] = {}
            for job in group.some_of(some):
                group.discard(job)
                by_cluster.setdefault(job.cluster.id, []).append(job)
            for several in by_cluster.values():
                several.sort(key=_proc)
                self.add_alike(several, group.submitter)
            yield
        if not group.count:
            self._take_out(group)

    def _take_out(self, group: WaitingGroup) -> None:
        key = (group.submitter, group.autocluster)
        by_priority = self._groups.get(key)
        if by_priority is not None and by_priority.get(group.priority) is group:
            del by_priority[group.priority]
            if not by_priority:
                del self._groups[key]
        order = self._orders.get(group.submitter)
        if order is not None:
            order.drop(group)
            if not order:
                del self._orders[group.submitter]

    def _group(self, submitter: str, autocluster: int, priority: Priority) -> WaitingGroup:
        by_priority = self._groups.setdefault((submitter, autocluster), {})
        group = by_priority.get(priority)
        if group is None:
            group = by_priority[priority] = WaitingGroup(submitter, autocluster, priority)
        return group


def _portions(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    return (jobs[at : at + ALIKE_MAX] for at in range(0, len(jobs), ALIKE_MAX))
