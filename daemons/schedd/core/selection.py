"""Which jobs a request is about, and who may do what to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from daemons.base.pace import Pace
from daemons.schedd.core.core import Core
from daemons.schedd.core.settings import ScheddSettings
from pool.base.errors import UserError
from pool.base.ids import JobId, named_jobs
from pool.classad import ClassAd, expr
from pool.classad.eval.budget import Patience
from pool.classad.values.truth import is_true
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.job_queue import JobQueue
from protocol.messages.schedd import Selection
from protocol.rpc.endpoints import Peer
from protocol.security.authorize import Level

NAMING_METHODS: Final = ("FS", "PAIR", "TOKEN")
"""The ways to prove a name that QUEUE_SUPER_USERS may have."""


@dataclass(frozen=True)
class Chosen:
    """A selection, read: ids and users form a union, which the constraint then narrows."""

    jobs: frozenset[JobId]
    clusters: frozenset[int]
    users: frozenset[str]
    constraint: Patience | None
    everything: bool

    @classmethod
    def read(cls, select: Selection) -> Chosen:
        """UserError when an id or the constraint is none."""
        jobs, clusters = set(), set()
        for text in select.ids:
            named = named_jobs(text)
            if named is not None and named[1] is None:
                clusters.add(named[0])
            else:
                jobs.add(JobId.parse(text))
        anyone = not select.ids and not select.users
        return cls(
            frozenset(jobs),
            frozenset(clusters),
            frozenset(select.users),
            Patience(expr(select.constraint)) if select.constraint else None,
            select.all or (anyone and select.constraint is not None),
        )

    def about(self, job: Job) -> bool:
        """Whether the job is among the ids and users."""
        cluster = job.cluster
        return (
            self.everything
            or cluster.id in self.clusters
            or job.id in self.jobs
            or cluster.owner in self.users
            or cluster.user in self.users
        )

    def satisfied_by(self, ad: ClassAd) -> bool:
        """Whether the constraint holds; TooDear when it has cost too much."""
        if self.constraint is None:
            return True
        value = self.constraint.eval(ad)
        return is_true(value)

    async def find(self, queue: JobQueue) -> AsyncGenerator[Job, None]:
        """The jobs in the queue, in order of id; others get their turn in between."""
        async with aclosing(self.pages(queue)) as pages:
            async for page in pages:
                for job in page:
                    if job.cluster.jobs.get(job.proc) is job:
                        yield job

    async def pages(self, queue: JobQueue) -> AsyncGenerator[list[Job], None]:
        """The same as lists of jobs of one cluster each."""
        pace = Pace()
        for page in self._candidates(queue):
            await pace.breathe()
            if self.constraint is None:
                yield page
                continue
            found = []
            for job in page:
                await pace.breathe()
                if job.cluster.jobs.get(job.proc) is job and self.satisfied_by(queue.ad(job)):
                    found.append(job)
            if found:
                yield found

    def _candidates(self, queue: JobQueue) -> Iterator[list[Job]]:
        if self.everything:
            yield from queue.pages()
            return
        by_cluster: dict[int, list[int]] = {}
        for id in self.jobs:
            by_cluster.setdefault(id.cluster, []).append(id.proc)
        # Jobs are not kept by user: then all clusters have to be looked at.
        numbers = queue.clusters if self.users else {*self.clusters, *by_cluster}
        for number in sorted(numbers):
            cluster = queue.clusters.get(number)
            if cluster is None:
                continue
            if number in self.clusters or cluster.owner in self.users or cluster.user in self.users:
                yield from cluster.pages()
            elif few := [cluster.jobs[proc] for proc in sorted(by_cluster.get(number, ())) if proc in cluster.jobs]:
                yield few

    def factories(self, queue: JobQueue) -> list[Cluster]:
        """Clusters among the ids and users that make their jobs one after another."""
        return [
            cluster
            for number, cluster in sorted(queue.clusters.items())
            if cluster.factory is not None
            and (self.everything or number in self.clusters or bool(self.users & {cluster.owner, cluster.user}))
            and self.satisfied_by(cluster.ad)
        ]


def any_of(select: Selection) -> Chosen:
    """A query's selection: one that names nothing means all."""
    chosen = Chosen.read(select)
    if not select.ids and not select.users:
        # Only queries: an action on nothing that is named must not become one on everything.
        return Chosen(chosen.jobs, chosen.clusters, chosen.users, chosen.constraint, True)
    return chosen


def owner_of(peer: Peer) -> str:
    """The account that a peer acts for."""
    return peer.identity.partition("@")[0]


def is_super_user(settings: ScheddSettings, peer: Peer) -> bool:
    """Whether the peer may manage the jobs of all users.

    QUEUE_SUPER_USERS names accounts of this host and bearers of tokens: no host's certificate makes it one of them.
    """
    named = peer.method in NAMING_METHODS and not {owner_of(peer), peer.identity}.isdisjoint(settings.super_users)
    return named or settings.all_users_trusted or peer.allows(Level.ADMINISTRATOR)


def may_manage(core: Core, peer: Peer) -> Callable[[Job], bool]:
    """A test for the jobs that the peer may change: his own, or everybody's."""
    manages = may_manage_cluster(core, peer)
    return lambda job: manages(job.cluster)


def may_manage_cluster(core: Core, peer: Peer) -> Callable[[Cluster], bool]:
    """The same for clusters."""
    if is_super_user(core.settings, peer):
        return lambda cluster: True
    if not peer.allows(Level.WRITE):
        raise UserError(f"{peer.identity} may not change anything here")
    identity, owner = peer.identity, owner_of(peer)
    return lambda cluster: cluster.user == identity or cluster.owner == owner
