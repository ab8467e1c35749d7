"""Clusters that make their jobs one after another (late materialisation): at submit, and whenever there is room.

A factory is its cluster's recipe and the number of jobs made so far, both in the queue's file; each job comes in one
transaction with that number, so a restart neither repeats nor loses one. A job that cannot be made pauses its factory,
with the reason in the cluster's ad and log; nothing of it is in the queue then.

HTCondor's manual: users-manual/submitting-a-job ("max_materialize", "max_idle"), man page condor_submit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

import trio

from daemons.schedd.core.core import Core
from daemons.schedd.core.sizes import check_new
from daemons.schedd.core.writer import Touched
from daemons.schedd.queue.new_jobs import SubmitEvents, new_job, room
from pool.base.errors import PoolError, SubmitError
from pool.classad import ClassAd
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.store import WriteBatch
from pool.jobs.userlog import cluster_events
from pool.jobs.userlog.event import LogEvent
from pool.jobs.userlog.forms import write_cluster
from pool.jobs.vocabulary.states import EXECUTING
from pool.jobs.waiting import factory
from pool.jobs.waiting.factory import EDITED, Paused
from pool.submit.recipe import made_later, plan_of
from protocol.network import turns

CHUNK: Final = 100
SLICE_S: Final = 0.004
"""How many jobs are made, and how long it may take, before others get their turn."""


class _Line:
    """The jobs that a factory still makes, from its cluster's next on."""

    def __init__(self, core: Core, cluster: Cluster, recipe: str) -> None:
        plan = plan_of(recipe, config=core.start.config, cluster=cluster.id, chance=core.start.world.rng)
        self.total = plan.count
        self.items = len(plan.batches[0][1].items)
        self.next = cluster.procs
        self.ignored: dict[str, None] = {}
        """What the recipe says of jobs that only the schedd sets."""
        self.ads: Iterator[ClassAd] = self._without_ours(core, cluster, made_later(plan, cluster.procs))

    def _without_ours(self, core: Core, cluster: Cluster, ads: Iterator[ClassAd]) -> Iterator[ClassAd]:
        for ad in ads:
            self.ignored.update(dict.fromkeys(core.settings.edits.submitted(ad, cluster.ad)))
            yield ad


