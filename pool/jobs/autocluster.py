"""Jobs that look alike to every slot, and what waits in which order.

Two jobs are of one autocluster when they agree in all *significant* attributes: those that jobs' Requirements and Rank
read, those that slots read of jobs, and those that SIGNIFICANT_ATTRIBUTES adds. When a slot is met that reads one more,
all jobs are sorted anew (`generation`).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from pool.classad import ClassAd, Expr, Member
from pool.ids import JobId
from pool.jobs.job_queue import MADE_UP, Cluster, Job, JobQueue, mention

ALWAYS: Final = frozenset(
    name.lower()
    for name in (
        "RequestCpus",
        "RequestDisk",
        "RequestGPUs",
        "RequestMemory",
        "ConcurrencyLimits",
        "FlockTo",
        "Rank",
        "Requirements",
        "NiceUser",
        "AccountingGroup",
        "JobUniverse",
        "JobLeaseDuration",
    )
)
"""What matters whether anybody refers to it or not."""

NOT_ANNOUNCED: Final = frozenset({"args", "arguments", "env", "environment", "submitevent", "transferinput"})
"""Attributes that can be long and are no use to a negotiator, unless they are significant."""

REJECTIONS_MAX: Final = 10_000

ALIKE_MAX: Final = 1000
"""Jobs of a cluster that are asked together whether they differ from it; one that does costs the others a look each."""

SLOT_EXPRESSIONS: Final = ("Requirements", "Start", "Rank", "WithinResourceLimits")


_proc: Final = attrgetter("proc")


class Autoclusters:
    """Gives each job the number of its autocluster."""

    def __init__(self, queue: JobQueue, configured: Iterable[str] = ()) -> None:
        self._queue = queue
        self.configured = frozenset(name.lower() for name in configured)
        self._significant: set[str] = set(ALWAYS | self.configured)
        self.generation = 1
        self._numbers: dict[tuple[object, ...], int] = {}
        self._seen_jobs: set[tuple[str, ...]] = set()
        self._seen_slots: set[tuple[str, ...]] = set()
        self._next = 1

    @property
    def significant(self) -> frozenset[str]:
        """The significant attributes, in lower case."""
        return frozenset(self._significant)

    def shown(self) -> str:
        """AutoClusterAttrs, as job ads show it."""
        return ",".join(sorted(self._significant))

    def learn_slot(self, slot: ClassAd) -> bool:
        """Take in what a slot's policy reads of jobs; whether that is news, so that all must be sorted anew."""
        texts = tuple(slot.text(name) if name in slot else "" for name in SLOT_EXPRESSIONS)
        if texts in self._seen_slots:
            return False
        self._seen_slots.add(texts)
        names: set[str] = set()
        for name in SLOT_EXPRESSIONS:
            names |= slot.references(name)[1]
        return self._add(names)

    def number_of(self, job: Job) -> int:
        """The autocluster of a job."""
        number = self._cluster_number(job.cluster)
        if not self._differs(job):
            return number
        ad = self._queue.ad(job)
        self._learn_job(ad)
        return self._number(ad)

    def may_differ(self, jobs: Iterable[Job]) -> bool:
        """Whether one of these jobs of a cluster may be of another autocluster than the cluster itself."""
        if not MADE_UP.isdisjoint(self._significant):
            return True
        return mention(jobs, [f'"{name}":' for name in self._significant])

    def still_alike(self, clusters: Collection[Cluster], jobs: Sequence[Job]) -> int | None:
        """The one autocluster of these jobs, which are of these clusters; None if they may be of several."""
        for cluster in clusters:
            self._learn_job(cluster.ad)
        if self.may_differ(jobs):
            return None
        numbers = {self._cluster_number(cluster) for cluster in clusters}
        return numbers.pop() if len(numbers) == 1 else None

    def _cluster_number(self, cluster: Cluster) -> int:
        if cluster.autocluster is None or cluster.autocluster[0] != self.generation:
            self._learn_job(cluster.ad)
            cluster.autocluster = (self.generation, self._number(cluster.ad))
        return cluster.autocluster[1]

    def _differs(self, job: Job) -> bool:
        """Whether the job has a significant attribute of its own; rather too often than too seldom."""
        if not MADE_UP.isdisjoint(self._significant):
            return True
        if job._ad is not None:  # what was just changed is not packed yet
            return not self._significant.isdisjoint(job._ad.attrs)
        if len(job.packed) <= 2:
            return False
        packed = job.packed.lower()
        return any(f'"{name}":' in packed for name in self._significant)

    def _learn_job(self, ad: ClassAd) -> None:
        texts = tuple(ad.text(name) if name in ad else "" for name in ("Requirements", "Rank"))
        if texts in self._seen_jobs:
            return
        self._seen_jobs.add(texts)
        names: set[str] = set()
        for name in ("Requirements", "Rank"):
            names |= ad.references(name)[0]
        self._add(names)

    def _add(self, names: Iterable[str]) -> bool:
        new = {name.lower() for name in names} - self._significant - {"currenttime"}
        if not new:
            return False
        self._significant |= new
        self.generation += 1
        self._numbers.clear()
        return True

    def _number(self, ad: ClassAd) -> int:
        key = tuple(_key(ad.get(name)) for name in sorted(self._significant))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._next
            self._next += 1
        return number

    def representative(self, ad: ClassAd) -> ClassAd:
        """What the negotiator is told of a job: its ad less what no slot could care about."""
        hidden = NOT_ANNOUNCED - self._significant
        return ad.project(name for name in ad if name.lower() not in hidden)


