"""What a job uses: samples of its processes become the attributes that policies and people read.

Sizes in ads are KiB (ImageSize, ResidentSetSize, DiskUsage) and MiB (MemoryUsage), and are the largest seen; processor
times are seconds. What a job used up is never taken back: a sample that lost sight of a process does not lower it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pool.classad import ClassAd, Expr, expr

RUSAGE_BLOCK: Final = 512
"""How many bytes the kernel calls a block where it counts what a process reads and writes."""


@dataclass(frozen=True)
class DiskTraffic:
    """What was read from disks and written to them. Bytes; how often, where that is counted."""

    read: int = 0
    written: int = 0
    reads: int | None = None
    writes: int | None = None

    def or_more(self, other: DiskTraffic) -> DiskTraffic:
        """The larger figures of two looks, neither of which may have seen all."""
        return DiskTraffic(
            max(self.read, other.read),
            max(self.written, other.written),
            _larger(self.reads, other.reads),
            _larger(self.writes, other.writes),
        )

    def ad(self) -> ClassAd:
        """The attributes of the job's ad."""
        ad = ClassAd({"BlockReadKbytes": self.read // 1024, "BlockWriteKbytes": self.written // 1024})
        for name, count in (("BlockReads", self.reads), ("BlockWrites", self.writes)):
            if count is not None:
                ad[name] = count
        return ad


def _larger(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


@dataclass(frozen=True)
class UsageSample:
    """One look at all processes of a job. `image` and `resident` in bytes; None where it could not be seen."""

    image: int = 0
    resident: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    processes: int = 0
    traffic: DiskTraffic = DiskTraffic()


@dataclass(frozen=True)
class JobUsage:
    """The largest sizes and the times of a job so far. Bytes and seconds."""

    image: int = 0
    resident: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    disk: int = 0
    disk_now: int = 0
    files: int = 0
    """What is in the sandbox now."""
    processes: int = 0
    processes_seen: bool = False
    """Whether there has been anything to look at."""
    traffic: DiskTraffic = DiskTraffic()
    memory_metric: Expr | None = None
    """What MemoryUsage is, where it is not the largest resident size."""

    def begun(self) -> JobUsage:
        """The program runs."""
        return replace(self, processes_seen=True)

    def seen(self, sample: UsageSample) -> JobUsage:
        """The usage after one more look."""
        return replace(
            self,
            image=max(self.image, sample.image, sample.resident),
            resident=max(self.resident, sample.resident),
            user_s=max(self.user_s, sample.user_s),
            system_s=max(self.system_s, sample.system_s),
            processes=sample.processes,
            traffic=self.traffic.or_more(sample.traffic),
        )

    def measured(self, used: int, files: int) -> JobUsage:
        """The usage when the sandbox holds `used` bytes in so many files."""
        return replace(self.with_disk(used), files=files, disk_now=used)

    def with_disk(self, used: int) -> JobUsage:
        """The usage when the sandbox holds `used` bytes."""
        return replace(self, disk=max(self.disk, used))

    @property
    def resident_mb(self) -> int:
        """The largest resident size, in MiB, rounded up."""
        return _up(self.resident, 1 << 20)

    def ad(self) -> ClassAd:
        """The attributes of the job's ad."""
        ad = ClassAd(
            {
                "RemoteUserCpu": round(self.user_s, 3),
                "RemoteSysCpu": round(self.system_s, 3),
                "NumPids": self.processes,
            }
        )
        if self.image:
            ad["ImageSize"] = _up(self.image, 1024)
        if self.resident:
            ad["ResidentSetSize"] = _up(self.resident, 1024)
            ad["MemoryUsage"] = _MEMORY_USAGE if self.memory_metric is None else self.memory_metric
        if self.disk:
            ad["DiskUsage"] = _up(self.disk, 1024)
            ad["ScratchDirFileCount"] = self.files
        ad.update(self.traffic.ad())
        return ad


_MEMORY_USAGE = expr("((ResidentSetSize + 1023) / 1024)")


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit)
