"""condor_gpu_discovery with NVML's, HIP's and OpenCL's libraries: the tool as a process, and stand-ins that it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pool.gpus.hip import written_uuid
from pool.gpus.nvml import nvidia_devices
from pool.gpus.vendors import may_be_there
from pool.slots.provision.inventory import read_inventory
from tests.fakes.gpu_libraries import HIP, NVML, OPENCL, build

BYTES = r'"\x12\x34\x56\x78\x9a\xbc\xde\xf0\x01\x23\x45\x67\x89\xab\xcd\x10"'
DIGITS = '"b0c0cb9338716a18"'
TOOL = Path(sys.executable).with_name("condor_gpu_discovery")
NO_NVIDIA = pytest.mark.skipif(bool(nvidia_devices()), reason="NVIDIA's devices come first here")


@pytest.fixture
def hip(tmp_path: Path) -> Path:
    build(tmp_path, "libamdhip64.so.6", HIP, DEVICES=2, UUID=BYTES)
    return tmp_path


@pytest.fixture
def opencl(tmp_path: Path) -> Path:
    build(tmp_path, "libOpenCL.so", OPENCL, DEVICES=2)
    return tmp_path


def told(libraries: Path, options: str) -> list[str]:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    found = subprocess.run([TOOL, *options.split()], env=environ, capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


WHOLE_UUID, PARTS = "00000000-89ab-cdef-0123-456789abcdef", "MIG-0000000{}-89ab-cdef-0123-456789abcdef"


def test_nvidias_devices_and_the_instances_of_one_that_is_divided(tmp_path: Path) -> None:
    build(tmp_path, "libnvidia-ml.so.1", NVML, WHOLE=1)
    first, second = PARTS.format(2), PARTS.format(3)
    assert told(tmp_path, "-properties -extra -dynamic -uuid") == [
        f'DetectedGPUs="GPU-{WHOLE_UUID}, {first}, {second}"',
        'Common=[ CoresPerCU=128; DriverVersion=12.8; ECCEnabled=true; MaxSupportedVersion=12080; NvidiaDriver="570.86.15"; ]',
        f'GPU_{WHOLE_UUID.replace("-", "_")}=[ id="GPU-{WHOLE_UUID}"; Capability=8.9; ClockMhz=2040.00; ComputeUnits=58;'
        f' DeviceName="NVIDIA L4"; DevicePciBusId="0000:17:00.0"; DeviceUuid="{WHOLE_UUID}"; DieTempC=41;'
        " EccErrorsDoubleBit=0; EccErrorsSingleBit=5; GlobalMemoryMb=23034; PowerUsage_mw=16720; ]",
        *(
            f'{one.replace("-", "_")}=[ id="{one}"; Capability=9.0; ClockMhz=1755.00; DevicePciBusId="0000:18:00.0";'
            f' DeviceUuid="{one}"; GlobalMemoryMb=20096; ]'
            for one in (first, second)
        ),
    ]
    assert told(tmp_path, "-by-index") == [f'DetectedGPUs="CUDA0, {first}, {second}"']


HIP_COMMON = (
    'Common=[ AmdDriverVersion="6.3.42131"; Capability=9.4; {}DeviceName="AMD Instinct MI300A"; ECCEnabled=true; '
    "GlobalMemoryMb=131072; Rocm=6; WarpSize=64; xNACK=1; ]"
)
FIRST, SECOND = "12345678-9abc-def0-0123-456789abcd10", "13345678-9abc-def0-0123-456789abcd10"


def test_hip_devices_are_known_by_their_uuids(hip: Path) -> None:
    assert told(hip, "-hip -uuid -properties -extra") == [
        f'DetectedGPUs="GPU-{FIRST}, GPU-{SECOND}"',
        HIP_COMMON.format("ClockMhz=2100.00; ComputeUnits=228; "),
        f'GPU_{FIRST.replace("-", "_")}=[ id="GPU-{FIRST}"; DevicePciBusId="0000:2A:00.0"; DeviceUuid="{FIRST}"; ]',
        f'GPU_{SECOND.replace("-", "_")}=[ id="GPU-{SECOND}"; DevicePciBusId="0001:2A:00.0"; DeviceUuid="{SECOND}"; ]',
    ]
    assert told(hip, "-hip -device 1") == ['DetectedGPUs="GPU-13345678"']
    assert told(hip, "-hip -by-index") == ['DetectedGPUs="GPU0, GPU1"']
    assert told(hip, "-hip -by-index -prefix HIP -divide 2 -packed") == ['DetectedGPUs="HIP0, HIP0, HIP1, HIP1"']
    assert told(hip, "-opencl") == ["DetectedGPUs=0"]
    if not nvidia_devices():
        assert told(hip, "-cuda -opencl") == ["DetectedGPUs=0"]


@NO_NVIDIA
def test_without_an_option_the_first_kind_that_is_there_counts(hip: Path) -> None:
    build(hip, "libOpenCL.so", OPENCL, DEVICES=3)
    assert told(hip, "-short-uuid") == ['DetectedGPUs="GPU-12345678, GPU-13345678"']
    assert told(hip, "-opencl -hip -by-index") == ['DetectedGPUs="GPU0, GPU1"']
    assert told(hip, "-opencl") == told(hip, "-opencl -cuda") == ['DetectedGPUs="OCL0, OCL1, OCL2"']
    assert told(hip, "-cuda") == ["DetectedGPUs=0"]
    build(hip, "libamdhip64.so.6", HIP, DEVICES=0, UUID=BYTES)
    assert told(hip, "") == told(hip, "-hip -opencl") == ['DetectedGPUs="OCL0, OCL1, OCL2"']
    assert told(hip, "-hip") == ["DetectedGPUs=0"]


def test_what_rocm_6_gives_for_a_uuid_is_none_until_it_is_completed(tmp_path: Path) -> None:
    build(tmp_path, "libamdhip64.so", HIP, DEVICES=2, UUID=DIGITS)
    assert told(tmp_path, "-hip -properties")[0] == 'DetectedGPUs="GPU0, GPU1"'
    whole = "b0ff74a0-0000-1000-80c0-cb9338716a18"
    assert told(tmp_path, "-hip -uuid -device 0 -fix-hip-guid 74a0") == [f'DetectedGPUs="GPU-{whole}"']
    assert written_uuid(bytes(16)) == written_uuid(b"\xff" * 16) == ""


def test_opencl_devices_are_known_by_their_numbers(opencl: Path) -> None:
    common = r'DeviceName="Intel(R) Arc(TM) \"A750\""; ECCEnabled=false; GlobalMemoryMb=8192; OpenCLVersion=3.0; '
    assert told(opencl, "-opencl -uuid -extra") == [
        'DetectedGPUs="OCL0, OCL1"',
        f"Common=[ ClockMhz=1455; ComputeUnits=32; {common}]",
        'OCL0=[ id="OCL0"; ]',
        'OCL1=[ id="OCL1"; ]',
    ]
    assert told(opencl, "-opencl -properties -not-nested")[1].startswith("OCLDeviceName=")
    assert told(opencl, "-opencl -device OCL1 -dynamic")[0] == 'DetectedGPUs="OCL1"'


def test_what_is_printed_can_be_read_as_an_inventory(opencl: Path) -> None:
    found = read_inventory("GPUs", "\n".join(told(opencl, "-opencl -properties -extra")))
    assert found.ids == ("OCL0", "OCL1")
    assert found.properties["OCL1"].eval_float("OpenCLVersion") == 3.0


def test_a_daemon_knows_without_loading_whether_there_is_something_to_ask(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(b"glibc-ld.so.cache1.1\0libz.so\0/lib/libz.so\0")
    path = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}
    assert not may_be_there({}, str(cache))
    assert not may_be_there(path, str(cache))
    (tmp_path / "libamdhip64.so.7").touch()
    assert may_be_there(path, str(cache))
    cache.write_bytes(cache.read_bytes() + b"libOpenCL.so\0/lib/libOpenCL.so\0")
    assert may_be_there({}, str(cache))
    assert may_be_there({}, str(tmp_path / "gone"))
