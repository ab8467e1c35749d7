"""The jobs of one schedd, in memory; every change is collected into the batch that makes it durable.

Memory holds a cluster's ad once. An idle job is a small record with the packed text of what differs from its cluster;
its ad is made when somebody looks. A job that runs, or has changed since the last batch, keeps its ad.

Changes are made between two awaits, so a batch never holds half of one: `take` hands out all that changed since the
last time, in the order in which the store needs it, and forgets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Final

from pool.ad_limits import size_of
from pool.classad import ClassAd, Expr
from pool.ids import JobId
from pool.jobs.accounting_groups import GROUP
from pool.jobs.own_attributes import MADE_UP, NO_JOBS, SCHEDDS, stamp, strip, without_own
from pool.jobs.pack import pack, unpack
from pool.jobs.states import JobEvent, JobStatus, step
from pool.jobs.store import Batch, ClaimRow, ClaimWork, ClusterRow, EventRow, HistoryRow, JobRow

_OWN_WORDS: Final = tuple(f'"{name}":' for name in sorted(NO_JOBS))
_GROUP_KEY: Final = GROUP.lower()
_GROUP_WORDS: Final = (f'"{_GROUP_KEY}":',)
_NOTHING: Final = "{}"
"""The row of a job that is like its cluster: one text for all of them."""


NOBODYS: Final = ""
"""The owner of events that are for no user's log, but for the schedd's."""


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

    __slots__ = ("_ad", "busy", "cluster", "group", "packed", "prio", "proc", "status")

    def __init__(self, cluster: Cluster, proc: int, status: JobStatus, prio: int, packed: str) -> None:
        self.cluster = cluster
        self.proc = proc
        self.status = status
        self.prio = prio
        self.packed = packed
        self.busy = False
        """An execution of it is not over yet."""
        self.group: object = None
        """Where it waits for a slot, if it does."""
        self._ad: ClassAd | None = None

    @property
    def id(self) -> JobId:
        """Its name in the queue."""
        return JobId(self.cluster.id, self.proc)

    def may_have(self, *beginnings: str) -> bool:
        """Whether the job may have, apart from its cluster, an attribute whose name begins so (lower case).

        Perhaps said in vain, for it is found out without making the job's ad.
        """
        if self._ad is not None:
            return True
        packed = self.packed.lower()
        return any(f'"{one}' in packed for one in beginnings)

    @property
    def has_ad(self) -> bool:
        """Whether its ad is at hand, and perhaps says more than its row."""
        return self._ad is not None

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
        self.rows += [JobRow(number, job.proc, job.status.value, job.prio, job.packed) for job in jobs]
        self.states.update([job.status for job in jobs])
        self.procs = max([self.procs, *(job.proc + 1 for job in jobs)])


def mention(jobs: Iterable[Job], words: Iterable[str]) -> bool:
    """Whether one of the jobs may have, apart from its cluster, an attribute with one of the words (lower case) in it.

    Perhaps said in vain. Much quicker than to ask the jobs one by one.
    """
    texts = []
    for job in jobs:
        if job._ad is not None:
            return True
        texts.append(job.packed)
    packed = "\n".join(texts).lower()
    return any(word in packed for word in words)


def _stripped(packed: str) -> str:
    """A row that an older version may have written, less what is the schedd's own."""
    ad = unpack(packed)
    strip(ad)
    return pack(ad)


def _text_bytes(attributes: Mapping[str, object]) -> int:
    """What texts and expressions among these come to."""
    size = 0
    for value in attributes.values():
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Expr):
            size += len(value.text)
    return size


def global_job_id(schedd_name: str, cluster: int, proc: int, qdate: int) -> str:
    """`schedd#12.0#1795217732`: unique in the world."""
    return f"{schedd_name}#{cluster}.{proc}#{qdate}"


