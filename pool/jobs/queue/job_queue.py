"""The jobs of one schedd, in memory; every change is collected into the batch that makes it durable.

Memory holds a cluster's ad once. An idle job is a small record with the packed text of what differs from its cluster;
its ad is made when somebody looks. A job that runs, or has changed since the last batch, keeps its ad.

Changes are made between two awaits, so a batch never holds half of one: `take` hands out all that changed since the
last time, in the order in which the store needs it, and forgets it.

* What is the schedd's own (`own_attributes`) no change sets, whoever asks for it; states move by `states.MOVES` alone.
* A job's id and state are fields here and columns there: its ad shows them (`MADE_UP`), the text of its row does not.
* A cluster leaves with its last job, unless a factory still makes jobs; its ad stays for the history.
* Events are pending from the batch that has them until `written`: a log may lag behind the queue, never be ahead.
* That an event is written and that a slot was given back are notes: they go with the next change, or a while later. If
  a crash comes first, the event is looked for in its log, and the slot's startd asked, once more.

Source: HTCondor manual, "Job ClassAd Attributes" for the attributes; HTCondor's job_queue.log has the same contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import Final

from pool.ads.limits import size_of
from pool.base.ids import JobId
from pool.classad import ClassAd, Expr
from pool.jobs.accounting_groups import GROUP
from pool.jobs.queue.at_hand import AdsAtHand
from pool.jobs.queue.cluster import Cluster, Job, NewJobs, any_may_have, global_job_id
from pool.jobs.queue.pack import PackedAd, lower_names, pack, read_packed
from pool.jobs.queue.store import ClaimRow, ClaimWork, ClusterRow, EventRow, HistoryRow, JobRow, WriteBatch
from pool.jobs.vocabulary import priority
from pool.jobs.vocabulary.nodes import is_gang
from pool.jobs.vocabulary.own_attributes import MADE_UP, NO_JOBS, SCHEDDS, strip, without_own
from pool.jobs.vocabulary.priority import with_prio
from pool.jobs.vocabulary.states import JobEvent, JobStatus, step

_GROUP_KEY: Final = GROUP.lower()
_GROUP: Final = lower_names(GROUP)


NOBODYS: Final = ""
"""The owner of events that are for no user's log, but for the schedd's."""


def _stripped(packed: PackedAd) -> PackedAd:
    """A row that an older version may have written, less what is the schedd's own."""
    ad = packed.unpack()
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


class _Changes:
    """What changed since the last batch was taken."""

    __slots__ = (
        *("claim_work", "claims", "claims_gone", "clusters", "entered", "events", "factories", "factories_gone"),
        *("gone", "history", "jobs", "new_jobs", "written"),
    )

    def __init__(self) -> None:
        self.jobs: dict[Job, set[str] | None] = {}
        self.new_jobs: list[JobRow] = []
        self.entered: list[Iterable[Job]] = []
        self.clusters: dict[int, Cluster] = {}
        self.gone: list[tuple[int, int]] = []
        self.events: list[EventRow] = []
        self.written: list[tuple[int]] = []
        self.claims: dict[str, ClaimRow] = {}
        self.claim_work: dict[str, ClaimWork] = {}
        self.claims_gone: list[tuple[str]] = []
        self.history: list[HistoryRow] = []
        self.factories: dict[int, str] = {}
        self.factories_gone: list[tuple[int]] = []


