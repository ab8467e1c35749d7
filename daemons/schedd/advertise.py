"""The schedd's ad, and one for each submitter with jobs in the queue."""

from __future__ import annotations

from collections import Counter
from typing import Final

import trio

from daemons.cron_manager import CronManager
from daemons.pace import Pace
from daemons.schedd.core import Core
from pool.classad import ClassAd
from pool.jobs.states import JobStatus
from pool.submit.commands import LOCAL
from pool.version import CONDOR_VERSION

AT_LEAST_BETWEEN_S: Final = 5.0

_TOTALS: Final = {
    "TotalIdleJobs": JobStatus.IDLE,
    "TotalRunningJobs": JobStatus.RUNNING,
    "TotalHeldJobs": JobStatus.HELD,
    "TotalRemovedJobs": JobStatus.REMOVED,
}


class Advertise:
    """Keeps the ads current."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: set[str] = set()
        self._said: tuple[object, ...] = ()
        self.cron: CronManager | None = None

    def ad(self) -> ClassAd:
        """The schedd's own ad, with what its cron jobs have said."""
        ad = self.plain_ad()
        for one in self.cron.ads if self.cron is not None else ():
            ad.update(one.ad)
        return ad

    def plain_ad(self) -> ClassAd:
        """What the schedd knows of itself."""
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
                "ShadowsRunning": len(core.shadow_of),
                "Autoclusters": len({group.autocluster for group in core.waiting.groups()}),
                "UpdateInterval": int(start.config.seconds("UPDATE_INTERVAL")),
                "JobsRunning": queue.counts[JobStatus.RUNNING],
                "QueueCommits": core.writer.commits,
            }
        )
        for name, status in _TOTALS.items():
            ad[name] = queue.counts[status]
        ad["TotalRunningJobs"] = sum(
            queue.counts[s] for s in (JobStatus.RUNNING, JobStatus.SUSPENDED, JobStatus.TRANSFERRING_OUTPUT)
        )
        local = sum(job.cluster.ad.eval_int("JobUniverse") == LOCAL for job in core.local_runs)
        for name in ("TotalFlockedJobs", "TotalLocalJobsIdle", "TotalSchedulerJobsIdle"):
            ad[name] = 0
        ad["TotalLocalJobsRunning"], ad["TotalSchedulerJobsRunning"] = local, len(core.local_runs) - local
        for name in ("JobsSubmitted", "JobsStarted", "JobsExited", "JobsCompleted"):
            ad[name] = core.stats[name]
        ad.update(core.transfers.attributes())
        return ad

    async def run(self) -> None:
        """Publish each change of the counts, not too often."""
        core = self._core
        while True:
            counts = tuple(sorted((int(status), number) for status, number in core.queue.counts.items()))
            if counts != self._said:
                self._said = counts
                core.start.adverts.refresh()
                await self._publish_submitters()
            await trio.sleep(AT_LEAST_BETWEEN_S)

    async def _publish_submitters(self) -> None:
        core = self._core
        by_submitter: dict[str, Counter[JobStatus]] = {}
        pace = Pace()
        for cluster in list(core.queue.clusters.values()):
            await pace.breathe()
            jobs = list(cluster.jobs.values())
            for alike in [[job] for job in jobs] if cluster.charges_severally else [jobs] if jobs else []:
                await pace.breathe()
                by_submitter.setdefault(core.submitter(alike[0]), Counter()).update(job.status for job in alike)
        adverts = core.start.adverts
        for name, counts in by_submitter.items():
            running = counts[JobStatus.RUNNING] + counts[JobStatus.SUSPENDED] + counts[JobStatus.TRANSFERRING_OUTPUT]
            adverts.put(
                ClassAd(
                    {
                        "MyType": "Submitter",
                        "TargetType": "",
                        "Name": name,
                        "ScheddName": core.settings.name,
                        "ScheddIpAddr": core.start.address,
                        "MyAddress": core.start.address,
                        "Machine": core.start.host,
                        "CondorVersion": CONDOR_VERSION,
                        "RunningJobs": running,
                        "IdleJobs": counts[JobStatus.IDLE],
                        "HeldJobs": counts[JobStatus.HELD],
                        "WeightedRunningJobs": running,
                        "WeightedIdleJobs": counts[JobStatus.IDLE],
                        "FlockedJobs": 0,
                        "LocalJobsIdle": 0,
                        "LocalJobsRunning": 0,
                        "SchedulerJobsIdle": 0,
                        "SchedulerJobsRunning": 0,
                        "SubmitterTag": "",
                    }
                )
            )
        for name in self._known - by_submitter.keys():
            adverts.drop("Submitter", name)
        self._known = set(by_submitter)
