"""How busy GPUs are, asked of a library that follows a script instead of a driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pynvml
import pytest

from pool.gpus.meter import DeviceMeter, GpuTrouble, meters, watch
from pool.gpus.utilization import DeviceSample, DeviceUtilization

UUID = "0b1c2d3e-aaaa-bbbb-cccc-0123456789ab"
MIB = 1 << 20


class Over(Exception):
    """The test has seen enough."""


@dataclass
class FakeNvml:
    """The functions of NVML that are used, with their pointers, for devices with these shares of use and memory."""

    devices: int = 1
    percent: int = 50
    memory: int = 3 * MIB + 1
    buffer: int = 18
    answers: dict[str, int] = field(default_factory=dict)
    now_us: int = 1_000_000
    asked_from: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self.answers.get(name) or getattr(self, f"on_{name[4:]}", lambda *_: 0)(*arguments)

    def on_DeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = self.devices
        return 0

    def on_DeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        return 0

    def on_DeviceGetUUID(self, handle: Any, text: Any, size: Any) -> int:
        text.value = f"GPU-{UUID}".encode()
        return 0

    def on_DeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        memory._obj.used = self.memory
        return 0

    def on_DeviceGetSamples(self, handle: Any, kind: Any, since: Any, of: Any, count: Any, samples: Any) -> int:
        of._obj.value = 1
        if samples is None:
            count._obj.value = self.buffer
            return 0
        self.asked_from.append(since.value)
        times = [at for at in range(self.now_us - 2_000_000, self.now_us + 1, 250_000) if at > since.value]
        for place, at in enumerate(reversed(times)):  # out of order
            samples[place].timeStamp = at
            samples[place].sampleValue.uiVal = self.percent
        count._obj.value = len(times)
        return 0 if times else 6


@pytest.fixture(autouse=True)
def bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bindings as a new process has them, on a machine without a driver."""

    def nothing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", nothing)
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})


def found(library: FakeNvml) -> list[DeviceMeter]:
    pynvml.nvmlLib = library
    return meters()


def watched(library: FakeNvml | None, seconds: float) -> tuple[list[str], list[str]]:
    """What is printed and complained of in so many seconds of a clock that jumps."""
    printed: list[str] = []
    complaints: list[str] = []
    clock = 0.0

    def sleep(pause_s: float) -> None:
        nonlocal clock
        clock += pause_s
        if library is not None:
            library.now_us += int(pause_s * 1_000_000)
        if clock > seconds:
            raise Over

    pynvml.nvmlLib = library
    with pytest.raises(Over):
        watch(
            write=printed.append,
            complain=complaints.append,
            now=lambda: clock,
            sleep=sleep,
        )
    return printed, complaints


def test_a_report_every_ten_seconds_says_whose_the_device_is_and_what_was_used_since_the_last() -> None:
    library = FakeNvml()
    library.now_us = 10_000_000
    printed, complaints = watched(library, 25.0)
    assert complaints == []
    assert len(printed) == 2
    whose, busy, memory, end = printed[1].splitlines()
    members = ('"CUDA0"', '"GPU-0b1c2d3e"', f'"GPU-{UUID}"')
    assert whose == "SlotMergeConstraint = " + " || ".join(f"StringListMember({one}, AssignedGPUs)" for one in members)
    assert busy == "UptimeGPUsSeconds = 5.000000"
    assert memory == "UptimeGPUsMemoryPeakUsage = 4"
    assert end == "- GPUsSlot0"


def test_samples_are_seconds_whatever_their_order_and_the_first_only_begins() -> None:
    use = DeviceUtilization(found(FakeNvml())[0])
    use.add([DeviceSample(3_000_000, 100), DeviceSample(1_000_000, 100), DeviceSample(2_000_000, 50)])
    assert use.report().splitlines()[1] == "UptimeGPUsSeconds = 1.500000"
    use.add([DeviceSample(2_500_000, 100), DeviceSample(4_000_000, 25)])  # the older one is known already
    assert use.report().splitlines()[1] == "UptimeGPUsSeconds = 0.250000"


def test_a_device_that_has_nothing_new_is_idle_and_is_asked_for_what_is_newer() -> None:
    library = FakeNvml()
    (meter,) = found(library)
    assert meter.samples(0)
    assert meter.samples(library.now_us) == []
    assert library.asked_from == [0, library.now_us]


@pytest.mark.parametrize(
    ("library", "says"),
    [
        (None, "libnvidia-ml.so.1) is not there, aborting."),
        (FakeNvml(devices=0), "Found 0 devices that can be watched, aborting."),
        (FakeNvml(answers={"nvmlInitWithFlags": 9}), "nvmlInit() failed (9), aborting."),
        (FakeNvml(answers={"nvmlDeviceGetSamples": 3}), "nvmlDeviceGetSamples(0) failed"),
        (FakeNvml(answers={"nvmlDeviceGetMemoryInfo": 15}), "nvmlDeviceGetMemoryInfo(0) failed (15), aborting."),
    ],
)
def test_a_monitor_that_cannot_watch_says_why_and_stays(library: FakeNvml | None, says: str) -> None:
    printed, complaints = watched(library, 5000.0)
    assert printed == []
    assert says in complaints[0]
    assert complaints[0].endswith("Hanging to prevent process churn.\n")


def test_devices_that_this_process_may_not_look_at_are_left_out() -> None:
    with pytest.raises(GpuTrouble, match="Found 0 devices"):
        found(FakeNvml(answers={"nvmlDeviceGetHandleByIndex_v2": 4}))
