"""The schedd's ad, and one for each submitter with jobs in the queue.

They follow the queue within AT_LEAST_BETWEEN_S. What other pools are told of submitters is `flock_ads`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.host.cron_manager import CronManager
from daemons.schedd.core.core import Core
from daemons.schedd.files.transfer_turns import TransferTurns
from daemons.schedd.queue.flock_ads import FlockAds
from pool.base.version import CONDOR_VERSION
from pool.classad import ClassAd
from pool.hosts.daemon_names import kept_name
from pool.jobs.vocabulary.states import EXECUTING, JobStatus
from pool.jobs.vocabulary.universes import Universe

AT_LEAST_BETWEEN_S: Final = 5.0

_TOTALS: Final = {
    "TotalIdleJobs": JobStatus.IDLE,
    "TotalRunningJobs": JobStatus.RUNNING,
    "TotalHeldJobs": JobStatus.HELD,
    "TotalRemovedJobs": JobStatus.REMOVED,
}


class OwnAd:
    """What the schedd knows of itself."""

    def __init__(self, core: Core, turns: TransferTurns) -> None:
        self._core = core
        self._turns = turns
        self._idle_here: Counter[int] = Counter()
        """Waiting jobs of each universe that runs at the access point."""

    def counted(self, idle_here: Counter[int]) -> None:
        """So many jobs of each such universe wait."""
        self._idle_here = idle_here

    def ad(self) -> ClassAd:
        """As it is now."""
        core = self._core
        queue, start = core.queue, core.start
        ad = ClassAd(
            {
                "MyType": "Scheduler",
                "TargetType": "",
                "Name": core.settings.name,
                "Machine": start.host,
                "ScheddIpAddr": start.address,
                "MaxJobsRunning": core.settings.jobs_running_max,
                "NumUsers": sum(1 for counts in queue.by_owner.values() if sum(counts.values())),
                "TotalJobAds": len(queue),
                "ShadowsRunning": len(core.executions.shadow_of),
                "Autoclusters": len({group.autocluster for group in core.waiting.groups()}),
                "UpdateInterval": int(start.config.seconds("UPDATE_INTERVAL")),
                "JobsRunning": queue.counts[JobStatus.RUNNING],
                "QueueCommits": core.writer.commits,
            }
        )
        for name, status in _TOTALS.items():
            ad[name] = queue.counts[status]
        local = sum(job.cluster.ad.eval_int("JobUniverse") == Universe.LOCAL for job in core.executions.local)
        ad["TotalFlockedJobs"] = flocked = sum(1 for one in core.executions.shadow_of.values() if one.claim.pool)
        ad["TotalRunningJobs"] = _running(queue.counts) - flocked
        ad["TotalLocalJobsIdle"], ad["TotalSchedulerJobsIdle"] = (
            self._idle_here[Universe.LOCAL],
            self._idle_here[Universe.SCHEDULER],
        )
        ad["TotalLocalJobsRunning"], ad["TotalSchedulerJobsRunning"] = local, len(core.executions.local) - local
        for name in ("JobsSubmitted", "JobsStarted", "JobsExited", "JobsCompleted"):
            ad[name] = core.stats[name]
        level = core.flock_levels.highest({group.submitter for group in core.waiting.groups()})
        if asked := [pool.name for pool in core.settings.flock.pools[:level]]:
            ad["EffectiveFlockList"] = ",".join(asked)
        ad.update(self._turns.attributes())
        return ad


class Advertise:
    """Keeps the ads current."""

    def __init__(self, core: Core, own: OwnAd, cron: CronManager) -> None:
        self._core = core
        self._own = own
        self._cron = cron
        self.elsewhere = FlockAds(core)
        self._known: set[str] = set()
        self._said: tuple[object, ...] = ()

    def ad(self) -> ClassAd:
        """The schedd's own ad, with what its cron jobs have said."""
        ad = self._own.ad()
        for one in self._cron.ads:
            ad.update(one.ad)
        return ad

    async def run(self) -> None:
        """Publish each change of the counts, not too often."""
        core = self._core
        while True:
            counts = tuple(sorted((int(status), number) for status, number in core.queue.counts.items()))
            said = counts, self._prios(), self.elsewhere.state()  # condor_prio changes no count
            if said != self._said:
                self._said = said
                # Counted over many turns of the loop, then published at once: the ads agree with each other.
                by_submitter = await self._count()
                core.start.adverts.refresh()
                self._publish(by_submitter)
            await trio.sleep(AT_LEAST_BETWEEN_S)

    async def _count(self) -> dict[str, dict[int, Counter[JobStatus]]]:
        """How many jobs each submitter has, of each universe that runs at the access point and (0) of all others."""
        core, pace = self._core, Pace()
        by_submitter: dict[str, dict[int, Counter[JobStatus]]] = {}
        idle: Counter[int] = Counter()
        for cluster in list(core.queue.clusters.values()):
            await pace.breathe()
            jobs = list(cluster.jobs.values())
            universe = cluster.ad.eval_int("JobUniverse")
            kind = universe if universe in (Universe.LOCAL, Universe.SCHEDULER) else 0
            idle[kind] += sum(job.status is JobStatus.IDLE for job in jobs)
            for alike in [[job] for job in jobs] if cluster.charges_severally else [jobs] if jobs else []:
                await pace.breathe()
                kinds = by_submitter.setdefault(core.submitter(alike[0]), defaultdict(Counter))
                kinds[kind].update(job.status for job in alike)
        self._own.counted(idle)
        return by_submitter

    def _publish(self, by_submitter: Mapping[str, Mapping[int, Counter[JobStatus]]]) -> None:
        adverts, known = self._core.start.adverts, self._known
        self._known = set()
        prios, idle = self._prios(), self._idle_weights()
        ads: dict[str, ClassAd] = {}
        running = self.elsewhere.running()
        for name, kinds in by_submitter.items():
            flocked = sum(count for (pool, whose), count in running.items() if pool and whose == name)
            ad = ads[name] = self._submitter_ad(name, kinds, idle[name], flocked)
            if (most := self._core.settings.global_prios_max) is not None:
                ad.update(_prio_array(prios.get(name, set()), most))
            self._known.add(kept_name(ad))
            adverts.put(ad)
        for name in known - self._known:
            adverts.drop("Submitter", name)
        self.elsewhere.publish(ads)

    def _prios(self) -> dict[str, set[int]]:
        """JobPrio of each submitter's jobs that wait, where it counts across schedds."""
        found: dict[str, set[int]] = {}
        if self._core.settings.global_prios_max is not None:
            for group in self._core.waiting.groups():
                found.setdefault(group.submitter, set()).add(group.priority.prio)
        return found

    def _idle_weights(self) -> Counter[str]:
        """How many cores each submitter's waiting jobs ask for."""
        idle: Counter[str] = Counter()
        for group in self._core.waiting.groups():
            if (job := group.first()) is not None:
                cpus = self._core.queue.ad(job).eval_float("RequestCpus", 1.0) or 1.0
                idle[group.submitter] += math.ceil(group.count * cpus)
        return idle

    def _submitter_ad(
        self, name: str, kinds: Mapping[int, Counter[JobStatus]], idle_weight: int, flocked: int
    ) -> ClassAd:
        core = self._core
        held = core.holdings.by_submitter.get(name)
        elsewhere, local, scheduler = kinds[0], kinds[Universe.LOCAL], kinds[Universe.SCHEDULER]
        return ClassAd(
            {
                "MyType": "Submitter",
                "TargetType": "",
                "Name": name,
                "ScheddName": core.settings.name,
                "ScheddIpAddr": core.start.address,
                "MyAddress": core.start.address,
                "Machine": core.start.host,
                "CondorVersion": CONDOR_VERSION,
                "RunningJobs": max(0, _running(elsewhere) - flocked),
                "IdleJobs": elsewhere[JobStatus.IDLE],
                "HeldJobs": elsewhere[JobStatus.HELD],
                "WeightedRunningJobs": 0 if held is None else round(held.weight),
                "WeightedIdleJobs": idle_weight,
                "FlockedJobs": flocked,
                "LocalJobsIdle": local[JobStatus.IDLE],
                "LocalJobsRunning": _running(local),
                "SchedulerJobsIdle": scheduler[JobStatus.IDLE],
                "SchedulerJobsRunning": _running(scheduler),
                "SubmitterTag": "",
            }
        )


def _prio_array(prios: AbstractSet[int], most: int) -> dict[str, object]:
    """JobPrioArray, the highest first; where there are more, how many."""
    array: dict[str, object] = {"JobPrioArray": ",".join(map(str, sorted(prios, reverse=True)[:most]))}
    return array | ({"JobPrioArrayOverflow": len(prios)} if len(prios) > most else {})


def _running(counts: Counter[JobStatus]) -> int:
    return sum(counts[status] for status in EXECUTING)
