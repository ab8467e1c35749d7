"""What a job has used of the resources that a monitor watches: GPUsAverageUsage, GPUsMemoryUsage.

A report is about the time since the one before, so a job is charged from the first report after its start on, for whole
reports only: what is shown is exact for the time that it is about. Of several devices the uses are added up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pool.classad import ClassAd
from pool.cron_jobs.jobs import Metric
from pool.cron_jobs.merge import Published, metric_resource


@dataclass
class _Device:
    """One of the monitor's ads: how many reports of it were seen, and what they came to for this job."""

    samples: int
    began_at: float = 0.0
    until: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)


class JobUsage:
    """One job's use. `begun` are all ads of monitors as they are when it starts."""

    def __init__(self, begun: Iterable[Published]) -> None:
        self._devices = {_key(one): _Device(one.samples) for one in begun if one.job.metrics}

    def look(self, published: Iterable[Published], slot: ClassAd) -> bool:
        """Take the reports that are new and about the slot's own devices; whether there were any."""
        news = False
        for one in published:
            if one.job.metrics and one.belongs_to(slot):
                device = self._devices.setdefault(_key(one), _Device(0))
                if one.samples > device.samples:
                    device.samples, news = one.samples, True
                    _count(device, one)
        return news

    def attributes(self) -> dict[str, float]:
        """What is known; nothing before the first report, and averages after the second."""
        sums: dict[str, float] = {}
        shown: dict[str, float] = {}
        for device in self._devices.values():
            for name, used_s in device.sums.items():
                if device.until > device.began_at:
                    sums[name] = sums.get(name, 0.0) + used_s / (device.until - device.began_at)
            for name, peak in device.peaks.items():
                shown[f"{name}Usage"] = max(peak, shown.get(f"{name}Usage", 0.0))
        return {**shown, **{f"{name}AverageUsage": share for name, share in sums.items()}}


def _key(one: Published) -> tuple[str, str]:
    return one.job.name, one.tag


def _count(device: _Device, one: Published) -> None:
    """Add one report. The first begins the job's time: it is about the time before as well."""
    first = not device.began_at
    device.until = one.sampled_at
    if first:
        device.began_at = one.sampled_at
    for name, _ in one.sample.items():
        metric, figure = one.job.metrics.get(name.lower()), one.sample.eval_float(name)
        if metric is None or figure is None:
            continue
        about = metric_resource(name)
        if metric is Metric.PEAK:
            device.peaks[about] = max(figure, device.peaks.get(about, 0.0))
        elif not first:
            device.sums[about] = device.sums.get(about, 0.0) + figure
