"""GPUs of makers other than NVIDIA in a real pool: found by its startd, and given to jobs.

The vendors' libraries are stand-ins that the startd's discovery loads as it would load theirs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.classad import expr
from pool.gpus.nvml import nvidia_devices
from tests.fakes.gpu_libraries import HIP, NVML, OPENCL, build
from tests.whole.real_pool import real_pool

UUID = r'"\x12\x34\x56\x78\x9a\xbc\xde\xf0\x01\x23\x45\x67\x89\xab\xcd\x10"'
JOB = """executable = /bin/sh
arguments = "-c 'echo $_CONDOR_AssignedGPUs $GPU_DEVICE_ORDINAL $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES'"
output = {directory}/out
request_gpus = 1
require_gpus = {requirement}
queue
"""

pytestmark = pytest.mark.skipif(bool(nvidia_devices()), reason="NVIDIA's devices come first here")


@pytest.mark.parametrize(
    ("library", "source", "requirement", "gets", "description"),
    [
        ("libOpenCL.so", OPENCL, "OpenCLVersion >= 3.0", "OCL0 0 OCL0 none", ("OpenCLVersion", 3.0)),
        (
            "libamdhip64.so.7",
            HIP,
            "Rocm == 6 && WarpSize == 64",
            "GPU-12345678 GPU-12345678" + " GPU-12345678-9abc-def0-0123-456789abcd10" * 2,
            ("AmdDriverVersion", "6.3.42131"),
        ),
    ],
    ids=["opencl", "hip"],
)
def test_a_job_gets_a_device_of_the_machine(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    source: str,
    requirement: str,
    gets: str,
    description: tuple[str, object],
) -> None:
    build(tmp_path, library, source, DEVICES=2, UUID=UUID)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with real_pool(user=None) as pool:
        (slot,) = pool.until(pool.slots, "the machine's slot")
        assert slot.eval_int("TotalGPUs") == 2
        assert expr(f"AvailableGPUs[0].{description[0]}").eval(slot) == description[1]
        cluster = pool.submit(JOB.format(directory=pool.directory, requirement=requirement))
        (job,) = pool.until_done(cluster)
        assert job.eval_int("ExitCode") == 0
        assert (pool.directory / "out").read_text().strip() == gets


def test_a_job_gets_an_instance_of_a_device_that_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, "libnvidia-ml.so.1", NVML, WHOLE=1)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with real_pool(user=None) as pool:
        (slot,) = pool.until(pool.slots, "the machine's slot")
        assert slot.eval_int("TotalGPUs") == 3
        cluster = pool.submit(JOB.format(directory=pool.directory, requirement="GlobalMemoryMb < 22000"))
        (job,) = pool.until_done(cluster)
        assert job.eval_int("ExitCode") == 0
        instance = "MIG-00000002-89ab-cdef-0123-456789abcdef"
        assert (pool.directory / "out").read_text().split() == [instance] * 4


def test_a_library_that_crashes_costs_the_gpus_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, "libamdhip64.so.7", HIP, DEVICES=2, UUID=UUID, CRASHES=1)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with real_pool(user=None) as pool:
        (slot,) = pool.until(pool.slots, "the machine's slot")
        assert not slot.eval_int("TotalGPUs")
        assert "condor_gpu_discovery ended with signal 11" in (slot.eval_str("condor_gpu_discovery_error") or "")
        assert pool.pid_of("startd")
