"""The answer to a question about jobs in the queue: what is shown of each, as ads, or as tables of alike jobs.

A row of the queue is packed text. Where nothing in it is asked for, all that is shown of a job is its cluster's, its id
and its state; where something is, the rows of a page are read together, and no ad is made of any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from daemons.schedd.core.core import Core
from pool.ads.limits import asked_for
from pool.classad import ClassAd, Expr
from pool.jobs.queue.cluster import Cluster, Job, any_may_have, global_job_id
from pool.jobs.queue.pack import columns_of
from pool.jobs.vocabulary.own_attributes import MADE_UP
from pool.jobs.waiting.groups import WaitingGroup
from protocol.messages.common import AdBatch
from protocol.wire.ad_table import pack_table

ADS_PER_BATCH: Final = 25
"""Few enough that others need not wait long while they are made."""
TABLE_MIN: Final = 8
"""Jobs that are worth a table of their own."""


def projected(ad: ClassAd, names: Sequence[str]) -> ClassAd:
    """The attributes of these names, and those that they read: who gets them can evaluate them."""
    shown = ad.project(names)
    todo = [name for name, value in shown.own() if type(value) is Expr]
    while todo:
        for name in ad.references(todo.pop())[0]:
            bare = name.rpartition(".")[2]
            if bare in ad and bare not in shown:
                shown[bare] = ad[bare]
                if type(ad[bare]) is Expr:
                    todo.append(bare)
    return shown


class JobBatches:
    """Takes pages of jobs, and hands out batches."""

    def __init__(self, core: Core, projection: Sequence[str], tables: bool) -> None:
        self._core = core
        self._projection = asked_for(projection)
        self._wanted = {name.lower() for name in projection}
        self._tables = tables
        self._now = int(core.now())
        self._shared: dict[int, _Shared] = {}
        self.waiting: list[ClassAd] = []

    def pieces(self, page: Sequence[Job]) -> Iterator[Sequence[Job]]:
        """The page in pieces of which each can be shown at one go, less the jobs that leave before it is their turn."""
        if self._tables:
            yield page
            return
        for at in range(0, len(page), ADS_PER_BATCH):
            yield [job for job in page[at : at + ADS_PER_BATCH] if job.cluster.jobs.get(job.proc) is job]

    def batches(self, page: Sequence[Job]) -> Iterator[AdBatch]:
        """What can be sent now that these jobs, of one cluster, have been added."""
        for (has_ad, _), jobs in groupby(page, key=_kind):
            alike = list(jobs)
            table = None
            if self._tables and not has_ad and len(alike) >= TABLE_MIN:
                table = self._table(alike)
            if table is None:
                for job in alike:
                    self.waiting.append(self._shown(job))
                    if len(self.waiting) >= ADS_PER_BATCH:
                        yield self.rest()
            else:
                if self.waiting:
                    yield self.rest()
                yield AdBatch(ads=[], table=table)

    def rest(self) -> AdBatch:
        """What has not been sent yet."""
        ads, self.waiting = self.waiting, []
        return AdBatch(ads=ads)

    def _shown(self, job: Job) -> ClassAd:
        """A job's ad with what is known of it beyond its row."""
        ad = self._core.queue.ad(job)
        shown = projected(ad, self._projection) if self._projection else ad.flat()
        extra = self._extra(job)
        if ad.eval_int("LastRejMatchTime", 0) > _as_int(extra.get("LastRejMatchTime")):  # a slot has refused it since
            extra.pop("LastRejMatchTime", None)
            extra.pop("LastRejMatchReason", None)
        for name, value in extra.items():
            shown[name] = value
        return shown

    def _extra(self, job: Job) -> dict[str, object]:
        """What is known of a job beyond its row, as far as it is wanted."""
        core = self._core
        extra: dict[str, object] = {"ServerTime": self._now}
        if isinstance(job.group, WaitingGroup):
            extra["AutoClusterId"] = job.group.autocluster
            if not self._projection:
                extra["AutoClusterAttrs"] = core.autoclusters.shown()
            rejected = core.waiting.rejected(job.group)
            if rejected is not None:
                extra["LastRejMatchReason"], extra["LastRejMatchTime"] = rejected[0], int(rejected[1])
        if job.cluster.factory is not None:
            extra["JobMaterializeNextProcId"] = job.cluster.procs
        if self._projection:
            return {name: value for name, value in extra.items() if name.lower() in self._wanted}
        return extra

    def _table(self, jobs: Sequence[Job]) -> bytes | None:
        """Jobs of one cluster and group as a table; None where each has to be looked at."""
        cluster = jobs[0].cluster
        shared = self._shared.get(cluster.id)
        # An edit gives the cluster another ad.
        if shared is None or shared.cluster_ad is not cluster.ad:
            shared = self._shared[cluster.id] = _Shared(cluster, self._projection)
        names, columns = shared.made_up(self._core.queue.name, jobs)
        if shared.reads is None or any_may_have(jobs, shared.names):
            own = columns_of([job.packed for job in jobs], shared.reads)
            if own is None:
                return None
            names += own.keys()
            columns += own.values()
        return pack_table(names, columns, len(jobs), {**shared.row, **self._extra(jobs[0])})


class _Shared:
    """What is shown of a cluster's jobs alike."""

    def __init__(self, cluster: Cluster, projection: Sequence[str]) -> None:
        self.cluster_ad = cluster.ad
        whole = ClassAd(parent=cluster.ad)
        for name in ("ProcId", "JobStatus", "GlobalJobId"):
            whole[name] = 0
        shown = projected(whole, projection) if projection else whole.flat()
        self._made_up = [name for name in shown if name.lower() in MADE_UP]
        self.row = shown.attrs.spelled()
        self.reads = _closure(whole, projection) if projection else None
        """What decides what is shown, in lower case; None for everything."""
        self.names = (self.reads or set()) - MADE_UP

    def made_up(self, schedd: str, jobs: Sequence[Job]) -> tuple[list[str], list[list[Any]]]:
        """The columns of what follows from a job's place and state."""
        cluster = jobs[0].cluster
        columns: list[list[Any]] = []
        for name in self._made_up:
            if name == "ProcId":
                columns.append([job.proc for job in jobs])
            elif name == "JobStatus":
                columns.append([job.status.value for job in jobs])
            else:
                columns.append([global_job_id(schedd, cluster.id, job.proc, cluster.qdate) for job in jobs])
        return [*self._made_up], columns


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _kind(job: Job) -> tuple[bool, int]:
    return job.has_ad, id(job.group)


def _closure(ad: ClassAd, names: Sequence[str]) -> set[str]:
    """These names, and all that their expressions read, whether it is there or not."""
    todo = list(names)
    found: set[str] = set()
    while todo:
        name = todo.pop().rpartition(".")[2]
        if name.lower() not in found:
            found.add(name.lower())
            if type(ad.get(name)) is Expr:
                todo += set().union(*ad.references(name))  # what the cluster lacks a job may have
    return found
