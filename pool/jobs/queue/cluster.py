"""A cluster and its jobs, as the queue has them in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.jobs.queue.pack import PackedAd
from pool.jobs.queue.store import JobRow
from pool.jobs.vocabulary.own_attributes import stamp
from pool.jobs.vocabulary.priority import Priority
from pool.jobs.vocabulary.states import JobStatus


class Cluster:
    """Jobs that were submitted together. `procs` is how many were made so far, the next ProcId."""

    __slots__ = (
        *("ad", "autocluster", "charges_severally", "counted", "crontab", "factory", "id", "jobs"),
        *("macros", "owner", "periodic", "procs", "qdate", "user"),
    )

    def __init__(self, id: int, ad: ClassAd, *, user: str, owner: str, procs: int = 0) -> None:
        self.id = id
        self.ad = ad
        self.user = user
        self.owner = owner
        self.procs = procs
        self.qdate = ad.eval_int("QDate") or 0
        self.jobs: dict[int, Job] = {}
        self.factory: str | None = None
        """The recipe of jobs that are still to be made; while there is one, the cluster stays without jobs too."""
        self.autocluster: tuple[int, int] | None = None
        self.periodic: bool | None = None
        self.macros: bool | None = None
        """Whether its ad has `$$(...)` macros; None until somebody looks."""
        self.crontab: bool | None = None
        self.counted = 0
        """Bytes of its ad, as the queue has counted them for its owner."""
        self.charges_severally = False
        """Whether a job of it may have an accounting group of its own."""
        self.stamp()

    def stamp(self) -> None:
        """Have its ad say whose it is; called whenever others have had a hand in the ad."""
        stamp(self.ad, owner=self.owner, user=self.user)

    def pages(self, size: int = 500) -> Iterator[list[Job]]:
        """Its jobs, in order of id, in lists of at most so many; without those that leave before their list is made."""
        procs = sorted(self.jobs)
        for at in range(0, len(procs), size):
            jobs = self.jobs
            if page := [jobs[proc] for proc in procs[at : at + size] if proc in jobs]:
                yield page


class Job:
    """One job. Change it through the queue only."""

    __slots__ = ("busy", "cluster", "group", "live_ad", "names", "priority", "proc", "status", "text")

    def __init__(self, cluster: Cluster, proc: int, status: JobStatus, priority: Priority, packed: PackedAd) -> None:
        self.cluster = cluster
        self.proc = proc
        self.status = status
        self.priority = priority
        self.names, self.text = packed.names, packed.text  # not the ad itself: a queue may have a million
        self.busy = False
        """An execution of it is not over yet."""
        self.group: object = None
        """Where it waits for a slot, if it does."""
        self.live_ad: ClassAd | None = None
        """Its ad while that is at hand, and perhaps says more than the row; None where the row says all."""

    @property
    def id(self) -> JobId:
        """Its name in the queue."""
        return JobId(self.cluster.id, self.proc)

    @property
    def packed(self) -> PackedAd:
        """What it has of its own, apart from its cluster, as its row says."""
        return PackedAd(self.text, self.names)

    @packed.setter
    def packed(self, packed: PackedAd) -> None:
        self.names, self.text = packed.names, packed.text

    def may_have(self, names: AbstractSet[str]) -> bool:
        """Whether the job may have one of these (lower case) of its own; one whose ad is at hand may have any."""
        return self.live_ad is not None or not self.names.isdisjoint(names)

    @property
    def has_ad(self) -> bool:
        """Whether its ad is at hand, and perhaps says more than its row."""
        return self.live_ad is not None

    def __lt__(self, other: Job) -> bool:
        return (self.cluster.id, self.proc) < (other.cluster.id, other.proc)


class NewJobs:
    """Jobs of one cluster on their way into the queue: gathered bit by bit, so that nobody is held up by many."""

    __slots__ = ("by_proc", "cluster", "procs", "rows", "states")

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.by_proc: dict[int, Job] = {}
        self.rows: list[JobRow] = []
        self.states: Counter[JobStatus] = Counter()
        self.procs = 0

    def add(self, jobs: Sequence[Job]) -> None:
        """Some more; the cluster has its id by now."""
        number = self.cluster.id
        self.by_proc.update((job.proc, job) for job in jobs)
        self.rows += [JobRow(number, job.proc, job.status.value, job.priority.prio, job.text) for job in jobs]
        self.states.update([job.status for job in jobs])
        self.procs = max([self.procs, *(job.proc + 1 for job in jobs)])


def any_may_have(jobs: Iterable[Job], names: AbstractSet[str]) -> bool:
    """Whether one of the jobs may; quicker than to ask them one by one, for most have the same set of names."""
    sets = set()
    for job in jobs:
        if job.live_ad is not None:
            return True
        sets.add(job.names)
    return any(not own.isdisjoint(names) for own in sets)


def global_job_id(schedd_name: str, cluster: int, proc: int, qdate: int) -> str:
    """`schedd#12.0#1795217732`: unique in the world."""
    return f"{schedd_name}#{cluster}.{proc}#{qdate}"
