"""Where the ads of cron jobs go: which slots show them, and how a monitor's figures add up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pool.classad import ClassAd
from pool.classad.eval.budget import Overruns
from pool.cron_jobs.jobs import CronJob, Metric
from pool.cron_jobs.output import CronAd

_METRIC = re.compile(r"Uptime(\w+?)(?:Seconds|PeakUsage)\Z", re.IGNORECASE)


@dataclass
class Published:
    """What is current of one job's output under one name."""

    job: CronJob
    tag: str
    ad: ClassAd
    controls: ClassAd
    sample: ClassAd = field(default_factory=ClassAd)
    """What it said last, before it was added to what it had said; of monitors only."""
    samples: int = 0
    sampled_at: float = 0.0
    dear: bool = False
    """Whether SlotMergeConstraint costs too much, so that it is asked no more until the program says something else."""

    def update(self, said: CronAd, now: float) -> bool:
        """Take a newer ad of the same name; whether anything but its time is different."""
        stamp = f"{self.job.prefix}LastUpdate"
        fresh = said.ad.copy()
        if self.job.metrics:
            self.sample, self.samples, self.sampled_at = said.ad.copy(), self.samples + 1, now
            _add_up(self.job, self.ad, fresh)
        known = self.ad.copy()
        known.pop(stamp, None)
        changed = known != fresh or self.controls != said.controls
        fresh[stamp] = int(now)
        self.ad, self.controls = fresh, said.controls
        self.dear = self.dear and not changed
        return changed

    def belongs_to(self, slot: ClassAd) -> bool:
        """Whether the slot shows this ad: by the first attribute that says where it goes, else always."""
        if self.job.slots and slot.eval_int("SlotID") not in self.job.slots:
            return False
        controls = self.controls
        if "SlotMergeConstraint" in controls:
            if self.dear:
                return False
            scope = self.ad.copy()
            scope["SlotMergeConstraint"] = controls["SlotMergeConstraint"]
            with Overruns() as costs:
                belongs = scope.eval_bool("SlotMergeConstraint", False, slot)
            self.dear = bool(costs.count)
            return belongs
        name = controls.eval_str("SlotName") or controls.eval_str("Name")
        if name:
            return (slot.eval_str("Name") or "").lower().startswith(name.lower())
        for ours, theirs in (("SlotTypeId", "SlotTypeID"), ("SlotId", "SlotID")):
            wanted = controls.eval_int(ours)
            if wanted is not None:
                return wanted == slot.eval_int(theirs)
        return True


def merge(published: Iterable[Published], slot: ClassAd, *, age_s: float = 0.0, raw: bool = False) -> None:
    """Put what belongs to the slot into its ad; several resources of a monitor add up.

    What a monitor has added up since the daemon began, `age_s` ago, is shown as a share of that time; `raw`: and as
    it is (ADVERTISE_CMR_UPTIME_SECONDS).
    """
    seen: ClassAd | None = None
    for one in published:
        if not one.belongs_to(slot):
            continue
        if one.job.metrics:
            seen = ClassAd() if seen is None else seen
            fresh = one.ad.copy()
            _add_up(one.job, seen, fresh)
            seen.update(fresh)
            continue
        for name, value in one.ad.items():
            slot[name] = value
    if seen is not None:
        for name, value in seen.items():
            for shown, figure in _of_device(name, value, age_s, raw):
                slot[shown] = figure


def _of_device(name: str, value: object, age_s: float, raw: bool) -> Iterator[tuple[str, object]]:
    """The device's figures: UptimeGPUsSeconds as DeviceGPUsAverageUsage, UptimeGPUsMemoryPeakUsage as DeviceGPUs..."""
    if not (resource := metric_resource(name)):
        yield name, value
        return
    if name.lower().endswith("peakusage"):
        yield f"Device{resource}PeakUsage", value
        return
    if isinstance(value, int | float) and age_s > 0:
        yield f"Device{resource}AverageUsage", value / age_s
    if raw:
        yield name, value


def metric_resource(name: str) -> str:
    """What a monitor's attribute is about: GPUs of UptimeGPUsSeconds, GPUsMemory of UptimeGPUsMemoryPeakUsage."""
    found = _METRIC.match(name)
    return found[1] if found else ""


def _add_up(job: CronJob, before: ClassAd, now: ClassAd) -> None:
    """Let the metrics of `now` go on from those of `before`."""
    for name in list(now):
        metric = job.metrics.get(name.lower())
        old, new = before.eval_float(name), now.eval_float(name)
        if metric is None or old is None or new is None:
            continue
        now[name] = old + new if metric is Metric.SUM else max(old, new)
