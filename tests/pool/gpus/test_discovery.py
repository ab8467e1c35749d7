"""condor_gpu_discovery: every option on devices that are simulated, and the real ones where there are some."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pynvml
import pytest

from pool.base.errors import UserError
from pool.gpus.device import Device
from pool.gpus.discover import GpuLibraries, discover, parse_options
from pool.gpus.driver import LIBRARY
from pool.gpus.nvml import nvidia_devices
from pool.slots.provision.inventory import read_inventory

CASES = Path(__file__).parents[2] / "cases/gpus/discovery.cases"


def cases() -> list[tuple[str, list[str]]]:
    blocks = CASES.read_text().split("$ condor_gpu_discovery")[1:]
    return [(block.partition("\n")[0].strip(), block.partition("\n")[2].split()) for block in blocks]


def answer(options: str, devices: list[Device] | None = None, environ: dict[str, str] | None = None) -> list[str]:
    hardware = GpuLibraries(lambda: devices or [], lambda say, fix: None, lambda say: None)
    return discover(parse_options(options.split()), hardware, environ or {})


@pytest.mark.parametrize(("options", "words"), cases(), ids=[options or "plain" for options, _ in cases()])
def test_every_option_prints_what_htcondor_prints(options: str, words: list[str]) -> None:
    assert " ".join(answer(options)).split() == words


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("-bogus", "option -bogus is not valid"),
        ("properties", "option properties is not valid"),
        ("-simulate:99", "range of 0-8"),
        ("-simulate:x", "range of 0-8"),
        ("-simulate:²", "range of 0-8"),
        ("-simulate:3,²", "cannot simulate ² devices"),
        ("-simulate:3,many", "cannot simulate many devices"),
        ("-device", "requires an argument"),
        ("-repeat 99999", "shared by 99999"),
        ("-tag:x", "not valid"),
        ("-fix-hip-guid", "requires a hex argument"),
        ("-fix-hip-guid 74xy", "requires a hex argument"),
        ("-opencl -simulate:1", "cannot be simulated"),
    ],
)
def test_wrong_options_are_named(options: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        answer(options)


def test_without_a_driver_there_are_no_gpus() -> None:
    assert answer("-properties -extra") == ["DetectedGPUs=0"]
    assert answer("-hip") == answer("-cuda -opencl") == ["DetectedGPUs=0"]


def test_the_environment_limits_only_when_it_is_asked() -> None:
    devices = [Device(0, "aaaaaaaa-1", {}), Device(1, "bbbbbbbb-2", {})]
    visible = {"CUDA_VISIBLE_DEVICES": "GPU-bbbbbbbb-2"}
    assert answer("", devices, visible) == ['DetectedGPUs="GPU-aaaaaaaa, GPU-bbbbbbbb"']
    assert answer("-dirty-environment", devices, visible) == ['DetectedGPUs="GPU-bbbbbbbb"']


@pytest.mark.parametrize("options", ["", "-extra -dynamic", "-not-nested", "-divide 3 -packed", "-by-index", "-mixed"])
@pytest.mark.parametrize("devices", ["3,2", "8", "6,2", "0,1"])
def test_what_is_printed_can_be_read_as_an_inventory(options: str, devices: str) -> None:
    lines = answer(f"-properties -simulate:{devices} {options}")
    found = read_inventory("GPUs", "\n".join(lines))
    assert found.ids
    if "-not-nested" not in options:
        assert set(found.properties) == set(found.ids)
        assert all(isinstance(ad.eval("Capability"), float) for ad in found.properties.values())


def test_a_real_device_says_what_it_is() -> None:
    devices = nvidia_devices()
    if not devices:
        assert answer("-properties") == ["DetectedGPUs=0"]
        pytest.skip(f"no NVIDIA driver here ({LIBRARY} cannot be loaded)")
    for device in devices:
        assert len(device.uuid) >= 36
        assert device.properties["GlobalMemoryMb"]
    assert read_inventory("GPUs", "\n".join(answer("-properties -extra", devices))).ids


class Driver:
    """A management library with one device that knows little."""

    def __getattr__(self, name: str) -> object:
        def nvmlInitWithFlags(flags: int) -> int:
            return 0

        def nvmlShutdown() -> int:
            return 0

        def nvmlDeviceGetCount_v2(count: object) -> int:
            ctypes.cast(count, ctypes.POINTER(ctypes.c_uint))[0] = 1  # type: ignore[arg-type]
            return 0

        def nvmlDeviceGetHandleByIndex_v2(index: object, handle: object) -> int:
            return 0

        def nvmlDeviceGetName(handle: object, buffer: ctypes.Array[ctypes.c_char], size: object) -> int:
            buffer.value = b"Old Card"
            return 0

        def nvmlDeviceGetUUID(handle: object, buffer: ctypes.Array[ctypes.c_char], size: object) -> int:
            buffer.value = b"GPU-01234567-89ab-cdef-0123-456789abcdef"
            return 0

        known = locals()
        if name in known:
            return known[name]
        return lambda *_: 3  # not supported


def test_what_a_driver_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlLib", Driver())
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    (device,) = nvidia_devices()
    assert device.uuid == "01234567-89ab-cdef-0123-456789abcdef"
    assert device.properties == {"DeviceName": "Old Card", "DeviceUuid": device.uuid}
    assert answer("", [device]) == ['DetectedGPUs="GPU-01234567"']
