"""Whether this machine runs virtual machines, and how: asked at the start by running one that switches itself off.

VM_TYPE says that the owner wants them. The trial is run as a job's QEMU is: as an account without rights, forbidden the
same system calls. With the machine's virtualisation (KVM) first, where that account may use it, and else by translating
what the guest's processor does (TCG), which takes many times as long; the ad says which it is.

Source: HTCondor's manual, "Virtual Machine Configuration Options"; src/condor_startd.V6/vmuniverse_mgr.cpp for the
attributes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daemons.host.account import Account, fallback_account
from daemons.host.programs import ProgramError, run_blocking
from daemons.host.tap import TUN, is_bridge
from pool.config import Config
from pool.execute import hypervisor as qemu
from pool.execute import vm

TRIAL_S: Final = 60.0
ASK_S: Final = 60.0
DEVICE: Final = "/dev/kvm"
PATH: Final = "/usr/bin:/usr/local/bin:/usr/libexec:/usr/sbin"
# mov dx, 0x604; mov ax, 0x2000; out dx, ax; hlt: the register of the board's power management that switches it off.
_SECTOR: Final = bytes.fromhex("ba0406 b80020 ef f4 ebfd").ljust(510, b"\0") + b"\x55\xaa"
# mov w0, 0x84000008; hvc 0; wfi: the board's call that does the same (PSCI's SYSTEM_OFF).
_FIRMWARE: Final = bytes.fromhex("00018052 0080b072 020000d4 7f2003d5 ffffff17")
_IMAGE_BYTES: Final = 2 << 20
"""No board boots from anything smaller."""
_ACCELERATORS: Final = ("auto", "kvm", "tcg")


@dataclass(frozen=True)
class VirtualMachines:
    """What the trial has shown. Without a `hypervisor` there are none; `problem` says why, where they are wanted."""

    hypervisor: qemu.Hypervisor | None = None
    version: str = ""
    memory_mb: int = 0
    number: int = 0
    problem: str = ""
    remarks: tuple[str, ...] = ()

    def attributes(self) -> dict[str, object]:
        """What the machine's ads say; what is left for further virtual machines, each slot says by itself."""
        if self.hypervisor is None:
            return {vm.HAS: False, **({"VMOfflineReason": self.problem} if self.problem else {})}
        networks = self.hypervisor.networks
        return {
            vm.HAS: True,
            "VM_Type": vm.TYPE,
            "VM_Accelerator": self.hypervisor.accelerator,
            "VM_HardwareVT": self.hypervisor.accelerator == "kvm",
            "VM_QemuVersion": self.version,
            vm.PLATFORM: qemu.platform(self.hypervisor, f"version {self.version}", _cpuinfo()),
            "VM_Networking": bool(networks),
            **({"VM_Networking_Types": ",".join(networks)} if networks else {}),
        }

    def room(self, machine_mb: int) -> tuple[int, int] | None:
        """How much memory they may have together, and how many there may be; None where there are none."""
        return None if self.hypervisor is None else (self.memory_mb or machine_mb, self.number)

    def packed(self) -> dict[str, str]:
        """For starters."""
        return {} if self.hypervisor is None else self.hypervisor.packed()

    def said(self) -> list[str]:
        """For the log."""
        problem = [f"Virtual machines cannot be run: {self.problem}"] if self.problem else []
        return [*problem, *self.remarks]


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""


class _NoVm(Exception):
    """There are none; the text says why."""


def find_vm(config: Config, machine: str = "") -> VirtualMachines:
    """What VM_TYPE asks for, if it works here, with guests of this `machine`'s kind; blocks."""
    wanted = config.str("VM_TYPE", default="").strip().strip('"').lower()
    if not wanted:
        return VirtualMachines()
    try:
        if wanted != vm.TYPE:
            raise _NoVm(f"VM_TYPE = {wanted}: {vm.TYPE} is the only type that there is")
        return _found(config, machine or os.uname().machine)
    except _NoVm as problem:
        return VirtualMachines(problem=str(problem))


def _found(config: Config, machine: str) -> VirtualMachines:
    if machine not in qemu.BOARDS:
        raise _NoVm(f"virtual machines are there for {' and '.join(qemu.BOARDS)} only, not for {machine}")
    board = qemu.BOARDS[machine]
    program, images = _program(config, "QEMU"), _program(config, "QEMU_IMG")
    firmware = _firmware(config, board)
    said = _asked(program, "--version").partition("\n")[0]
    version = said.partition("version ")[2].partition(" ")[0]
    accelerator, remarks = _accelerator(config, program, board)
    networks, more = _networks(config, program)
    hypervisor = qemu.Hypervisor(
        program,
        images,
        accelerator,
        networks,
        machine,
        firmware,
        bridge=config.str("VM_NETWORKING_BRIDGE_INTERFACE", default=""),
        soft_suspend=config.bool("VM_SOFT_SUSPEND"),
        timeout_s=config.seconds("VM_GAHP_REQ_TIMEOUT"),
        status_s=max(30.0, config.seconds("VM_STATUS_INTERVAL")),
    )
    return VirtualMachines(
        hypervisor,
        version,
        config.int("VM_MEMORY") if config.is_set("VM_MEMORY") else 0,
        config.int("VM_MAX_NUMBER"),
        remarks=(f"Virtual machines are run by QEMU {version} ({accelerator})", *remarks, *more),
    )


