"""A job's virtual machine: a QEMU of the job's account, in the job's control group, that this process speaks with.

    images made -> QEMU started -> its monitor answers -> memory of a checkpoint loaded, if there is one -> it runs

To its machine it is a program like any other: it is measured, limited and ended as one, and found when its starter is
gone. What it is told while it runs is in `vm_body`.

Rules: QEMU runs as the job's account and never as root; what the job's disks have wrong puts the job on hold, all else
that keeps QEMU from running is this machine's fault.

Source: HTCondor's manual, "Virtual Machine Jobs"; src/condor_starter.V6.1/vm_proc.cpp.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import trio

from daemons.host.account import Account, acting_as
from daemons.host.helpers import HelperSpawner
from daemons.host.programs import ProgramError, run_program
from daemons.host.sandbox import read_as
from daemons.host.tap import plugged_into
from daemons.starter.launch.bare import BareBody, start_bare
from daemons.starter.launch.context import Context
from daemons.starter.launch.monitor import Monitor, MonitorError, connect
from daemons.starter.launch.terms import Terms
from daemons.starter.launch.vm_body import LOOK_S, Qemu, VmBody, load
from daemons.starter.report.result import ActivationResult, HoldJob
from pool.base.errors import PeerError, PoolError
from pool.classad import ClassAd
from pool.execute import hypervisor as qemu
from pool.execute import vm
from pool.execute.cgroup import CgroupLimits
from pool.execute.exit import Hold
from pool.execute.plan import RunPlan
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.starter import VmStart

LOG_BYTES_MAX: Final = 8192
IMAGE_S: Final = 60.0


class VmFailed(PoolError):
    """This machine could not run the virtual machine."""


async def start_vm(
    context: Context, job: ClassAd, plan: RunPlan, account: Account, terms: Terms, limits: CgroupLimits, sandbox: str
) -> VmBody | ActivationResult:
    """The running virtual machine; or what becomes of the activation, when it does not get to run.

    What is the machine's fault ends as FAILED.
    """
    hypervisor = qemu.Hypervisor.read(context.settings.vm)
    goes_on = vm.keeps_state(job) and _is_there(account, sandbox, vm.SAVED)
    try:
        await _make_images(context, job, plan, account, hypervisor, sandbox)
    except VmFailed as error:
        return ActivationResult(Ending.FAILED, reason=str(error))
    way = _Way(context, job, plan, account, terms, limits, sandbox, hypervisor)
    started = await way.start(stands_still=goes_on or way.bridged)
    if isinstance(started, ActivationResult):
        return started
    try:
        first = await way.ready(started)
        body = VmBody(first, context, hypervisor.status_s, None if hypervisor.soft_suspend else way.again)
        if goes_on:
            await load(first.monitor)
            _forget_saved(account, sandbox)
        elif way.bridged:
            await first.monitor.do("cont")
    except MonitorError as error:
        await started.end()
        return way.failed(error, goes_on=goes_on)
    except BaseException:
        with trio.CancelScope(shield=True):
            await started.end()
        raise
    return body


@dataclass(frozen=True)
class _Way:
    """All that it takes to start QEMU for a job, once or again."""

    context: Context
    job: ClassAd
    plan: RunPlan
    account: Account
    terms: Terms
    limits: CgroupLimits
    sandbox: str
    hypervisor: qemu.Hypervisor

    @property
    def bridged(self) -> bool:
        """Whether the guest gets a card on the machine's bridge, which it is given before it begins."""
        return qemu.network_of(self.job, self.hypervisor) == vm.BRIDGE

    async def start(self, *, stands_still: bool, append: bool = False) -> BareBody | ActivationResult:
        """QEMU as a process."""
        plan = replace(self.plan, append_output=append or self.plan.append_output)
        if stands_still:
            plan = replace(plan, arguments=(*plan.arguments, "-S"))
        return await start_bare(self.context, plan, self.account, self.terms, self.limits)

    async def ready(self, started: BareBody) -> Qemu:
        """It has made its machine, and listens."""
        monitor = await _monitor_of(started, self.account, self.sandbox, self.hypervisor.timeout_s)
        if self.bridged:
            await _plug_in(monitor, self.job, self.hypervisor.bridge)
        return Qemu(started.watched, monitor)

    async def again(self) -> Qemu:
        """Another one, of a guest that was put away."""
        started = await self.start(stands_still=True, append=True)
        if isinstance(started, ActivationResult):
            raise MonitorError(started.reason)
        return await self.ready(started)

    def failed(self, error: MonitorError, *, goes_on: bool) -> ActivationResult:
        """What a QEMU that did not get so far means."""
        log = read_as(self.account, os.path.join(self.sandbox, vm.COMPLAINTS), LOG_BYTES_MAX)
        said, is_the_jobs = qemu.complaint(log or "")
        if is_the_jobs:
            reason = f"The virtual machine cannot be started: {said}"
            return ActivationResult.held(Hold(reason, HoldCode.FAILED_TO_CREATE_PROCESS))
        if goes_on:
            reason = f"The virtual machine cannot go on from its checkpoint on {self.context.settings.host}: {error}"
            return ActivationResult.held(Hold(reason, HoldCode.FAILED_TO_CHECKPOINT))
        return ActivationResult(Ending.FAILED, reason=f"QEMU could not be started: {said} ({error})")


