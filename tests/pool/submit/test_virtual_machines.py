"""Descriptions of virtual machines: the attributes, what they ask of a slot, and what is refused."""

from __future__ import annotations

import pytest

from pool.base.errors import SubmitError
from pool.classad import ClassAd
from tests.pool.submit.build import Place

VM = "universe = vm\nexecutable = mine\nvm_type = kvm\nvm_memory = 512\nvm_disk = a.img:vda:w\ntransfer_input_files = a.img\n"


@pytest.fixture(autouse=True)
def _image(place: Place) -> None:
    (place.where / "a.img").write_bytes(bytes(4096))


def ad_of(place: Place, more: str = "", text: str = VM) -> ClassAd:
    (ad,) = place.plan(f"{text}{more}queue\n").procs()
    return ad.flat()


def test_a_virtual_machine_has_htcondors_attributes(place: Place) -> None:
    ad = ad_of(place, "vm_vcpus = 2\nvm_networking = true\nvm_networking_type = NAT\nvm_macaddr = 52:54:00:12:34:56\n")
    facts = {name: value for name, value in ad.items() if name.startswith(("JobVM", "VMPARAM"))}
    assert facts == {
        "JobVMType": "kvm",
        "JobVMMemory": 512,
        "JobVM_VCPUS": 2,
        "JobVMCheckpoint": False,
        "JobVMNetworking": True,
        "JobVMNetworkingType": "nat",
        "JobVM_MACADDR": "52:54:00:12:34:56",
        "VMPARAM_vm_Disk": "a.img:vda:w",
    }
    assert (ad["JobUniverse"], ad["Cmd"], ad["TransferExecutable"]) == (13, "mine", False)
    assert (ad["ShouldTransferFiles"], ad["WhenToTransferOutput"]) == ("YES", "ON_EXIT")
    assert (ad.eval("RequestMemory"), ad.eval("RequestCpus")) == (640, 2)
    assert ad["DiskUsage"] == 512 * 1024 + 4


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("environment = A=1", "does not see the job's environment"),
        ("getenv = true", "does not see the job's environment"),
        ("kill_sig = SIGINT", "power button"),
        ("checkpoint_exit_code = 85", "vm_checkpoint = true"),
        ("vm_networking_type = nat", "no network without vm_networking = true"),
        ("vm_macaddr = 52:54:00:12:34:56", "no network without vm_networking = true"),
    ],
)
def test_what_means_nothing_to_a_guest_draws_a_warning(place: Place, line: str, why: str) -> None:
    plan = place.plan(f"{VM}{line}\nqueue\n")
    list(plan.procs())
    (warning,) = plan.warnings
    assert f"the command '{line.partition(' ')[0]}' has no effect: " in warning
    assert why in warning


def test_what_asks_for_nothing_or_acts_draws_none(place: Place) -> None:
    plan = place.plan(f"{VM}getenv = false\nvm_networking = true\nvm_networking_type = nat\nqueue\n")
    list(plan.procs())
    assert plan.warnings == []


def test_its_requirements_ask_for_a_machine_that_has_them(place: Place) -> None:
    text = ad_of(place, "vm_networking = true\nvm_networking_type = user\n").text("Requirements")
    for clause in (
        "(TARGET.HasVM =?= true)",
        "(TARGET.VM_Type == MY.JobVMType)",
        "(TARGET.VM_AvailNum > 0)",
        "(TARGET.VM_Memory >= MY.JobVMMemory)",
        "(TARGET.Disk >= RequestDisk)",
        "TARGET.VM_Networking &&",
        "VM_Networking_Types",
    ):
        assert clause in text, clause
    assert "OpSys" not in text
    assert "VM_Type" in ad_of(place, 'requirements = TARGET.VM_Type == "kvm"\n').text("Requirements")
    assert "MY.JobVMType" not in ad_of(place, 'requirements = TARGET.VM_Type == "kvm"\n').text("Requirements")


def test_a_checkpoint_moves_the_files_at_an_eviction_and_stays_with_its_kind(place: Place) -> None:
    ad = ad_of(place, "vm_checkpoint = true\n")
    assert ad["WhenToTransferOutput"] == "ON_EXIT_OR_EVICT"
    assert "TARGET.VM_Platform == MY.LastVMPlatform" in ad.text("Requirements")
    both = "vm_checkpoint = true\nvm_networking = true\n"
    with pytest.raises(SubmitError, match="ON_EXIT_OR_EVICT"):
        ad_of(place, both)
    insisted = ad_of(place, f"{both}when_to_transfer_output = ON_EXIT_OR_EVICT\n")
    assert insisted["WhenToTransferOutput"] == "ON_EXIT_OR_EVICT"


def test_nothing_comes_back_with_vm_no_output_vm(place: Place) -> None:
    assert ad_of(place, "vm_no_output_vm = true\n")["TransferOutput"] == ""
    with pytest.raises(SubmitError, match="vm_no_output_vm"):
        ad_of(place, "vm_no_output_vm = true\ntransfer_output_files = b\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("vm_type = xen", "vm_type = xen is not supported"),
        ("vm_memory = none", "vm_memory = none is incorrectly specified"),
        ("vm_vcpus = 0", "vm_vcpus = 0 is invalid"),
        ("vm_macaddr = 1:2", "vm_macaddr = 1:2 is no address"),
        ("vm_networking_type = slirp", "vm_networking_type = slirp is not supported"),
        ("vm_disk = b.img:vda:w", "vm_disk names b.img, which is not transferred"),
        ("vm_disk = a.img:vda", "'vm_disk' has incorrect format: a.img:vda"),
        ("vm_disk = a.img:xvda:w", "vm_disk has the device xvda"),
        ("vm_disk = /1:hda:r,/2:hdb:r,/3:hdc:r,/4:hdd:r,/5:hde:r", "vm_disk has more than 4 disks like hde"),
        ("vm_disk = a.img:vda:x", "vm_disk has the permission x"),
        ("vm_disk = a.img:vda:w:iso", "vm_disk has the format iso"),
        ("vm_disk = d/a.img:vda:w", "vm_disk names d/a.img"),
        ("vm_disk = a.img:vda:w,/b:vda:r", "has vda twice"),
        ("vm_disk = a.img:vda:w,a.img:vdb:r", "has a.img twice"),
        ("vm_vnc = true", "vm_vnc"),
        ("input = a.img", "the command input has no meaning"),
        ("error = e", "the command error has no meaning"),
        ("arguments = 5", "the command arguments has no meaning"),
        ("should_transfer_files = NO", "the files of a virtual machine always move"),
        ("xen_kernel = included", "xen_kernel belongs to Xen"),
    ],
)
def test_what_no_virtual_machine_can_have_is_refused_where_it_is_written(place: Place, line: str, said: str) -> None:
    with pytest.raises(SubmitError) as raised:
        ad_of(place, f"{line}\n")
    assert said in str(raised.value)
    assert ":7:" in str(raised.value)


@pytest.mark.parametrize("command", ["vm_type", "vm_memory", "vm_disk", "executable"])
def test_what_every_virtual_machine_needs_is_asked_for(place: Place, command: str) -> None:
    text = "".join(f"{line}\n" for line in VM.splitlines() if not line.startswith(command))
    with pytest.raises(SubmitError, match=command):
        ad_of(place, text=text)
