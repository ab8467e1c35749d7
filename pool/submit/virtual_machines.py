"""The steps about virtual machines: vm_type and its kin, and what they mean for the job's other commands.

A virtual machine is a set of disk images; `executable` only names the job. Its files always move, as HTCondor's manual
has it ("Virtual Machine Jobs", and condor_submit, "COMMANDS FOR THE VM UNIVERSE"). That `output` gets what the guest
writes to its first serial port is this pool's own.
"""

from __future__ import annotations

from typing import Final

from pool.base.errors import UserError
from pool.base.units import requested_amount
from pool.base.words import SPACE
from pool.classad import ClassAd
from pool.execute import vm
from pool.jobs.vocabulary.universes import Universe
from pool.macros.functions import as_int
from pool.submit.job import JobDraft, split_commas, strip_quotes

_MIB = 1024 * 1024
ON_THE_SAME_KIND = f"(MY.{vm.LAST_PLATFORM} is undefined || TARGET.{vm.PLATFORM} == MY.{vm.LAST_PLATFORM})"
"""The memory of a virtual machine can be gone on from where it is run in the same way."""
_NO_COMMANDS = (
    *("input", "error", "arguments", "arguments2", "shell", "want_checkpoint", "want_remote_io"),
    *("docker_image", "container_image", "transfer_executable"),
)
_ENVIRONMENT: Final = "a guest does not see the job's environment"
_SIGNALS: Final = "a guest that has to leave has its power button pressed"
_NO_NETWORK: Final = "the guest has no network without vm_networking = true"
_WITHOUT_EFFECT: Final = {
    **dict.fromkeys(("environment", "environment2", "env", "getenv"), _ENVIRONMENT),
    **dict.fromkeys(("kill_sig", "remove_kill_sig", "hold_kill_sig"), _SIGNALS),
    "checkpoint_exit_code": "a guest is written down with vm_checkpoint = true",
}


def virtual_machine(job: JobDraft) -> None:
    """JobVMType, JobVMMemory, JobVM_VCPUS, the disks and the network; what the job asks of a slot for them."""
    if job.universe != Universe.VM:
        return
    _type(job)
    for name in _NO_COMMANDS:
        if job.param(name):
            raise job.error(f"the command {name} has no meaning for a job of the vm universe", name)
    for command, attribute in (("vm_checkpoint", vm.CHECKPOINT), ("vm_networking", "JobVMNetworking")):
        if job.param(command, attribute) is not None or not job.has(attribute):
            job.put(attribute, job.flag(command, attribute, False))
    if job.flag("vm_vnc", "JobVMVNCConsole", False):
        raise job.error("vm_vnc: virtual machines have no screen here; `output` gets their first serial port", "vm_vnc")
    _sizes(job)
    _network(job)
    _disks(job)
    job.warn_of(_WITHOUT_EFFECT)
    if not job.is_true("JobVMNetworking"):
        job.warn_of(dict.fromkeys(("vm_networking_type", "vm_macaddr"), _NO_NETWORK))


def _type(job: JobDraft) -> None:
    said = job.param("vm_type", "JobVMType") or job.text("JobVMType")
    if said is None:
        raise job.error("'vm_type' cannot be found: a job of the vm universe needs vm_type = kvm", "universe")
    if said.lower() != vm.TYPE:
        error = job.error(f"vm_type = {said} is not supported: no machine of this pool runs Xen or others", "vm_type")
        error.expected = vm.TYPE
        raise error
    job.put("JobVMType", vm.TYPE)


def _sizes(job: JobDraft) -> None:
    said = job.param("vm_memory", "JobVMMemory")
    if said is None and not job.has("JobVMMemory"):
        said = job.param("request_memory", "RequestMemory")
        if said is None:
            raise job.error("'vm_memory' cannot be found: a virtual machine needs its memory in MiB", "universe")
    if said is not None:
        amount = requested_amount(said, _MIB)
        if amount is None or amount[0] < 1:
            error = job.error(f"vm_memory = {said} is incorrectly specified", "vm_memory", "JobVMMemory")
            error.expected = "a number of MiB, or one with a unit, such as 2 GB"
            raise error
        job.put("JobVMMemory", amount[0])
    memory = job.ad.eval_int("JobVMMemory") or 0
    job.put("ExecutableSize", memory * 1024)
    if job.param("request_memory", "RequestMemory") is None:
        job.put_expr("RequestMemory", f"JobVMMemory + {vm.OVERHEAD_MB}", "vm_memory")
    said = job.param("vm_vcpus", "JobVM_VCPUS")
    if said is None and not job.has("JobVM_VCPUS"):
        asked = job.param("request_cpus", "RequestCpus")
        said = asked if asked is not None and as_int(asked) is not None else "1"
    if said is not None:
        cpus = as_int(said)
        if cpus is None or cpus < 1:
            raise job.error(f"vm_vcpus = {said} is invalid, must be a positive integer.", "vm_vcpus", "JobVM_VCPUS")
        job.put("JobVM_VCPUS", cpus)
    if job.param("request_cpus", "RequestCpus") is None:
        job.put_expr("RequestCpus", "JobVM_VCPUS", "vm_vcpus")