class JobQueue:
    """All jobs by id."""

    def __init__(self, schedd_name: str, *, next_cluster: int = 1) -> None:
        self.name = schedd_name
        self.clusters: dict[int, Cluster] = {}
        self.gangs: dict[int, Cluster] = {}
        """Those of them that are parallel jobs."""
        self.counts: Counter[JobStatus] = Counter()
        # Nobody is forgotten while the schedd lives: condor_qusers lists users without jobs too, as HTCondor does, and
        # there are no more of them than accounts of the host.
        self.by_owner: dict[str, Counter[JobStatus]] = {}
        self.bytes_of: Counter[str] = Counter()
        """What all clusters and jobs of each owner have of their own."""
        self._grown: dict[Job, int] = {}
        """The part of that by which jobs have grown since their rows were written last."""
        self.next_cluster = next_cluster
        self.next_event = 1
        self._collected = _Changes()
        self._is_told = self._has_notes = False
        self._tell: Callable[[], None] = lambda: None
        self._tell_of_notes: Callable[[], None] = lambda: None
        self._next_cluster_dirty = False
        self._at_hand = AdsAtHand()
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
        return job.live_ad if job.live_ad is not None else self._make_ad(job)

    def _make_ad(self, job: Job) -> ClassAd:
        if self._made is not None and self._made[0] is job:  # who looks often writes next
            return self._made[1]
        cluster = job.cluster
        ad = job.packed.unpack(cluster.ad)
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
        self._changes.clusters[cluster.id] = cluster
        if cluster.jobs:
            cluster.jobs.update(new.by_proc)
        else:
            cluster.jobs = new.by_proc
        cluster.procs = max(cluster.procs, new.procs)
        self._count(cluster)
        self.bytes_of[cluster.owner] += sum([len(row.ad) for row in new.rows])
        self.counts.update(new.states)
        self.by_owner.setdefault(cluster.owner, Counter()).update(new.states)
        self._changes.new_jobs += new.rows
        self._changes.entered.append(new.by_proc.values())

    def _count(self, cluster: Cluster) -> None:
        """Count what the cluster's ad has now."""
        is_here = cluster.id in self.clusters
        if not is_here:
            self.gangs.pop(cluster.id, None)
        elif is_gang(cluster.ad):
            self.gangs[cluster.id] = cluster
        size = size_of(cluster.ad.attrs) if is_here else 0
        self.bytes_of[cluster.owner] += size - cluster.counted
        cluster.counted = size

    def add_factory(self, cluster: Cluster, recipe: str) -> None:
        """The cluster makes its jobs one after another."""
        cluster.factory = self._changes.factories[cluster.id] = recipe

    def end_factory(self, cluster: Cluster) -> None:
        """The cluster makes no more jobs; without any, it leaves the queue."""
        cluster.factory = None
        self._changes.factories.pop(cluster.id, None)
        self._changes.factories_gone.append((cluster.id,))
        self._forget_if_empty(cluster)

    def _forget_if_empty(self, cluster: Cluster) -> None:
        if not cluster.jobs and cluster.factory is None and self.clusters.pop(cluster.id, None) is not None:
            self._changes.clusters[cluster.id] = cluster
            self._count(cluster)

    def change(self, job: Job, attributes: Mapping[str, object], drop: Iterable[str] = ()) -> None:
        """Set attributes of the job, and take some away; the schedd's own stay as they are, whoever reports others."""
        self._change(job, without_own(attributes), [name for name in drop if name.lower() not in SCHEDDS])

    def note(self, job: Job, attributes: Mapping[str, object]) -> None:
        """Set attributes on which no promise hangs, as what the job uses: they make no commit of their own."""
        self._put(self._notes, job, without_own(attributes))

    def _change(self, job: Job, attributes: Mapping[str, object], drop: Iterable[str] = ()) -> None:
        self._put(self._changes, job, attributes, drop)

    def _put(self, into: _Changes, job: Job, attributes: Mapping[str, object], drop: Iterable[str] = ()) -> None:
        ad = self._writable(job)
        names = into.jobs.setdefault(job, set())
        ad.update(attributes)
        grown = _text_bytes(attributes)
        if grown:
            self._grown[job] = self._grown.get(job, 0) + grown
            self.bytes_of[job.cluster.owner] += grown
        if _GROUP_KEY in ad.attrs:
            job.cluster.charges_severally = True
        if names is not None:
            names.update(attributes)
        ranks = not priority.KEYS.isdisjoint(map(str.lower, attributes))
        for name in drop:
            if name in ad:
                del ad[name]
                ranks = ranks or name.lower() in priority.KEYS
                if names is not None:
                    names.add(name)
        if ranks:
            job.priority = priority.priority_of(ad)

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
        # A copy: the ads that were made of the old one, and are being sent or evaluated, stay as they are.
        ad = cluster.ad.copy()
        for name, value in attributes.items():
            ad[name] = value
        cluster.ad, self._made = ad, None
        cluster.stamp()
        self._count(cluster)
        cluster.autocluster = cluster.periodic = cluster.macros = cluster.crontab = None
        self._changes.clusters[cluster.id] = cluster
        for job in cluster.jobs.values():
            if job.live_ad is not None:
                job.live_ad.parent = ad

    def set_busy(self, job: Job, busy: bool) -> None:
        """An execution of the job begins or is over; meanwhile its ad may be kept at hand."""
        job.busy = busy
        if busy:
            self._at_hand.add(job, self.ad(job))
        elif job not in self._collected.jobs:
            self._settle(job)

    def leave(self, job: Job, now: float) -> None:
        """The job leaves the queue for the history."""
        cluster = job.cluster
        ad = self.ad(job)
        packed = pack(ad, MADE_UP).text
        self._changes.history.append(HistoryRow(cluster.id, job.proc, cluster.owner, int(job.status), now, packed))
        self._changes.gone.append((cluster.id, job.proc))
        # None: all of it changed. The end of a job concerns whoever watches it, whatever attributes he asked for.
        self._changes.jobs[job] = None
        del cluster.jobs[job.proc]
        self.counts[job.status] -= 1
        self.by_owner[cluster.owner][job.status] -= 1
        self.bytes_of[cluster.owner] -= len(job.text) + self._grown.pop(job, 0)
        job.live_ad = ad  # the last watchers are told
        self._forget_if_empty(cluster)

    def log(self, cluster: Cluster, log: str, text: str) -> EventRow:
        """A log shall have this event; durable with the next batch, and pending until `written`."""
        row = EventRow(self.next_event, cluster.owner, log, text)
        self.next_event += 1
        self._changes.events.append(row)
        return row

    def log_overall(self, log: str, text: str) -> None:
        """The same of the log of all jobs' events, which is no user's."""
        self._changes.events.append(EventRow(self.next_event, NOBODYS, log, text))
        self.next_event += 1

    def written(self, seqs: Iterable[int]) -> None:
        """The logs have these events."""
        self._notes.written.extend((seq,) for seq in seqs)

    def put_claim(self, row: ClaimRow) -> None:
        """Remember a slot that we hold."""
        self._changes.claims[row.claim] = row

    def claim_works(self, work: ClaimWork) -> None:
        """A slot that we hold runs another job, or its lease was renewed."""
        self._changes.claim_work[work.claim] = work

    def drop_claim(self, claim: str) -> None:
        """Forget a slot."""
        notes = self._notes
        notes.claims.pop(claim, None)
        notes.claim_work.pop(claim, None)
        notes.claims_gone.append((claim,))

    # Becoming durable.

    def on_change(self, tell: Callable[[], None], of_notes: Callable[[], None] = lambda: None) -> None:
        """Call back at the first change after each `take`, and at the first note.

        An id that was given out is no change until a cluster has it.
        """
        self._tell, self._tell_of_notes = tell, of_notes

    @property
    def _changes(self) -> _Changes:
        """What the next batch will have. Whoever asks for it adds to it, so that no change is left without a commit."""
        if not self._is_told:
            self._is_told = True
            self._tell()
        return self._collected

    @property
    def _notes(self) -> _Changes:
        """The same for what no promise hangs on."""
        if not self._has_notes:
            self._has_notes = True
            self._tell_of_notes()
        return self._collected

    @property
    def dirty(self) -> bool:
        """Whether there is anything to make durable, besides notes."""
        return self._is_told or self._next_cluster_dirty

    @property
    def has_notes(self) -> bool:
        """Whether there is anything that goes with what is made durable next."""
        return self._has_notes

    def take(self) -> tuple[WriteBatch, dict[Job, set[str] | None]]:
        """All changes since the last time, and the names of what changed of each job (None: all of it)."""
        changes, self._collected = self._collected, _Changes()
        self._is_told = self._has_notes = False
        self._made = None
        rows = changes.new_jobs
        touched: dict[Job, set[str] | None] = dict.fromkeys(chain.from_iterable(changes.entered))
        for job, names in changes.jobs.items():
            if job not in touched:
                touched[job] = names
            if job.cluster.jobs.get(job.proc) is job:
                assert job.live_ad is not None
                self._repack(job, job.live_ad)
                rows.append(JobRow(job.cluster.id, job.proc, int(job.status), job.priority.prio, job.text))
                self._at_hand.written(job)
        self._at_hand.let_go(self._collected.jobs)
        # The lists are handed over, not copied: `_collected` was replaced above, so nobody adds to them any more.
        batch = WriteBatch(
            clusters=[self._cluster_row(cluster) for cluster in changes.clusters.values()],
            jobs=rows,
            jobs_gone=changes.gone,
            events=changes.events,
            events_written=changes.written,
            claims=list(changes.claims.values()),
            claim_work=list(changes.claim_work.values()),
            claims_gone=changes.claims_gone,
            history=changes.history,
            next_cluster=self.next_cluster if self._next_cluster_dirty else None,
            factories=list(changes.factories.items()),
            factories_gone=changes.factories_gone,
        )
        self._next_cluster_dirty = False
        return batch, touched

    def _cluster_row(self, cluster: Cluster) -> ClusterRow:
        live = int(cluster.id in self.clusters)
        return ClusterRow(cluster.id, live, cluster.user, cluster.owner, cluster.procs, pack(cluster.ad).text)

    def _writable(self, job: Job) -> ClassAd:
        if job.live_ad is None:
            job.live_ad = self._make_ad(job)
        return job.live_ad

    def _settle(self, job: Job) -> None:
        if job.live_ad is not None:
            self._repack(job, job.live_ad)
            job.live_ad = self._made = None

    def _repack(self, job: Job, ad: ClassAd) -> None:
        """Make the job's row from its ad; what it has grown by was counted already, roughly."""
        before, job.packed = len(job.text), pack(ad, MADE_UP)
        if job.cluster.jobs.get(job.proc) is job:
            self.bytes_of[job.cluster.owner] += len(job.text) - before - self._grown.pop(job, 0)

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
                row.cluster, read_packed(row.ad).unpack(), user=row.user, owner=row.owner, procs=row.procs
            )
        statuses = {int(status): status for status in JobStatus}
        for number, rows in groupby(jobs, key=itemgetter(0)):
            cluster = self.clusters[number]
            own = cluster.jobs
            for _, proc, status, prio, text in rows:
                own[proc] = Job(cluster, proc, statuses[status], with_prio(prio), read_packed(text))
            self._read_priorities(cluster)
            cluster.charges_severally = any_may_have(own.values(), _GROUP)
            # Asked of all jobs at once: hardly a row has one of these, and to unpack each of a million would take long.
            if any_may_have(own.values(), NO_JOBS):
                for job in own.values():
                    job.packed = _stripped(job.packed)
            states = Counter([job.status for job in own.values()])
            self.counts.update(states)
            self.by_owner.setdefault(cluster.owner, Counter()).update(states)
            self.bytes_of[cluster.owner] += sum([len(job.text) for job in own.values()])
        for number, recipe in (factories or {}).items():
            self.clusters[number].factory = recipe
        idle = [number for number, cluster in self.clusters.items() if not cluster.jobs and cluster.factory is None]
        for number in idle:
            del self.clusters[number]
        for cluster in self.clusters.values():
            self._count(cluster)

    def _read_priorities(self, cluster: Cluster) -> None:
        """What few jobs have beside JobPrio; of a cluster without it, nothing is looked at."""
        of_all = not priority.AROUND_KEYS.isdisjoint(cluster.ad.attrs)
        if of_all or any_may_have(cluster.jobs.values(), priority.AROUND_KEYS):
            for job in cluster.jobs.values():
                if of_all or job.may_have(priority.AROUND_KEYS):
                    job.priority = priority.priority_of(self.ad(job))