def _program(config: Config, knob: str) -> str:
    name = config.str(knob)
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{PATH}") if name else None
    if found is None:
        raise _NoVm(f"there is no {knob} = {name}")
    return found


def _firmware(config: Config, board: qemu.Board) -> str:
    given = config.str("QEMU_FIRMWARE", default="")
    if given or not board.brings_firmware:
        found = next(filter(os.path.isfile, [given] if given else qemu.FIRMWARE), "")
        if not found:
            raise _NoVm(f"there is no QEMU_FIRMWARE = {given}" if given else f"there is none of {qemu.FIRMWARE}")
        return found
    return ""


def _asked(program: str, *words: str) -> str:
    try:
        end = run_blocking([program, *words], ASK_S)
    except ProgramError as error:
        raise _NoVm(str(error)) from None
    if end.status:
        raise _NoVm(f"{program} {' '.join(words)}: {qemu.complaint(end.stderr)[0]}")
    return end.stdout


def _accelerator(config: Config, program: str, board: qemu.Board) -> tuple[str, list[str]]:
    wanted = config.str("VM_ACCELERATOR").strip().lower()
    if wanted not in _ACCELERATORS:
        raise _NoVm(f"VM_ACCELERATOR = {wanted}: it can be {', '.join(_ACCELERATORS)}")
    remarks: list[str] = []
    for one in ("kvm", "tcg") if wanted == "auto" else (wanted,):
        problem = tried(program, one, board, config.path("EXECUTE"))
        if not problem:
            return one, remarks
        remarks.append(f"Virtual machines do without {one}: {problem}")
    raise _NoVm(problem)


def tried(program: str, accelerator: str, board: qemu.Board, execute: str) -> str:
    """Why a virtual machine cannot be run in this way; nothing when it can."""
    account = fallback_account("nobody")
    if accelerator == "kvm" and not _is_open_to(account, DEVICE):
        return f"{DEVICE} is not there for all accounts"
    with tempfile.TemporaryDirectory(prefix=".vm-", dir=execute) as directory:
        os.chmod(directory, 0o755)
        image = os.path.join(directory, "image")
        with open(image, "wb") as file:
            file.write((_SECTOR if board.brings_firmware else _FIRMWARE).ljust(_IMAGE_BYTES, b"\0"))
        os.chmod(image, 0o644)
        command = [*qemu.usual(program, accelerator, board), "-cpu", "max", "-m", "16"]
        if board.brings_firmware:
            node = qemu.blockdev("disk0", "raw", image, writable=False)
            command += ["-blockdev", node, "-device", "virtio-blk-pci,drive=disk0,bootindex=0"]
        else:  # it takes seconds to start: the trial does without
            command += ["-bios", image]
        rights = {}
        if account.switches and os.geteuid() == 0:
            rights = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
        try:
            end = run_blocking(command, TRIAL_S, cwd="/", **rights)
        except ProgramError as error:
            return str(error)
    if end.timed_out:
        return f"one that switches itself off still ran after {TRIAL_S:g} s"
    return "" if end.status == 0 else qemu.complaint(end.stderr)[0]


def _is_open_to(account: Account, path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    if not account.switches or os.geteuid() != 0:
        return os.access(path, os.R_OK | os.W_OK)
    return status.st_mode & 0o006 == 0o006


def _networks(config: Config, program: str) -> tuple[tuple[str, ...], list[str]]:
    """The types of networks that jobs can have, that of those which name none first; and what the log says of it."""
    if not config.bool("VM_NETWORKING") or config.bool("NO_JOB_NETWORKING"):
        return (), []
    wanted = [one.strip('"').lower() for one in config.list("VM_NETWORKING_TYPE")]
    if not wanted:
        return (), ["VM_NETWORKING is true, but VM_NETWORKING_TYPE names no type: virtual machines have no network"]
    objections = {one: _objection(config, program, one) for one in dict.fromkeys(wanted)}
    remarks = [f"VM_NETWORKING_TYPE has {one}: {why}" for one, why in objections.items() if why]
    found = [one for one, why in objections.items() if not why]
    default = config.str("VM_NETWORKING_DEFAULT_TYPE", default="").strip('" ').lower()
    if default and default not in found:
        remarks.append(f"VM_NETWORKING_DEFAULT_TYPE = {default} is no network that virtual machines have here")
    order = (default, *vm.WITHOUT_DEFAULT)
    return tuple(sorted(found, key=lambda one: order.index(one) if one in order else len(order))), remarks


def _objection(config: Config, program: str, network: str) -> str:
    """Why there is no network of this type; empty where there is."""
    if network not in vm.NETWORKS:
        return f"virtual machines can only have {', '.join(vm.NETWORKS)}"
    if network != vm.BRIDGE:
        has_one = "user" in _asked(program, "-netdev", "help").split()
        return "" if has_one else "this QEMU has no user-mode network"
    name = config.str("VM_NETWORKING_BRIDGE_INTERFACE", default="")
    if not is_bridge(name):
        return f"VM_NETWORKING_BRIDGE_INTERFACE = {name} is no bridge of this machine"
    if os.geteuid() != 0 or not os.path.exists(TUN):
        return f"it takes root's rights and {TUN}"
    return ""