def _network(job: JobDraft) -> None:
    address = job.param("vm_macaddr", "JobVM_MACADDR")
    if address is not None:
        if vm.MAC.fullmatch(address) is None:
            error = job.error(f"vm_macaddr = {address} is no address of a network card", "vm_macaddr")
            error.expected = "six pairs of hexadecimal digits between colons"
            raise error
        job.put("JobVM_MACADDR", address)
    said = job.param("vm_networking_type", "JobVMNetworkingType")
    if said is not None:
        if said.lower() not in vm.NETWORKS:
            error = job.error(f"vm_networking_type = {said} is not supported", "vm_networking_type")
            error.expected = " or ".join(vm.NETWORKS)
            raise error
        if job.is_true("JobVMNetworking"):
            job.put("JobVMNetworkingType", said.lower())


def _disks(job: JobDraft) -> None:
    said = job.param("vm_disk", vm.DISKS)
    if said is None and not job.has(vm.DISKS):
        raise job.error("'vm_disk' cannot be found: a virtual machine needs a disk image", "universe")
    if said is not None:
        text = strip_quotes(said)
        try:
            disks = vm.read_disks(text)
        except UserError as problem:
            error = job.error(problem.message, "vm_disk", vm.DISKS)
            error.expected = problem.expected
            raise error from None
        _check_moved(job, disks)
        job.put(vm.DISKS, text)
    if job.param("vm_no_output_vm", "VMPARAM_No_Output_VM") is not None:
        job.put("VMPARAM_No_Output_VM", job.flag("vm_no_output_vm", "VMPARAM_No_Output_VM", False))


def _check_moved(job: JobDraft, disks: list[vm.Disk]) -> None:
    """A name without a path is one of the files that move; the machine would find nothing of that name else."""
    inputs = split_commas(strip_quotes(job.param("transfer_input_files", "TransferInputFiles") or ""))
    names = {path.rstrip("/").rpartition("/")[2] for path in inputs}
    for disk in disks:
        if disk.moves and disk.file not in names and "$$" not in disk.file:
            error = job.error(f"vm_disk names {disk.file}, which is not transferred", "vm_disk")
            error.expected = f"{disk.file} in transfer_input_files, or the full path of an image of the machine's"
            raise error


# ---- what it means for others


def files(job: JobDraft, should: str | None) -> None:
    """Whether the job's files move, and when: they do, and with vm_checkpoint also when it has to leave."""
    if should is not None and should.strip(SPACE).upper() in ("NO", "FALSE", "NEVER"):
        raise job.error(
            f"the files of a virtual machine always move, but should_transfer_files = {should} leaves them.",
            "should_transfer_files",
        )


def when(job: JobDraft, said: str | None) -> str | None:
    """When output moves, as far as that is said. A network with a checkpoint is insisted on: connections are lost."""
    if job.universe != Universe.VM or not job.is_true(vm.CHECKPOINT):
        return said
    if job.is_true("JobVMNetworking") and (said or "").strip(SPACE).upper() != "ON_EXIT_OR_EVICT":
        raise job.error(
            "vm_checkpoint and vm_networking together lose the guest's connections when it goes on elsewhere. "
            "If it can do with that, say when_to_transfer_output = ON_EXIT_OR_EVICT",
            "vm_checkpoint",
            "vm_networking",
        )
    return "ON_EXIT_OR_EVICT"


def outputs(job: JobDraft, listed: list[str] | None) -> list[str] | None:
    """What comes back; nothing where the job wants that."""
    if not job.is_true("VMPARAM_No_Output_VM"):
        return listed
    if listed:
        raise job.error(
            "vm_no_output_vm leaves all files where the job has run, but transfer_output_files lists some",
            "vm_no_output_vm",
            "transfer_output_files",
        )
    return []


def clauses(ad: ClassAd) -> list[tuple[str, str]]:
    """What a slot must have for it: each clause, with the attribute of the machine that it is about."""
    found = [
        (vm.HAS, f"(TARGET.{vm.HAS} =?= true)"),
        ("VM_Type", "(TARGET.VM_Type == MY.JobVMType)"),
        ("VM_AvailNum", "(TARGET.VM_AvailNum > 0)"),
        ("TotalMemory", "(TARGET.TotalMemory >= MY.JobVMMemory)"),
        ("VM_Memory", "(TARGET.VM_Memory >= MY.JobVMMemory)"),
    ]
    if ad.eval("JobVMNetworking") is True:
        found.append(("VM_Networking", "TARGET.VM_Networking"))
        if "JobVMNetworkingType" in ad:
            types = 'stringListIMember(JobVMNetworkingType,TARGET.VM_Networking_Types,",")'
            found.append(("VM_Networking_Types", types))
    if ad.eval(vm.CHECKPOINT) is True:
        found.append((vm.PLATFORM, ON_THE_SAME_KIND))
    return found
