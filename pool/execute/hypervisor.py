"""A virtual machine's QEMU: the words of its command, and what its complaints mean.

Everything that QEMU is told is made here, of the job's ad and of what its machine has found out about itself. Names of
the user's reach it inside JSON alone, where no character of theirs means anything; each disk has its format said, so
that QEMU guesses none.

Source: qemu(1); QEMU's "QEMU QMP Reference Manual".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.execute.vm import BRIDGE, DISKS, MAC, MONITOR, STATE, STATE_NODE, Disk, keeps_state, read_disks

_TRANSLATED_MB: Final = 64
NO_LIMIT: Final = 10000
"""How many virtual machines a slot has room for, in HTCondor's ads, where there is no limit."""
_FORBIDDEN: Final = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
"""System calls that QEMU itself gives up."""


@dataclass(frozen=True)
class Board:
    """The computer that guests see, of one kind of processor."""

    name: str
    processor: str
    """One that every machine of the kind can be, so that a job may go on elsewhere."""
    display: tuple[str, ...]
    has_ide: bool
    brings_firmware: bool
    """Whether QEMU itself has what starts a guest."""


BOARDS: Final = {
    # Of x86-64 the processors of the last fifteen years. One of ARM can only be itself: `platform` says which.
    "x86_64": Board("pc", "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+lahf-lm", ("-vga", "std"), True, True),
    "aarch64": Board("virt", "max", (), False, False),
}
"""By the kind of this machine: a guest is of the same."""
FIRMWARE: Final = (
    "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd",
    "/usr/share/edk2/aarch64/QEMU_EFI.fd",
    "/usr/share/qemu/edk2-aarch64-code.fd",
    "/usr/local/share/qemu/edk2-aarch64-code.fd",
)
"""Where packages of distributions, and QEMU's own, put UEFI for guests of aarch64."""


@dataclass(frozen=True)
class Hypervisor:
    """What a machine has for virtual machines; `packed` goes to its starters, which read it again."""

    program: str
    images: str
    """The program that makes disk images."""
    accelerator: str
    networks: tuple[str, ...] = ()
    """Their types; what names none gets the first."""
    machine: str = "x86_64"
    """The kind of processor, which has a board."""
    firmware: str = ""
    """The file with what starts a guest; QEMU's own, when it is empty."""
    bridge: str = ""
    """The machine's bridge that guests may be plugged into."""
    soft_suspend: bool = False
    """Whether a suspended guest keeps its memory."""
    timeout_s: float = 300.0
    status_s: float = 60.0

    def packed(self) -> dict[str, str]:
        """As texts."""
        return {
            "program": self.program,
            "images": self.images,
            "accelerator": self.accelerator,
            "networks": ",".join(self.networks),
            "machine": self.machine,
            "firmware": self.firmware,
            "bridge": self.bridge,
            "soft_suspend": "true" if self.soft_suspend else "",
            "timeout_s": repr(self.timeout_s),
            "status_s": repr(self.status_s),
        }

    @classmethod
    def read(cls, packed: Mapping[str, str]) -> Hypervisor:
        """What `packed` has made; UserError where a machine has none."""
        if not packed:
            raise UserError("this machine runs no virtual machines", expected="one whose ad has HasVM")
        return cls(
            packed["program"],
            packed["images"],
            packed["accelerator"],
            tuple(filter(None, packed["networks"].split(","))),
            packed["machine"],
            packed["firmware"],
            packed["bridge"],
            bool(packed["soft_suspend"]),
            float(packed["timeout_s"]),
            float(packed["status_s"]),
        )


def words(job: ClassAd, hypervisor: Hypervisor) -> list[str]:
    """The command, QEMU first; it is run in the sandbox. UserError when the job's ad cannot be read."""
    memory, cpus = job.eval_int("JobVMMemory") or 0, max(1, job.eval_int("JobVM_VCPUS") or 1)
    if memory <= 0:
        raise UserError("the job's ad has no JobVMMemory", expected="the virtual machine's memory in MiB")
    disks, board = read_disks(job.eval_str(DISKS) or ""), BOARDS[hypervisor.machine]
    command = [
        *usual(hypervisor.program, hypervisor.accelerator, board),
        *(("-bios", hypervisor.firmware) if hypervisor.firmware else ()),
        *("-name", f"job-{job.eval_int('ClusterId') or 0}.{job.eval_int('ProcId') or 0}"),
        *("-cpu", board.processor if keeps_state(job) and hypervisor.accelerator == "kvm" else "max"),
        *("-m", str(memory), "-smp", str(cpus), *board.display, "-device", "virtio-rng-pci"),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-qmp", f"unix:{MONITOR},server=on,wait=off"),
    ]
    if not board.has_ide and any(disk.kind == "hd" for disk in disks):
        raise UserError(
            "there are no IDE disks on this kind of machine", expected="vda (virtio) or sda (SATA) in vm_disk"
        )
    if any(disk.kind == "sd" for disk in disks):
        command += ["-device", "ich9-ahci,id=sata"]
    for number, disk in enumerate(disks):
        command += _disk_words(number, disk)
    if has_state(job, hypervisor):
        command += ["-blockdev", blockdev(STATE_NODE, "qcow2", STATE)]
    return [*command, *_network_words(job, hypervisor)]


def has_state(job: ClassAd, hypervisor: Hypervisor) -> bool:
    """Whether the guest's memory may have to be written into a file."""
    return keeps_state(job) or not hypervisor.soft_suspend