class Factories:
    """All factories, and the task that has them make jobs."""

    def __init__(self, core: Core, own_ad: Callable[[], ClassAd]) -> None:
        self._core = core
        self._own_ad = own_ad
        self._lines: dict[int, _Line] = {}
        self._wanted: dict[int, None] = {}
        self._short: set[int] = set()
        """Clusters that would make more jobs if the schedd's own limits let them."""
        self._wake = trio.Event()

    def look_at(self, cluster: Cluster) -> None:
        """There may be something to do for the cluster."""
        self._wanted[cluster.id] = None
        self._wake.set()

    def begin(self, cluster: Cluster, recipe: str) -> tuple[list[Job], int, str, list[str]]:
        """Put a new cluster with its first jobs into the queue; they, how many there will be, and perhaps a warning.

        Last come the names of attributes that the recipe says in vain, as far as the first jobs show them.
        SubmitError when its first jobs cannot be made: then nothing has changed.
        """
        core = self._core
        try:
            line = _Line(core, cluster, recipe)
            factory.begin(cluster.ad, cluster.id, line.total, line.items)
            warning = self._admit(cluster, line)
            jobs = self._make(cluster, line)
            core.settings.ad_limits.check(cluster.ad, "the cluster's ad")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise SubmitError(f"the recipe of cluster {cluster.id} cannot be read: {error}") from None
        core.queue.add(cluster, jobs)
        core.queue.add_factory(cluster, recipe)
        self._lines[cluster.id] = line
        self._write(cluster, cluster_events.ClusterSubmitted(core.start.address))
        self._log(cluster, jobs)
        return jobs, line.total, warning, [*line.ignored]

    def _admit(self, cluster: Cluster, line: _Line) -> str:
        """Change the cluster's ad as the access point wants it; a warning, or SubmitError when it is refused."""
        core = self._core
        rules = core.settings.admission
        if not rules:
            return ""
        first = next(line.ads, ClassAd())
        line.ads = chain((first.copy(),), line.ads)
        touched = rules.transform_cluster(cluster.ad, first, core.log.always)
        if touched:
            cluster.ad[EDITED] = factory.edited(cluster.ad, [cluster.ad.attrs.name_any(name) for name in touched])
        core.settings.charging.settle(cluster.ad, owner=cluster.owner, user=cluster.user)
        view = ClassAd([(name, value) for name, value in first.own() if name.lower() not in touched])
        view.parent = cluster.ad
        return rules.judge(view, self._own_ad())

    async def run(self) -> None:
        """Make jobs whenever there is room for them."""
        for cluster in self._core.queue.clusters.values():
            if cluster.factory is not None:
                self.look_at(cluster)
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._wanted:
                number = next(iter(self._wanted))
                del self._wanted[number]
                known = self._core.queue.clusters.get(number)
                if known is not None and known.factory is not None:
                    # In the name of the jobs' user: whoever has a cluster of a million makes nobody else wait.
                    await turns.of_loop().enter(known.user)
                    if self._grow_or_pause(known):
                        self._wanted[number] = None
                    await trio.lowlevel.checkpoint()

    def _grow_or_pause(self, cluster: Cluster) -> bool:
        """The same as `_grow`; an error that nobody foresaw pauses this factory, and the others go on."""
        try:
            return self._grow(cluster)
        except Exception as error:
            self._core.log.error(f"The schedd failed to make jobs of cluster {cluster.id}", error)
            self.pause(cluster, f"The schedd failed to make jobs: {error}", Paused.INVALID)
            return False

    def committed(self, batch: WriteBatch, touched: Touched) -> None:
        """Jobs that leave, or begin to run, make room."""
        if not self._lines:
            return
        left = False
        for job in touched:
            if job.cluster.factory is not None:
                self.look_at(job.cluster)
            left = left or job.cluster.jobs.get(job.proc) is not job
        if left and self._short:
            for number in self._short:
                self._wanted[number] = None
            self._short.clear()
            self._wake.set()

    # ---- making jobs

    def _grow(self, cluster: Cluster) -> bool:
        """Make some of the jobs that there is room for; whether there may be more of them."""
        core = self._core
        if cluster.factory is None:
            return False
        try:
            line = self._line(cluster, cluster.factory)
            jobs = self._make(cluster, line)
        except PoolError as error:
            self._lines.pop(cluster.id, None)
            core.log.always(f"The factory of cluster {cluster.id} makes no more jobs: {error}")
            self.pause(cluster, str(error), Paused.INVALID)
            return False
        if line.next >= line.total and not cluster.jobs and not jobs:
            self.end(cluster, complete=True)
            return False
        if not jobs:
            return False
        core.queue.add(cluster, jobs)
        self._log(cluster, jobs)
        core.stats["JobsSubmitted"] += len(jobs)
        for job in jobs:
            core.settle(job)
        return True

    def _line(self, cluster: Cluster, recipe: str) -> _Line:
        line = self._lines.get(cluster.id)
        if line is None:
            line = self._lines[cluster.id] = _Line(self._core, cluster, recipe)
        return line

    def _make(self, cluster: Cluster, line: _Line) -> list[Job]:
        """As many new jobs as there is room for, as far as a slice of time or a chunk goes."""
        began = trio.current_time()
        present = cluster.jobs.values()
        name, current, limit = room(self._core, cluster.owner)
        if name == "MAX_JOBS_PER_SUBMISSION":
            limit -= len(present)
        left = min(CHUNK, line.total - line.next)
        not_running = 0
        if "JobMaterializeMaxIdle" in cluster.ad:
            not_running = sum(job.status not in EXECUTING for job in present)
        count = factory.wanted(cluster.ad, len(present), not_running, left)
        if count > limit - current:
            self._short.add(cluster.id)
            count = max(0, limit - current)
        edited = factory.edited_names(cluster.ad)
        jobs: list[Job] = []
        for own in islice(line.ads, count):
            for name in edited:
                if name in own:
                    del own[name]
            jobs.append(new_job(cluster, own, line.next + len(jobs), self._core.settings.charging))
            if trio.current_time() - began >= SLICE_S:
                break
        check_new(self._core, cluster, jobs)
        # Only once they are accepted: jobs that were refused come again when the factory goes on.
        line.next += len(jobs)
        return jobs

    def _log(self, cluster: Cluster, jobs: list[Job]) -> None:
        events = SubmitEvents(self._core, cluster)
        events.add(jobs)
        events.write()

    # ---- what users do to factories

    def pause(self, cluster: Cluster, reason: str, why: Paused = Paused.HELD, hold_code: int = 0) -> bool:
        """Make no more jobs; whether that is a change."""
        if cluster.ad.eval_int("JobMaterializePaused", 0) == why:
            return False
        self._core.queue.change_cluster(
            cluster, {"JobMaterializePaused": int(why), "JobMaterializePauseReason": reason}
        )
        self._write(cluster, cluster_events.FactoryPaused(reason, int(why), hold_code))
        return True

    def resume(self, cluster: Cluster, reason: str) -> bool:
        """Make jobs again; whether that is a change."""
        if cluster.ad.eval_int("JobMaterializePaused", 0) == Paused.NO:
            return False
        self._core.queue.change_cluster(
            cluster, {"JobMaterializePaused": int(Paused.NO), "JobMaterializePauseReason": ""}
        )
        self._write(cluster, cluster_events.FactoryResumed(reason))
        self.look_at(cluster)
        return True

    def end(self, cluster: Cluster, *, complete: bool) -> None:
        """There will be no more jobs of the cluster."""
        if cluster.factory is None:
            return
        items = cluster.ad.eval_int("JobMaterializeItemCount", 0)
        self._write(cluster, cluster_events.ClusterRemoved(cluster.procs, items, complete))
        self._lines.pop(cluster.id, None)
        self._short.discard(cluster.id)
        self._core.queue.end_factory(cluster)

    def edit(self, cluster: Cluster, values: dict[str, object]) -> None:
        """Set attributes of the jobs that are still to be made."""
        after = cluster.ad.copy()
        after.update(values)
        self._core.settings.ad_limits.check(after, f"the ad of cluster {cluster.id}")
        names = factory.edited(cluster.ad, list(values))
        self._core.queue.change_cluster(cluster, {**values, EDITED: names})
        self.look_at(cluster)

    def _write(self, cluster: Cluster, event: LogEvent) -> None:
        core = self._core
        at = core.now()
        for path, form in core.logs_of(cluster.ad):
            core.queue.log(cluster, path, write_cluster(event, cluster.id, at, form))

    # ---- what users see of them

    @staticmethod
    def shown(cluster: Cluster) -> ClassAd:
        """The cluster's ad with what its jobs do now."""
        ad = cluster.ad.copy()
        states = [int(job.status) for job in cluster.jobs.values()]
        running = [int(status) for status in EXECUTING]
        ad["ClusterId"] = cluster.id
        ad["JobMaterializeNextProcId"] = cluster.procs
        ad["JobsPresent"] = len(states)
        ad["JobsIdle"], ad["JobsHeld"] = states.count(1), states.count(5)
        ad["JobsRunning"] = sum(state in running for state in states)
        return ad