async def tell_of_start(context: Context, activation: str, problem: str = "") -> None:
    """Let the startd know that one runs, or what this machine has against it: then no more of them come."""
    try:
        await context.startd.notify(VmStart(activation=activation, problem=problem))
    except PeerError:
        pass


def judged(result: ActivationResult, account: Account, sandbox: str) -> ActivationResult:
    """A guest that has shut itself down has ended well; a QEMU that ended otherwise is no end of the job."""
    if result.ending is not Ending.EXITED or result.ad.eval_int("ExitCode") == 0:
        return result
    said, _ = qemu.complaint(read_as(account, os.path.join(sandbox, vm.COMPLAINTS), LOG_BYTES_MAX) or "")
    return ActivationResult(Ending.FAILED, reason=f"QEMU has ended by itself: {said}")


async def saved(body: VmBody, account: Account, sandbox: str) -> None:
    """Write it down, and note that this is there to go on from."""
    await body.write_down()
    with acting_as(account):
        os.close(os.open(os.path.join(sandbox, vm.SAVED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


# ---- before it runs


async def _make_images(
    context: Context, job: ClassAd, plan: RunPlan, account: Account, hypervisor: qemu.Hypervisor, sandbox: str
) -> None:
    """What QEMU finds: a directory for its monitor, and the images that get what is not written into others."""
    with acting_as(account):
        os.makedirs(os.path.join(sandbox, vm.DIRECTORY), mode=0o700, exist_ok=True)
    commands: list[Sequence[str]] = [
        qemu.overlay_words(hypervisor.images, disk)
        for disk in vm.read_disks(job.eval_str(vm.DISKS) or "")
        if disk.overlay and not _is_there(account, sandbox, disk.overlay)
    ]
    if qemu.has_state(job, hypervisor) and not _is_there(account, sandbox, vm.STATE):
        commands.append(qemu.state_words(hypervisor.images))
    for command in commands:
        await _run(context, command, plan, account, sandbox)


async def _run(context: Context, command: Sequence[str], plan: RunPlan, account: Account, sandbox: str) -> None:
    spawner = HelperSpawner(context.processes, account)
    try:
        end = await run_program(spawner, command, environment=plan.environment, directory=sandbox, timeout_s=IMAGE_S)
    except ProgramError as error:
        raise VmFailed(str(error)) from None
    if end.timed_out:
        raise VmFailed(f"{command[0]} took more than {IMAGE_S:g} s")
    if end.status:
        said = end.stderr.strip().splitlines()
        reason = f"The virtual machine's disk image cannot be made: {said[-1] if said else end}"
        raise HoldJob(Hold(reason, HoldCode.FAILED_TO_CREATE_PROCESS))


async def _monitor_of(started: BareBody, account: Account, sandbox: str, timeout_s: float) -> Monitor:
    """QEMU's monitor, once QEMU has made its machine of all that it was told."""
    path = os.path.join(sandbox, vm.MONITOR)
    with trio.move_on_after(timeout_s):
        while (monitor := connect(account, path, timeout_s)) is None:
            if started.watched.ended.is_set():
                raise MonitorError("it has ended at once")
            await trio.sleep(LOOK_S)
        await monitor.greet()
        return monitor
    raise MonitorError(f"QEMU has not listened within {timeout_s:g} s")


async def _plug_in(monitor: Monitor, job: ClassAd, bridge: str) -> None:
    """Give a guest that has not begun its card on the machine's bridge."""
    try:
        cable = plugged_into(bridge)
    except OSError as error:
        raise MonitorError(f"the bridge {bridge} takes no virtual machine: {error.strerror}") from None
    try:
        await monitor.give("cable", cable)
    finally:
        os.close(cable)
    await monitor.do("netdev_add", {"type": "tap", "id": "net", "fd": "cable"})
    await monitor.do("device_add", qemu.bridged_card(job))


def _is_there(account: Account, sandbox: str, name: str) -> bool:
    with acting_as(account):
        return os.path.lexists(os.path.join(sandbox, name))


def _forget_saved(account: Account, sandbox: str) -> None:
    with acting_as(account):
        os.unlink(os.path.join(sandbox, vm.SAVED))
