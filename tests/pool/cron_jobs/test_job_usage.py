"""What a job has used of its devices, from its monitor's reports."""

from __future__ import annotations

from pool.classad import ClassAd, expr
from pool.cron_jobs.job_usage import JobUsage
from pool.cron_jobs.jobs import CronJob, CronMode, Metric
from pool.cron_jobs.merge import Published
from pool.cron_jobs.output import CronAd

JOB = CronJob(
    "GPUs_MONITOR",
    "/monitor",
    CronMode.WAIT_FOR_EXIT,
    metrics={"uptimegpusseconds": Metric.SUM, "uptimegpusmemorypeakusage": Metric.PEAK},
)
BOTH = ClassAd({"Name": "slot1@host", "AssignedGPUs": "GPU-a,GPU-b"})
ONE = ClassAd({"Name": "slot2@host", "AssignedGPUs": "GPU-b"})


class Monitor:
    """Two devices, and what is reported of them."""

    def __init__(self) -> None:
        self.ads = {tag: Published(JOB, tag, ClassAd(), ClassAd()) for tag in "ab"}

    def report(self, at: float, **used: tuple[float, int]) -> list[Published]:
        for tag, (busy_s, memory) in used.items():
            whose = ClassAd({"SlotMergeConstraint": expr(f'StringListMember("GPU-{tag}", AssignedGPUs)')})
            ad = ClassAd({"UptimeGPUsSeconds": busy_s, "UptimeGPUsMemoryPeakUsage": memory})
            self.ads[tag].update(CronAd(tag, ad, whose), at)
        return list(self.ads.values())


def test_a_job_is_charged_for_whole_reports_after_the_first_that_came_while_it_ran() -> None:
    monitor = Monitor()
    usage = JobUsage(monitor.report(10, a=(9.0, 900), b=(9.0, 900)))  # before it started
    assert not usage.look(monitor.report(10), BOTH)
    assert usage.attributes() == {}
    assert usage.look(monitor.report(20, a=(5.0, 100), b=(5.0, 50)), BOTH)
    assert usage.attributes() == {"GPUsMemoryUsage": 100}
    usage.look(monitor.report(30, a=(10.0, 80), b=(2.5, 300)), BOTH)
    assert usage.attributes() == {"GPUsMemoryUsage": 300, "GPUsAverageUsage": 1.25}
    usage.look(monitor.report(40, a=(0.0, 1), b=(0.0, 1)), BOTH)
    assert usage.attributes() == {"GPUsMemoryUsage": 300, "GPUsAverageUsage": 0.625}


def test_other_slots_devices_are_not_the_jobs() -> None:
    monitor = Monitor()
    usage = JobUsage([])
    for at in (10, 20):
        usage.look(monitor.report(at, a=(10.0, 700), b=(1.0, 70)), ONE)
    assert usage.attributes() == {"GPUsMemoryUsage": 70, "GPUsAverageUsage": 0.1}
