"""What a job of the vm universe is: the names of its attributes and files, and its disks.

Source: HTCondor's manual, "Virtual Machine Jobs" (vm_disk, vm_memory ...).
"""

import posixpath
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.jobs.vocabulary.universes import Universe

TYPE: Final = "kvm"
"""The one kind of virtual machines: HTCondor's name for QEMU's."""
HAS: Final = "HasVM"
PLATFORM: Final = "VM_Platform"
LAST_PLATFORM: Final = "LastVMPlatform"
DISKS: Final = "VMPARAM_vm_Disk"
CHECKPOINT: Final = "JobVMCheckpoint"
OVERHEAD_MB: Final = 128
"""What QEMU itself takes beside the memory of its virtual machine."""

DIRECTORY: Final = "_condor_vm"
"""What is in the sandbox for QEMU's sake."""
MONITOR: Final = f"{DIRECTORY}/monitor"
COMPLAINTS: Final = f"{DIRECTORY}/qemu.log"
STATE: Final = f"{DIRECTORY}/state.qcow2"
SAVED: Final = f"{DIRECTORY}/saved"
"""Is there when STATE holds the machine's memory, to go on from."""
TAG: Final = "checkpoint"
STATE_NODE: Final = "state"

FORMATS: Final = ("raw", "qcow2", "qed", "vmdk", "vdi", "vpc", "vhdx")
_WRITABLE: Final = {"w": True, "rw": True, "r": False}
_DEVICE: Final = re.compile(r"(vd|sd|hd)[a-z]\d*")
_PLACES: Final = {"vd": 20, "sd": 6, "hd": 4}
"""How many disks of a kind there can be."""
MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)
BRIDGE: Final = "bridge"
NETWORKS: Final = ("nat", "user", BRIDGE)
"""The first two are QEMU's own user-mode network: the machine's, as any program of the job's account could use it."""


def taken_off(reason: str, now: float) -> dict[str, Any]:
    """What the ads of a machine say that runs none for the time being."""
    return {HAS: False, "VMOfflineReason": reason, "VMOfflineTime": int(now), "OfflineUniverses": ["VM", Universe.VM]}


WITHOUT_DEFAULT: Final = ("user", "nat", BRIDGE)
"""Which network a job has that names none, where VM_NETWORKING_DEFAULT_TYPE names none either: the first there is."""


class Disk(NamedTuple):
    """One of vm_disk's: `file:device:permission[:format]`."""

    file: str
    kind: str
    place: int
    writable: bool
    format: str

    @property
    def moves(self) -> bool:
        """Whether it is among the job's files; else it is one of the machine's."""
        return not self.file.startswith("/")

    @property
    def overlay(self) -> str:
        """The file of the sandbox that gets what is written to an image of the machine's; empty where none does."""
        return f"{posixpath.basename(self.file)}.overlay.qcow2" if self.writable and not self.moves else ""


def is_vm(job: ClassAd) -> bool:
    """Whether the job is of the vm universe."""
    return job.eval_int("JobUniverse", Universe.VANILLA) == Universe.VM


def keeps_state(job: ClassAd) -> bool:
    """Whether the virtual machine is written down when it has to leave, and goes on from there."""
    return is_vm(job) and bool(job.eval_bool(CHECKPOINT, False))


def read_disks(text: str) -> list[Disk]:
    """What vm_disk says; UserError names what is wrong with it."""
    disks: list[Disk] = []
    seen: set[str] = set()
    for one in (part.strip() for part in text.split(",")):
        if one:
            disk, device = _disk(one, disks)
            if seen & {device, disk.file}:
                raise UserError(f"vm_disk = {text} has {device if device in seen else disk.file} twice")
            seen |= {device, disk.file}
            disks.append(disk)
    if not disks:
        raise UserError("vm_disk names no disk", expected="file:device:permission, such as disk.img:vda:w")
    return disks


def _disk(text: str, before: Sequence[Disk]) -> tuple[Disk, str]:
    """A disk, and the name of its device; which of its kind it is goes by their order, as in a guest."""
    fields = [field.strip() for field in text.split(":")]
    if len(fields) not in (3, 4) or not all(fields):
        raise UserError(
            f"'vm_disk' has incorrect format: {text}",
            expected="file:device:permission[:format], such as disk.img:vda:w",
        )
    file, device, permission = fields[0], fields[1].lower(), fields[2].lower()
    format_ = fields[3].lower() if len(fields) == 4 else "raw"
    found = _DEVICE.fullmatch(device)
    if found is None:
        raise UserError(f"vm_disk has the device {device}", expected="vda (virtio), sda (SATA), hda (IDE) or the like")
    place = sum(disk.kind == found[1] for disk in before)
    if place >= _PLACES[found[1]]:
        raise UserError(f"vm_disk has more than {place} disks like {device}")
    if permission not in _WRITABLE:
        raise UserError(f"vm_disk has the permission {permission}", expected="r or w")
    if format_ not in FORMATS:
        raise UserError(f"vm_disk has the format {format_}", expected=", ".join(FORMATS))
    if not file.startswith("/") and "/" in file:
        raise UserError(
            f"vm_disk names {file}", expected="the name of a transferred file, or the full path of one of the machine"
        )
    return Disk(file, found[1], place, _WRITABLE[permission], format_), device
