"""A machine tries whether it can run virtual machines: those of aarch64 too, which QEMU emulates anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.startd.machine.vm_trial import _networks, find_vm
from pool.classad import ClassAd
from pool.config import Config
from pool.execute import hypervisor as qemu
from tests.own_attributes import own

from .test_inventory import configured

ARM = "qemu-system-aarch64"
LINUX = os.environ.get("MINIPOOL_AARCH64_LINUX", "")
REAL = pytest.mark.skipif(
    shutil.which(ARM) is None or shutil.which("qemu-img") is None, reason=f"takes the programs {ARM} and qemu-img"
)


@pytest.fixture
def execute() -> Iterator[Path]:
    """Another account may read there, as in a real one."""
    with tempfile.TemporaryDirectory(prefix="minipool-vm-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


def knobs(execute: Path, **more: str) -> Config:
    own = {"VM_TYPE": "kvm", "VM_ACCELERATOR": "tcg", "EXECUTE": str(execute), "QEMU": ARM, **more}
    return configured(execute, *(f"{name} = {value}" for name, value in own.items()))


def test_no_guest_of_aarch64_starts_without_firmware(execute: Path) -> None:
    found = find_vm(knobs(execute, QEMU="/bin/true", QEMU_IMG="/bin/true", QEMU_FIRMWARE="/no/such"), "aarch64")
    assert (found.hypervisor, found.problem) == (None, "there is no QEMU_FIRMWARE = /no/such")


def test_other_kinds_of_machines_have_none(execute: Path) -> None:
    assert find_vm(knobs(execute), "riscv64").problem == (
        "virtual machines are there for x86_64 and aarch64 only, not for riscv64"
    )


def test_a_type_that_is_not_run_here_is_told(execute: Path) -> None:
    found = find_vm(knobs(execute, VM_TYPE="xen"))
    assert (found.hypervisor, found.problem) == (None, "VM_TYPE = xen: kvm is the only type that there is")
    assert find_vm(knobs(execute, VM_TYPE="")).problem == "", "none are wanted"


def test_without_a_type_there_is_no_network(execute: Path) -> None:
    assert _networks(knobs(execute, VM_NETWORKING_TYPE="nat"), "/no/such") == ((), [])
    given = {"VM_NETWORKING": "true", "VM_NETWORKING_TYPE": "nat", "NO_JOB_NETWORKING": "true"}
    assert _networks(knobs(execute, **given), "/no/such") == ((), [])
    networks, (remark,) = _networks(knobs(execute, VM_NETWORKING="true"), "/no/such")
    assert networks == ()
    assert "VM_NETWORKING_TYPE names no type" in remark


@REAL
def test_a_guest_of_aarch64_that_switches_itself_off_is_enough(execute: Path) -> None:
    firmware = execute / "uefi.fd"
    firmware.write_bytes(b"")
    found = find_vm(knobs(execute, QEMU_FIRMWARE=str(firmware)), "aarch64")
    assert found.problem == ""
    assert found.attributes()["VM_Platform"] == f"tcg virt qemu-{'.'.join(found.version.split('.')[:2])}"


@REAL
@pytest.mark.slow
@pytest.mark.skipif(
    not any(map(Path.exists, map(Path, qemu.FIRMWARE))), reason="takes UEFI for aarch64 (qemu-efi-aarch64)"
)
def test_the_firmware_of_a_guest_of_aarch64_looks_for_a_system_on_its_disk(execute: Path) -> None:
    found = find_vm(knobs(execute, VM_SOFT_SUSPEND="true"), "aarch64")
    assert found.hypervisor is not None
    (execute / "_condor_vm").mkdir()
    (execute / "a.img").write_bytes(b"\0" * (2 << 20))
    job = ClassAd({"JobUniverse": 13, **own(JobVMMemory=256, VMPARAM_vm_Disk="a.img:vda:w")})
    words = qemu.words(job, found.hypervisor)
    with subprocess.Popen(words, cwd=execute, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as guest:
        assert guest.stdout is not None
        said = b""
        while b"BdsDxe" not in said and (line := guest.stdout.readline()):  # a pipe that ends is a guest that ended
            said += line
        guest.kill()
    assert b"PciRoot" in said


HAS_USER = "#!/bin/sh\necho user\n"


@pytest.mark.parametrize(
    ("listed", "default", "found"),
    [
        ("nat, bridge, user", "", ("user", "nat")),
        ("nat, bridge", "", ("nat",)),
        ("nat, user", "nat", ("nat", "user")),
        ("bridge", "", ()),
    ],
)
def test_a_job_that_names_no_network_gets_the_default_type(
    execute: Path, listed: str, default: str, found: tuple[str, ...]
) -> None:
    program = execute / "qemu"
    program.write_text(HAS_USER)
    program.chmod(0o755)
    told = {"VM_NETWORKING": "true", "VM_NETWORKING_TYPE": listed, "VM_NETWORKING_DEFAULT_TYPE": default}
    networks, remarks = _networks(knobs(execute, VM_NETWORKING_BRIDGE_INTERFACE="no-such", **told), str(program))
    assert networks == found
    no_bridge = "VM_NETWORKING_TYPE has bridge: VM_NETWORKING_BRIDGE_INTERFACE = no-such is no bridge of this machine"
    assert remarks == ([no_bridge] if "bridge" in listed else [])


def test_a_default_type_that_is_no_network_here_is_told(execute: Path) -> None:
    program = execute / "qemu"
    program.write_text(HAS_USER)
    program.chmod(0o755)
    told = {"VM_NETWORKING": "true", "VM_NETWORKING_TYPE": "nat, passt", "VM_NETWORKING_DEFAULT_TYPE": "passt"}
    networks, remarks = _networks(knobs(execute, **told), str(program))
    assert networks == ("nat",)
    assert remarks == [
        "VM_NETWORKING_TYPE has passt: virtual machines can only have nat, user, bridge",
        "VM_NETWORKING_DEFAULT_TYPE = passt is no network that virtual machines have here",
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not LINUX, reason="takes a kernel for aarch64: tests/aarch64/machine vm")
def test_a_guest_of_aarch64_starts_linux_from_its_disk(execute: Path) -> None:
    """By the command of a job, of which only the sandbox is made here: UEFI finds the disk, and the kernel on it."""
    found = find_vm(knobs(execute), "aarch64")
    assert found.hypervisor is not None, found.problem
    disk = execute / "a.img"
    disk.write_bytes(bytes(96 << 20))
    (execute / "startup.nsh").write_text("fs0:\\vmlinuz console=ttyAMA0 panic=-1\r\n")
    for words in (["mformat", "-i", disk, "-F", "::"], ["mcopy", "-i", disk, LINUX, "::vmlinuz"]):
        subprocess.run(words, check=True)
    subprocess.run(["mcopy", "-i", disk, execute / "startup.nsh", "::startup.nsh"], check=True)
    job = ClassAd({"JobUniverse": 13, **own(JobVMMemory=512, VMPARAM_vm_Disk="a.img:vda:w")})
    (execute / "_condor_vm").mkdir()
    subprocess.run(qemu.state_words(found.hypervisor.images), cwd=execute, check=True)
    words = [*qemu.words(job, found.hypervisor), "-no-reboot"]
    with subprocess.Popen(words, cwd=execute, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as guest:
        assert guest.stdout is not None
        said = guest.stdout.read().decode(errors="replace")  # without a root file system the kernel restarts
    assert "Linux version" in said
    assert "Unable to mount root fs" in said
    assert guest.returncode == 0