class JobQueue:
    """All jobs by id."""

    def __init__(self, schedd_name: str, *, next_cluster: int = 1) -> None:
        self.name = schedd_name
        self.clusters: dict[int, Cluster] = {}
        self.counts: Counter[JobStatus] = Counter()
        self.by_owner: dict[str, Counter[JobStatus]] = {}
        self.bytes_of: Counter[str] = Counter()
        """What all clusters and jobs of each owner have of their own."""
        self._grown: dict[Job, int] = {}
        """The part of that by which jobs have grown since their rows were written last."""
        self.next_cluster = next_cluster
        self.next_event = 1
        self._dirty: dict[Job, set[str] | None] = {}
        self._new_jobs: list[JobRow] = []
        self._entered: list[Iterable[Job]] = []
        self._clusters: dict[int, Cluster] = {}
        self._gone: list[tuple[int, int]] = []
        self._cluster_gone: list[ClusterRow] = []
        self._events: list[EventRow] = []
        self._written: list[tuple[int]] = []
        self._claims: dict[str, ClaimRow] = {}
        self._claim_work: dict[str, ClaimWork] = {}
        self._claims_gone: list[tuple[str]] = []
        self._history: list[HistoryRow] = []
        self._factories: dict[int, str] = {}
        self._factories_gone: list[tuple[int]] = []
        self._next_cluster_dirty = False
        self._made: tuple[Job, ClassAd] | None = None
        """The ad that was made last; forgotten when any ad is given up."""

    # Looking.

    def __len__(self) -> int:
        return sum(self.counts.values())

    def get(self, id: JobId) -> Job | None:
        """The job, if it is in the queue."""
        cluster = self.clusters.get(id.cluster)
        return None if cluster is None else cluster.jobs.get(id.proc)

    def jobs(self) -> Iterator[Job]:
        """Every job in order of id. The queue may change while this goes on: clusters that come are not seen."""
        for page in self.pages():
            yield from page

    def pages(self, size: int = 500) -> Iterator[list[Job]]:
        """The same as lists of jobs of one cluster, not longer than `size`; no step takes long, whatever there is."""
        for number in sorted(self.clusters):
            cluster = self.clusters.get(number)
            if cluster is not None:
                yield from cluster.pages(size)

    def ad(self, job: Job) -> ClassAd:
        """The job's effective ad, its cluster's behind it. Not to be written to."""
        return job._ad if job._ad is not None else self._make_ad(job)

    def _make_ad(self, job: Job) -> ClassAd:
        if self._made is not None and self._made[0] is job:  # who looks often writes next
            return self._made[1]
        cluster = job.cluster
        ad = unpack(job.packed, cluster.ad)
        ad["ProcId"] = job.proc
        ad["JobStatus"] = int(job.status)
        ad["GlobalJobId"] = global_job_id(self.name, cluster.id, job.proc, cluster.qdate)
        self._made = (job, ad)
        return ad

    # Changing.

    def new_id(self) -> int:
        """A cluster id that was never given before."""
        number, self.next_cluster = self.next_cluster, self.next_cluster + 1
        self._next_cluster_dirty = True
        return number

    def add(self, cluster: Cluster, jobs: Iterable[Job]) -> None:
        """Jobs enter the queue, of a new cluster or one that grows."""
        new = NewJobs(cluster)
        new.add(list(jobs))
        self.enter(new)

    def enter(self, new: NewJobs) -> None:
        """The same for what was gathered before: quick, however many they are."""
        cluster = new.cluster
        cluster.stamp()
        self.clusters.setdefault(cluster.id, cluster)
        self._clusters[cluster.id] = cluster
        if cluster.jobs:
            cluster.jobs.update(new.by_proc)
        else:
            cluster.jobs = new.by_proc
        cluster.procs = max(cluster.procs, new.procs)
        self._count(cluster)
        self.bytes_of[cluster.owner] += sum([len(row.ad) for row in new.rows])
        self.counts.update(new.states)
        self.by_owner.setdefault(cluster.owner, Counter()).update(new.states)
        self._new_jobs += new.rows
        self._entered.append(new.by_proc.values())

    def _count(self, cluster: Cluster) -> None:
        """Count what the cluster's ad has now."""
        size = size_of(cluster.ad.attrs) if cluster.id in self.clusters else 0
        self.bytes_of[cluster.owner] += size - cluster.counted
        cluster.counted = size

    def add_factory(self, cluster: Cluster, recipe: str) -> None:
        """The cluster makes its jobs one after another."""
        cluster.factory = self._factories[cluster.id] = recipe

    def end_factory(self, cluster: Cluster) -> None:
        """The cluster makes no more jobs; without any, it leaves the queue."""
        cluster.factory = None
        self._factories.pop(cluster.id, None)
        self._factories_gone.append((cluster.id,))
        self._forget_if_empty(cluster)

    def _forget_if_empty(self, cluster: Cluster) -> None:
        if not cluster.jobs and cluster.factory is None and self.clusters.pop(cluster.id, None) is not None:
            self._clusters[cluster.id] = cluster
            self._count(cluster)

    def change(self, job: Job, attributes: Mapping[str, object], drop: Iterable[str] = ()) -> None:
        """Set attributes of the job, and take some away; the schedd's own stay as they are, whoever reports others."""
        self._change(job, without_own(attributes), [name for name in drop if name.lower() not in SCHEDDS])

    def _change(self, job: Job, attributes: Mapping[str, object], drop: Iterable[str] = ()) -> None:
        ad = self._writable(job)
        names = self._dirty.setdefault(job, set())
        ad.update(attributes)
        grown = _text_bytes(attributes)
        if grown:
            self._grown[job] = self._grown.get(job, 0) + grown
            self.bytes_of[job.cluster.owner] += grown
        if _GROUP_KEY in ad.attrs:
            job.cluster.charges_severally = True
        if names is not None:
            names.update(attributes)
        for name in drop:
            if name in ad:
                del ad[name]
                if names is not None:
                    names.add(name)
        if any(name.lower() == "jobprio" for name in attributes):
            job.prio = ad.eval_int("JobPrio") or 0

    def move(self, job: Job, event: JobEvent, now: float) -> JobStatus:
        """Let `event` happen to the job; IllegalMove when it cannot."""
        before, after = job.status, step(job.status, event)
        if after is not before:
            self._recount(job, after)
            self._change(job, {"JobStatus": int(after), "LastJobStatus": int(before), "EnteredCurrentStatus": int(now)})
        return after

    def _recount(self, job: Job, status: JobStatus) -> None:
        counts = self.by_owner[job.cluster.owner]
        self.counts[job.status] -= 1
        counts[job.status] -= 1
        job.status = status
        self.counts[status] += 1
        counts[status] += 1

    def change_cluster(self, cluster: Cluster, attributes: Mapping[str, object]) -> None:
        """Set attributes of all jobs of a cluster that have none of their own by these names."""
        ad = cluster.ad.copy()
        for name, value in attributes.items():
            ad[name] = value
        cluster.ad, self._made = ad, None
        cluster.stamp()
        self._count(cluster)
        cluster.autocluster = cluster.periodic = cluster.macros = cluster.crontab = None
        self._clusters[cluster.id] = cluster
        for job in cluster.jobs.values():
            if job._ad is not None:
                job._ad.parent = ad

    def set_busy(self, job: Job, busy: bool) -> None:
        """An execution of the job begins or is over; while it lasts, its ad is kept at hand."""
        job.busy = busy
        if busy and job._ad is None:
            job._ad = self._make_ad(job)
        elif not busy and job not in self._dirty:
            self._settle(job)

    def leave(self, job: Job, now: float) -> None:
        """The job leaves the queue for the history."""
        cluster = job.cluster
        ad = self.ad(job)
        packed = pack(ad, MADE_UP)
        self._history.append(HistoryRow(cluster.id, job.proc, cluster.owner, int(job.status), now, packed))
        self._gone.append((cluster.id, job.proc))
        self._dirty[job] = None
        del cluster.jobs[job.proc]
        self.counts[job.status] -= 1
        self.by_owner[cluster.owner][job.status] -= 1
        self.bytes_of[cluster.owner] -= len(job.packed) + self._grown.pop(job, 0)
        job._ad = ad  # the last watchers are told
        self._forget_if_empty(cluster)

    def log(self, cluster: Cluster, log: str, text: str) -> EventRow:
        """A log shall have this event; durable with the next batch, and pending until `written`."""
        row = EventRow(self.next_event, cluster.owner, log, text)
        self.next_event += 1
        self._events.append(row)
        return row

    def log_overall(self, log: str, text: str) -> None:
        """The same of the log of all jobs' events, which is no user's."""
        self._events.append(EventRow(self.next_event, NOBODYS, log, text))
        self.next_event += 1

    def written(self, seqs: Iterable[int]) -> None:
        """The logs have these events."""
        self._written.extend((seq,) for seq in seqs)

    def put_claim(self, row: ClaimRow) -> None:
        """Remember a slot that we hold."""
        self._claims[row.claim] = row

    def claim_works(self, work: ClaimWork) -> None:
        """A slot that we hold runs another job, or its lease was renewed."""
        self._claim_work[work.claim] = work

    def drop_claim(self, claim: str) -> None:
        """Forget a slot."""
        self._claims.pop(claim, None)
        self._claim_work.pop(claim, None)
        self._claims_gone.append((claim,))

    # Becoming durable.

    @property
    def dirty(self) -> bool:
        """Whether there is anything to make durable."""
        return bool(
            self._dirty
            or self._new_jobs
            or self._clusters
            or self._events
            or self._written
            or self._claims
            or self._claim_work
            or self._claims_gone
            or self._factories
            or self._factories_gone
            or self._next_cluster_dirty
        )

    def take(self) -> tuple[Batch, dict[Job, set[str] | None]]:
        """All changes since the last time, and the names of what changed of each job (None: all of it)."""
        dirty, self._dirty = self._dirty, {}
        self._made = None
        rows = self._new_jobs
        touched: dict[Job, set[str] | None] = dict.fromkeys(chain.from_iterable(self._entered))
        for job, names in dirty.items():
            if job not in touched:
                touched[job] = names
            if job.cluster.jobs.get(job.proc) is job:
                assert job._ad is not None
                self._repack(job, job._ad)
                rows.append(JobRow(job.cluster.id, job.proc, int(job.status), job.prio, job.packed))
                if not job.busy:
                    job._ad = None
        batch = Batch(
            clusters=[self._cluster_row(cluster) for cluster in self._clusters.values()],
            jobs=rows,
            jobs_gone=self._gone,
            events=self._events,
            events_written=self._written,
            claims=list(self._claims.values()),
            claim_work=list(self._claim_work.values()),
            claims_gone=self._claims_gone,
            history=self._history,
            next_cluster=self.next_cluster if self._next_cluster_dirty else None,
            factories=list(self._factories.items()),
            factories_gone=self._factories_gone,
        )
        self._factories, self._factories_gone = {}, []
        self._entered = []
        self._new_jobs, self._gone, self._events, self._written = [], [], [], []
        self._clusters, self._claims, self._claim_work, self._claims_gone = {}, {}, {}, []
        self._history = []
        self._next_cluster_dirty = False
        return batch, touched

    def _cluster_row(self, cluster: Cluster) -> ClusterRow:
        live = int(cluster.id in self.clusters)
        return ClusterRow(cluster.id, live, cluster.user, cluster.owner, cluster.procs, pack(cluster.ad))

    def _writable(self, job: Job) -> ClassAd:
        if job._ad is None:
            job._ad = self._make_ad(job)
        return job._ad

    def _settle(self, job: Job) -> None:
        if job._ad is not None:
            self._repack(job, job._ad)
            job._ad = self._made = None

    def _repack(self, job: Job, ad: ClassAd) -> None:
        """Make the job's row from its ad; what it has grown by was counted already, roughly."""
        before, job.packed = len(job.packed), pack(ad, MADE_UP)
        if job.cluster.jobs.get(job.proc) is job:
            self.bytes_of[job.cluster.owner] += len(job.packed) - before - self._grown.pop(job, 0)

    # At a start.

    def load(
        self,
        clusters: Iterable[ClusterRow],
        jobs: Iterable[tuple[int, int, int, int, str]],
        factories: Mapping[int, str] | None = None,
    ) -> None:
        """Fill the empty queue from what the store has, jobs in order of id."""
        for row in clusters:
            self.clusters[row.cluster] = Cluster(
                row.cluster, unpack(row.ad), user=row.user, owner=row.owner, procs=row.procs
            )
        statuses = {int(status): status for status in JobStatus}
        for number, rows in groupby(jobs, key=itemgetter(0)):
            cluster = self.clusters[number]
            own = cluster.jobs
            for _, proc, status, prio, packed in rows:
                own[proc] = Job(cluster, proc, statuses[status], prio, _NOTHING if packed == _NOTHING else packed)
            cluster.charges_severally = mention(own.values(), _GROUP_WORDS)
            if mention(own.values(), _OWN_WORDS):
                for job in own.values():
                    job.packed = _stripped(job.packed)
            states = Counter([job.status for job in own.values()])
            self.counts.update(states)
            self.by_owner.setdefault(cluster.owner, Counter()).update(states)
            self.bytes_of[cluster.owner] += sum([len(job.packed) for job in own.values()])
        for number, recipe in (factories or {}).items():
            self.clusters[number].factory = recipe
        idle = [number for number, cluster in self.clusters.items() if not cluster.jobs and cluster.factory is None]
        for number in idle:
            del self.clusters[number]
        for cluster in self.clusters.values():
            self._count(cluster)
