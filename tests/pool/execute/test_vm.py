"""QEMU's command for a job's virtual machine, and what its complaints mean."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.execute import hypervisor as qemu
from pool.execute import vm
from pool.execute.plan import ExecuteSurroundings, plan_job

TCG = qemu.Hypervisor("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-img", "tcg", ("nat",), soft_suspend=True)


def a_job(**more: object) -> ClassAd:
    ad = {"JobUniverse": 13, "ClusterId": 7, "ProcId": 1, "JobVMMemory": 64, "VMPARAM_vm_Disk": "a.img:vda:w"}
    return ClassAd({**ad, "Cmd": "mine", "TransferExecutable": False, "Iwd": "/home/me", "Out": "console", **more})


def after(words: list[str], name: str) -> list[str]:
    return [word for before, word in pairwise(words) if before == name]


def test_qemu_has_only_what_the_job_says_and_no_way_to_more_rights() -> None:
    words = qemu.words(a_job(JobVM_VCPUS=2), TCG)
    assert words[0] == TCG.program
    assert {"-nodefaults", "-no-user-config"} <= set(words)
    (sandbox,) = after(words, "-sandbox")
    assert sandbox == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
    assert (after(words, "-m"), after(words, "-smp"), after(words, "-netdev")) == (["64"], ["2"], [])
    assert after(words, "-qmp") == ["unix:_condor_vm/monitor,server=on,wait=off"]
    assert json.loads(after(words, "-blockdev")[0]) == {
        "driver": "raw",
        "node-name": "disk0",
        "read-only": False,
        "file": {"driver": "file", "filename": "a.img", "read-only": False},
    }


def test_names_of_files_cannot_say_anything_else_to_qemu() -> None:
    name = 'a",driver=nbd.img'
    (text,) = after(qemu.words(a_job(VMPARAM_vm_Disk=f"/x/{name.replace(',', ';')}:vda:r"), TCG), "-blockdev")
    assert json.loads(text)["file"]["filename"] == '/x/a";driver=nbd.img'


def test_each_kind_of_device_has_its_place_and_images_of_the_machine_are_not_written_to() -> None:
    words = qemu.words(
        a_job(VMPARAM_vm_Disk="a.img:hda1:w, b.img:hda2:w, c.iso:sda:r ,/m/gold.qcow2:vdc:rw:qcow2"), TCG
    )
    devices = after(words, "-device")
    assert "ide-hd,bus=ide.0,unit=0,drive=disk0,bootindex=0" in devices
    assert "ide-hd,bus=ide.0,unit=1,drive=disk1,bootindex=1" in devices
    assert "ich9-ahci,id=sata" in devices
    assert "ide-cd,bus=sata.0,drive=disk2,bootindex=2" in devices
    assert "virtio-blk-pci,drive=disk3,bootindex=3" in devices
    overlay = json.loads(after(words, "-blockdev")[3])
    assert (overlay["driver"], overlay["file"]["filename"]) == ("qcow2", "gold.qcow2.overlay.qcow2")
    (disk,) = vm.read_disks("/m/gold.qcow2:vdc:rw:qcow2")
    assert qemu.overlay_words("qemu-img", disk)[-5:] == [
        "-b",
        "/m/gold.qcow2",
        "-F",
        "qcow2",
        "./gold.qcow2.overlay.qcow2",
    ]


def test_a_network_is_there_for_those_that_ask_and_only_where_the_machine_has_one() -> None:
    words = qemu.words(a_job(JobVMNetworking=True, JobVM_MACADDR="52:54:00:12:34:56"), TCG)
    assert after(words, "-netdev") == ["user,id=net"]
    assert "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:12:34:56" in after(words, "-device")
    for more, networks in (({"JobVMNetworkingType": "user"}, ("nat",)), ({}, ())):
        machine = qemu.Hypervisor("q", "i", "tcg", networks)
        with pytest.raises(UserError, match="has no network"):
            qemu.words(a_job(JobVMNetworking=True, **more), machine)
    with pytest.raises(UserError, match="JobVM_MACADDR"):
        qemu.words(a_job(JobVMNetworking=True, JobVM_MACADDR="a,b"), TCG)


def test_a_guest_that_is_put_away_when_it_is_suspended_has_a_file_for_its_memory() -> None:
    (disk,) = after(qemu.words(a_job(), TCG), "-blockdev")
    both = after(qemu.words(a_job(), replace(TCG, soft_suspend=False)), "-blockdev")
    assert both[0] == disk
    assert json.loads(both[1])["file"]["filename"] == "_condor_vm/state.qcow2"


def test_a_job_that_names_no_network_gets_the_machines_first() -> None:
    machine = qemu.Hypervisor("q", "i", "tcg", ("bridge", "nat"), bridge="br0")
    assert qemu.network_of(a_job(), machine) == ""
    assert qemu.network_of(a_job(JobVMNetworking=True), machine) == "bridge"
    assert qemu.network_of(a_job(JobVMNetworking=True, JobVMNetworkingType="NAT"), machine) == "nat"
    assert after(qemu.words(a_job(JobVMNetworking=True), machine), "-netdev") == [], "it is plugged in later"
    assert qemu.Hypervisor.read(machine.packed()) == machine


def test_cards_on_a_bridge_have_different_addresses_and_each_job_keeps_its_own() -> None:
    addresses = [qemu.bridged_card(a_job(GlobalJobId=name))["mac"] for name in ("ap#1.0#5", "ap#2.0#5", "ap#1.0#5")]
    assert addresses[0] == addresses[2] != addresses[1]
    assert all(vm.MAC.fullmatch(address) and address.startswith("52:54:00:") for address in addresses)
    assert qemu.bridged_card(a_job(JobVM_MACADDR="52:54:00:12:34:56"))["mac"] == "52:54:00:12:34:56"


def test_one_that_may_go_on_elsewhere_has_a_processor_that_others_have() -> None:
    kvm = qemu.Hypervisor("q", "i", "kvm")
    assert after(qemu.words(a_job(), kvm), "-cpu") == ["max"]
    moving = qemu.words(a_job(JobVMCheckpoint=True), kvm)
    assert after(moving, "-cpu")[0].startswith("qemu64,")
    assert json.loads(after(moving, "-blockdev")[-1])["file"]["filename"] == "_condor_vm/state.qcow2"


def test_a_jobs_plan_is_qemu_in_its_sandbox_with_the_console_as_output() -> None:
    around = ExecuteSurroundings("/sandbox", "slot1", 1, vm=TCG.packed())
    plan = plan_job(a_job(), ClassAd(), around)
    assert plan.argv == qemu.words(a_job(), TCG)
    assert (plan.directory, plan.transfers, plan.stdin) == ("/sandbox", True, "/dev/null")
    assert (plan.stdout, plan.stderr) == ("/sandbox/_condor_stdout", "/sandbox/_condor_vm/qemu.log")
    with pytest.raises(UserError, match="this machine runs no virtual machines"):
        plan_job(a_job(), ClassAd(), ExecuteSurroundings("/sandbox", "slot1", 1))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            'qemu-system-x86_64: -blockdev {"driver": "raw"}: Could not open \'a.img\': No such file or directory\n',
            ("vm_disk: Could not open 'a.img': No such file or directory", True),
        ),
        (
            "qemu-system-x86_64: warning: old\nqemu-system-x86_64: cannot set up guest memory 'pc.ram'\n",
            ("cannot set up guest memory 'pc.ram'", False),
        ),
        (
            "qemu-system-x86_64: Invalid SMP CPUs 300. The max CPUs supported by machine 'pc' is 255\n",
            ("Invalid SMP CPUs 300. The max CPUs supported by machine 'pc' is 255", True),
        ),
        ("", ("QEMU does not say why", False)),
    ],
)
def test_only_what_qemu_has_against_the_disks_and_processors_is_the_jobs_fault(
    said: str, meant: tuple[str, bool]
) -> None:
    assert qemu.complaint(said) == meant


def test_what_is_left_for_a_virtual_machine_is_what_others_have_not() -> None:
    assert qemu.room(1000, 2, []) == {"VM_Memory": 1000, "VM_AvailNum": 2}
    assert qemu.room(1000, 2, [a_job(), a_job(JobVMMemory=950)]) == {"VM_Memory": 0, "VM_AvailNum": 0}
    assert qemu.room(1000, 0, [a_job()])["VM_AvailNum"] == 10000, "no limit"


ARM = qemu.Hypervisor("/usr/bin/qemu-system-aarch64", "i", "tcg", ("nat",), "aarch64", "/uefi.fd")


def test_guests_of_aarch64_have_a_board_of_their_own_and_firmware() -> None:
    words = qemu.words(a_job(), ARM)
    assert (after(words, "-machine"), after(words, "-bios"), after(words, "-vga")) == (["virt"], ["/uefi.fd"], [])
    assert "virtio-blk-pci,drive=disk0,bootindex=0" in after(words, "-device")
    assert qemu.Hypervisor.read(ARM.packed()) == ARM
    assert after(qemu.words(a_job(), TCG), "-bios") == []
    with pytest.raises(UserError, match="no IDE disks"):
        qemu.words(a_job(VMPARAM_vm_Disk="a.img:hda:w"), ARM)


ONE = "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("machine", "accelerator", "said"),
    [
        ("x86_64", "kvm", "kvm pc qemu-7.2"),
        ("aarch64", "tcg", "tcg virt qemu-7.2"),
        ("aarch64", "kvm", "kvm virt qemu-7.2 cpu-0x3-0x41-0xd0c"),
    ],
)
def test_a_guest_of_an_arm_processor_goes_on_at_its_like_only(machine: str, accelerator: str, said: str) -> None:
    hypervisor = qemu.Hypervisor("q", "i", accelerator, (), machine)
    assert qemu.platform(hypervisor, "version 7.2.22", ONE) == said