def usual(program: str, accelerator: str, board: Board) -> list[str]:
    """What every QEMU here is told: nothing that it was not asked for, and no way to more rights."""
    how = f"tcg,tb-size={_TRANSLATED_MB}" if accelerator == "tcg" else accelerator
    bare = ["-nodefaults", "-no-user-config", "-display", "none", "-sandbox", _FORBIDDEN]
    return [program, *bare, "-machine", board.name, "-accel", how]


def blockdev(node: str, driver: str, file: str, *, writable: bool = True) -> str:
    """A disk image as QEMU is told of it."""
    told: dict[str, Any] = {"driver": driver, "node-name": node, "read-only": not writable}
    told["file"] = {"driver": "file", "filename": file, "read-only": not writable}
    return json.dumps(told)


def _disk_words(number: int, disk: Disk) -> list[str]:
    node = f"disk{number}"
    if disk.overlay:
        image = blockdev(node, "qcow2", disk.overlay)
    else:
        image = blockdev(node, disk.format, disk.file, writable=disk.writable)
    if disk.kind == "vd":
        device = "virtio-blk-pci"
    else:
        # There are no IDE and no SATA disks that can only be read, but drives for CDs.
        device = "ide-hd" if disk.writable else "ide-cd"
        device += (
            f",bus=sata.{disk.place}" if disk.kind == "sd" else f",bus=ide.{disk.place // 2},unit={disk.place % 2}"
        )
    return ["-blockdev", image, "-device", f"{device},drive={node},bootindex={number}"]


def network_of(job: ClassAd, hypervisor: Hypervisor) -> str:
    """The type of the job's network; empty where it has none. UserError where the machine has none for it."""
    if not job.eval_bool("JobVMNetworking", False):
        return ""
    wanted = (job.eval_str("JobVMNetworkingType") or "").lower()
    if not hypervisor.networks or (wanted and wanted not in hypervisor.networks):
        raise UserError(
            f"this machine has no network{f' of type {wanted}' if wanted else ''} for virtual machines",
            expected=", ".join(hypervisor.networks) or "a machine with VM_Networking",
        )
    return wanted or hypervisor.networks[0]


def _network_words(job: ClassAd, hypervisor: Hypervisor) -> list[str]:
    """The card of a guest in QEMU's own network; one of a bridge is plugged in later."""
    kind, address = network_of(job, hypervisor), hardware_address(job)
    if not kind or kind == BRIDGE:
        return []
    card = "virtio-net-pci,netdev=net,romfile=" + (f",mac={address}" if address else "")
    return ["-netdev", "user,id=net", "-device", card]


def hardware_address(job: ClassAd) -> str:
    """That of the guest's card, as far as the job says it."""
    address = job.eval_str("JobVM_MACADDR") or ""
    if address and MAC.fullmatch(address) is None:
        raise UserError(f"JobVM_MACADDR = {address}", expected="six pairs of hexadecimal digits between colons")
    return address


def bridged_card(job: ClassAd) -> dict[str, Any]:
    """The card of a guest on a bridge, as QEMU is told of it. Its address is its own wherever it goes."""
    own = sha256((job.eval_str("GlobalJobId") or "").encode()).digest()[:3]
    address = hardware_address(job) or f"52:54:00:{own.hex(':')}"
    return {"driver": "virtio-net-pci", "netdev": "net", "id": "card", "romfile": "", "mac": address}


def overlay_words(images: str, disk: Disk) -> list[str]:
    """The command that makes the overlay of a disk, in the sandbox."""
    return [images, "create", "-q", "-f", "qcow2", "-b", disk.file, "-F", disk.format, f"./{disk.overlay}"]


def state_words(images: str) -> list[str]:
    """The command that makes the file for the machine's memory."""
    return [images, "create", "-q", "-f", "qcow2", STATE, "1M"]


def complaint(said: str) -> tuple[str, bool]:
    """What QEMU said before it gave up, in one line; and whether that is about the job's disks or processors."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "warning:" not in line] or lines
    text = re.sub(r"^\S*qemu[^:]*: ", "", errors[-1]) if errors else "QEMU does not say why"
    text = re.sub(r"^-blockdev \{.*\}: ", "vm_disk: ", text)
    return text, text.startswith(("vm_disk: ", "Invalid SMP CPUs"))


def platform(hypervisor: Hypervisor, version: str, cpuinfo: str) -> str:
    """What must be the same where a virtual machine goes on: how it is run, QEMU's version, and a processor of ARM."""
    found = re.search(r"version (\d+\.\d+)", version)
    words = [hypervisor.accelerator, BOARDS[hypervisor.machine].name, f"qemu-{found[1] if found else '?'}"]
    if hypervisor.machine == "aarch64" and hypervisor.accelerator == "kvm":
        # Guests see the processor as it is. The lines have the form `CPU part : 0xd0c`.
        told = re.findall(r"^CPU (?:implementer|part|variant)\s*:\s*(\w+)", cpuinfo, re.MULTILINE)
        words.append(f"cpu-{'-'.join(sorted(set(told)))}")
    return " ".join(words)


def room(total_mb: int, number: int, others: Sequence[ClassAd]) -> dict[str, int]:
    """What is left for a virtual machine in a slot, beside those of the `others`; a `number` of 0 is no limit."""
    used = sum(job.eval_int("JobVMMemory") or 0 for job in others)
    return {"VM_Memory": max(0, total_mb - used), "VM_AvailNum": max(0, number - len(others)) if number else NO_LIMIT}