def _key(value: Member | None) -> object:
    if isinstance(value, Expr):
        return value.text
    if isinstance(value, bool | float):
        return (type(value).__name__, value)
    return value if isinstance(value, int | str | None) else str(value)


class Group:
    """Jobs of one submitter, autocluster and priority that wait for a slot, in order of id."""

    __slots__ = ("_heap", "_highest", "autocluster", "clusters", "count", "prio", "submitter")

    def __init__(self, submitter: str, autocluster: int, prio: int) -> None:
        self.submitter = submitter
        self.autocluster = autocluster
        self.prio = prio
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
        in_order = not self._heap or self._highest < jobs[0].id
        self._heap += jobs
        if not in_order:  # what is larger than all of a heap leaves it one
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
        if len(self._heap) == self.count:
            return self._heap[:]
        return list({job: None for job in self._heap if job.group is self})

    def first(self) -> Job | None:
        """The job that is next, still waiting."""
        while self._heap:
            if self._heap[0].group is self:
                return self._heap[0]
            heapq.heappop(self._heap)
        return None


class Waiting:
    """All jobs that wait for a slot, by submitter, autocluster and priority."""

    def __init__(self, autoclusters: Autoclusters) -> None:
        self._autoclusters = autoclusters
        self._generation = autoclusters.generation
        self._groups: dict[tuple[str, int], dict[int, Group]] = {}
        self._rejected: dict[tuple[str, int], tuple[str, float]] = {}

    def reject(self, submitter: str, autocluster: int, reason: str, now: float) -> None:
        """Remember why jobs of an autocluster got no slot."""
        if len(self._rejected) >= REJECTIONS_MAX:
            self._rejected.clear()
        self._rejected[submitter, autocluster] = (reason, now)

    def rejected(self, group: Group) -> tuple[str, float] | None:
        """Why the group got no slot, and when that was said."""
        return self._rejected.get((group.submitter, group.autocluster))

    def add(self, job: Job, submitter: str) -> Group:
        """The job wants a slot."""
        if isinstance(job.group, Group):
            return job.group
        group = self._group(submitter, self._autoclusters.number_of(job), job.prio)
        group.add(job)
        if self._autoclusters.generation != self._generation:
            self.sort_anew()
        assert isinstance(job.group, Group)
        return job.group

    def add_alike(self, jobs: Sequence[Job], submitter: str) -> None:
        """These jobs of one cluster, none of which waits yet, want slots."""
        self._put(jobs, submitter)
        if self._autoclusters.generation != self._generation:
            self.sort_anew()

    def _put(self, jobs: Sequence[Job], submitter: str) -> None:
        number_of = self._autoclusters.number_of
        if self._autoclusters.may_differ(jobs):
            for job in jobs:
                self._group(submitter, number_of(job), job.prio).add(job)
            return
        by_prio: dict[int, list[Job]] = {}
        for job in jobs:
            by_prio.setdefault(job.prio, []).append(job)
        for prio, alike in by_prio.items():
            self._group(submitter, number_of(alike[0]), prio).add_all(alike)

    def discard(self, job: Job) -> None:
        """The job does not want a slot."""
        group = job.group
        if not isinstance(group, Group):
            return
        group.discard(job)
        key = (group.submitter, group.autocluster)
        by_prio = self._groups.get(key)
        if not group.count and by_prio is not None and by_prio.get(group.prio) is group:
            del by_prio[group.prio]
            if not by_prio:
                del self._groups[key]

    def next(self, submitter: str, autocluster: int) -> Job | None:
        """The job that a slot for this autocluster should run; it waits until it is discarded."""
        by_prio = self._groups.get((submitter, autocluster))
        return by_prio[max(by_prio)].first() if by_prio else None

    def groups(self) -> Iterator[Group]:
        """All groups with jobs in them."""
        for by_prio in self._groups.values():
            yield from by_prio.values()

    def sort_anew(self) -> None:
        """What is significant has changed: the same jobs may wait in other groups."""
        while True:  # a job that is looked at may make more significant
            self._generation = self._autoclusters.generation
            self._sort()
            if self._generation == self._autoclusters.generation:
                return

    def _sort(self) -> None:
        groups = list(self.groups())
        self._groups.clear()
        for group in groups:
            jobs = group.members()
            number = self._autoclusters.still_alike(group.clusters, jobs)
            key = (group.submitter, number or 0)
            if number is not None and group.prio not in self._groups.get(key, {}):
                group.autocluster = number
                self._groups.setdefault(key, {})[group.prio] = group
            else:
                self._divide(group, jobs)

    def _divide(self, group: Group, jobs: Iterable[Job]) -> None:
        by_cluster: dict[int, list[Job]] = {}
        for job in jobs:
            by_cluster.setdefault(job.cluster.id, []).append(job)
        for several in by_cluster.values():
            several.sort(key=_proc)
            for at in range(0, len(several), ALIKE_MAX):
                self._put(several[at : at + ALIKE_MAX], group.submitter)

    def _group(self, submitter: str, autocluster: int, prio: int) -> Group:
        by_prio = self._groups.setdefault((submitter, autocluster), {})
        group = by_prio.get(prio)
        if group is None:
            group = by_prio[prio] = Group(submitter, autocluster, prio)
        return group
