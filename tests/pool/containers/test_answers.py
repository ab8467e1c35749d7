"""What engines print, and what is made of it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from pool.base.errors import ConfigError
from pool.containers import probe_image
from pool.containers.answers import Inspected, exit_of, host_ports, inspected, judged, runs_on
from pool.containers.devices import CONTROL, device_numbers, gpu_devices
from pool.containers.engine import EngineError, extra_words, program_words, slot_facts, version_of
from pool.execute.exit import Exited, Hold


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (0, Exited(code=0)),
        (3, Exited(code=3)),
        (128, Exited(code=128)),
        (137, Exited(signal=9)),
        (143, Exited(signal=15)),
        (255, Exited(code=255)),
    ],
)
def test_exit_codes_above_128_are_signals_where_there_is_such_a_signal(code: int, end: Exited) -> None:
    assert exit_of(code) == end


def test_the_state_of_a_container() -> None:
    state = inspected(
        '{"Status":"exited","Running":false,"Paused":false,"OOMKilled":true,"Pid":0,"ExitCode":137,"Error":"",'
        '"StartedAt":"2026-11-22T08:24:58.931222304Z"}'
    )
    assert state == Inspected(began=True, exit_code=137, out_of_memory=True)
    assert not inspected('{"Running":false,"StartedAt":"0001-01-01T00:00:00Z"}').began
    for text in ("", "[]", "{}", "Error: no such object"):
        with pytest.raises(EngineError):
            inspected(text)


def test_ends_that_are_holds() -> None:
    memory = judged(Inspected(out_of_memory=True), 512)
    assert isinstance(memory, Hold)
    assert (memory.reason, memory.code, memory.subcode) == ("Docker job has gone over memory limit of 512 Mb", 34, 102)
    error = judged(Inspected(error="OCI runtime create failed"), 512)
    assert isinstance(error, Hold)
    assert (error.reason, error.code) == ("Error running docker job: OCI runtime create failed", 6)


def test_ports() -> None:
    printed = '{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"32768"},{"HostIp":"::","HostPort":"32768"}],"9/tcp":null}'
    assert host_ports(printed, {"web": 80, "discard": 9, "other": 1}) == {"web_HostPort": 32768}
    for nothing in ("null", "", "{}"):
        assert host_ports(nothing, {"web": 80}) == {}


@pytest.mark.parametrize("text", ["Docker version 28.2.2, build e6534b4\n", "podman version 4.3.1\n"])
def test_versions(text: str) -> None:
    assert version_of(text).text == text.strip()


@pytest.mark.parametrize("text", ["", "Docker version 1\nJansens\n", "Syntax: docker [OPTIONS]\n"])
def test_what_is_no_engine(text: str) -> None:
    with pytest.raises(EngineError, match="no container engine"):
        version_of(text)


def test_the_program_may_be_run_by_sudo() -> None:
    assert program_words("/usr/bin/docker") == ["/usr/bin/docker"]
    assert program_words("sudo /usr/bin/docker") == ["/usr/bin/sudo", "/usr/bin/docker"]
    assert program_words("") == []
    with pytest.raises(ConfigError):
        program_words("sudo")
    assert extra_words("") == []


def test_volumes_and_networks_are_advertised() -> None:
    assert slot_facts(["SOME_DIR"], "a, b") == {"HasDockerVolumeSOME_DIR": True, "DockerNetworks": "a, b"}
    assert slot_facts([], "") == {}


@pytest.mark.parametrize(
    ("architecture", "machine", "runs"),
    [
        ("amd64\n", "x86_64", True),
        ("arm64", "x86_64", False),
        ("", "x86_64", True),
        ("arm64", "aarch64", True),
        ("arm", "aarch64", True),
        ("amd64", "aarch64", False),
        ("amd64", "riscv64", True),
    ],
)
def test_architectures(architecture: str, machine: str, runs: bool) -> None:
    assert runs_on(architecture, machine) is runs


INFORMATION = "Model: \t\t NVIDIA\nGPU UUID: \t GPU-{0}\nDevice Minor: \t {1}\n"


def test_gpus_become_devices() -> None:
    numbers = device_numbers([INFORMATION.format("aaaa-1", 0), INFORMATION.format("bbbb-2", 1), "nothing"])
    control = ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    assert gpu_devices("CUDA0,CUDA2", {}) == [*control, "/dev/nvidia0", "/dev/nvidia2"]
    assert gpu_devices("GPU-bbbb", numbers) == [*control, "/dev/nvidia1"]
    assert gpu_devices("GPU-bbbb", numbers, everything=True) == [*control, "/dev/nvidia0", "/dev/nvidia1"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_test_programs_do_what_they_are_for(machine: str, tmp_path: Path) -> None:
    """On a machine of the kind, or as QEMU's user mode runs its programs elsewhere."""
    made, of_namespace = probe_image.program(machine), probe_image.namespace_program(machine)
    assert made is not None
    assert of_namespace is not None
    emulator = [] if machine == platform.machine() else [f"qemu-{machine}-static"]
    if emulator and shutil.which(emulator[0]) is None:
        pytest.skip(f"takes a machine of the kind {machine}, or {emulator[0]}")
    for name, content in (("exit", made), ("namespace", of_namespace)):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
    ends = [
        subprocess.run([*emulator, tmp_path / name], capture_output=True, text=True, check=False)
        for name in ("exit", "namespace")
    ]
    assert [end.returncode for end in ends] == [probe_image.STATUS] * 2
    assert [end.stdout for end in ends] == ["", os.readlink("/proc/self/ns/user")]


def test_there_is_no_image_for_other_machines() -> None:
    assert probe_image.archive("vax") is None
    assert probe_image.namespace_program("vax") is None


def test_all_gpus_of_the_machine_are_all_whatever_the_slots_are_called() -> None:
    numbers = {"GPU-aa": 0, "GPU-bb": 1}
    for assigned in ("CUDA0", "GPU-bb", "CUDA1, GPU-aa"):
        assert set(gpu_devices(assigned, numbers, everything=True)) == {*CONTROL, "/dev/nvidia0", "/dev/nvidia1"}
    assert gpu_devices("", numbers, everything=True) == list(CONTROL)
