"""condor_gpu_utilization: what devices have been used since the last report, as ads for the startd's monitor of GPUs.

A sample says which share of the time since the one before it the device was busy; shares become seconds, because
seconds can be added up. Each report is one ad for each device, for the slots that have the device, and is about the
time since the last one only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

MIB: Final = 1024 * 1024
MICROSECONDS: Final = 1_000_000
REPORT_S: Final = 10.0
SAMPLES_PER_S: Final = 6
"""The driver takes no more, so a buffer of n samples lasts n sixths of a second at the least."""
LOOKS_PER_BUFFER: Final = 3


@dataclass(frozen=True, order=True)
class DeviceSample:
    """The share of the time, in per cent, for which a device was busy up to a time in microseconds."""

    at: int
    percent: int


class DeviceSource(Protocol):
    """A device that can be asked how busy it was."""

    @property
    def index(self) -> int: ...
    @property
    def uuid(self) -> str: ...
    @property
    def samples_max(self) -> int: ...
    def samples(self, since: int) -> list[DeviceSample]: ...
    def memory_used(self) -> int: ...


@dataclass
class DeviceUtilization:
    """One device's use since the last report."""

    source: DeviceSource
    last: int = 0
    busy_us: float = 0.0
    memory_peak: int = field(default=0)

    def look(self) -> None:
        """Take what is new."""
        self.add(self.source.samples(self.last))
        self.memory_peak = max(self.memory_peak, self.source.memory_used())

    def add(self, samples: Iterable[DeviceSample]) -> None:
        """Count samples, which need not be in order; the first of all only tells where time begins."""
        for one in sorted(samples):
            if self.last:
                self.busy_us += max(0, one.at - self.last) * one.percent / 100
            self.last = max(self.last, one.at)

    def report(self) -> str:
        """The ad, after which counting begins anew."""
        text = report(self.source.index, self.source.uuid, self.busy_us / MICROSECONDS, self.memory_peak)
        self.forget()
        return text

    def forget(self) -> None:
        """Count from here."""
        self.busy_us, self.memory_peak = 0.0, 0


def report(index: int, uuid: str, busy_s: float, memory: int) -> str:
    """One device's ad: whose it is, and what was used of it."""
    # By all three names, for slots know a device by any of them (GPU_DISCOVERY_EXTRA).
    names = [f"CUDA{index}", *([f"GPU-{uuid[:8]}", f"GPU-{uuid}"] if uuid else [])]
    whose = " || ".join(f'StringListMember("{name}", AssignedGPUs)' for name in names)
    return (
        f"SlotMergeConstraint = {whose}\n"
        f"UptimeGPUsSeconds = {busy_s:.6f}\n"
        f"UptimeGPUsMemoryPeakUsage = {-(-memory // MIB)}\n"
        f"- GPUsSlot{index}\n"
    )


def monitor(
    sources: Sequence[DeviceSource],
    *,
    write: Callable[[str], None],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Watch the devices for ever, and report every ten seconds. What was measured before is none of ours."""
    uses = [DeviceUtilization(source) for source in sources]
    for use in uses:
        use.look()
        use.forget()
    # A third of what the smallest buffer lasts: none is overwritten before it is read, also when this process is late.
    pause_s = min(source.samples_max for source in sources) / SAMPLES_PER_S / LOOKS_PER_BUFFER
    reported_at = now()
    while True:
        sleep(pause_s)
        for use in uses:
            use.look()
        if now() - reported_at >= REPORT_S:
            for use in uses:
                write(use.report())
            reported_at = now()
