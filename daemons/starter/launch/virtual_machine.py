"""A job's virtual machine: a QEMU of the job's account, in the job's control group, that this process speaks with.

    images made -> QEMU started -> its monitor answers -> memory of a checkpoint loaded, if there is one -> it runs

To its machine it is a program like any other: it is measured, limited and ended as one, and found when its starter is
gone. What it is told goes through the monitor: to press the power button when the job has to leave, to stand still and
go on, to write its memory down.

Rules: QEMU runs as the job's account and never as root; what the job's disks have wrong puts the job on hold, all else
that keeps QEMU from running is this machine's fault; a virtual machine that was written down does not move again.

Source: HTCondor's manual, "Virtual Machine Jobs"; src/condor_starter.V6.1/vm_proc.cpp.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import trio

from daemons.host.account import Account, acting_as
from daemons.host.helpers import HelperSpawner
from daemons.host.processes import WatchedChild
from daemons.host.programs import ProgramError, run_program
from daemons.host.sandbox import read_as
from daemons.starter.launch.bare import BareBody, start_bare
from daemons.starter.launch.context import Context
from daemons.starter.launch.monitor import Monitor, MonitorError, connect
from daemons.starter.launch.terms import Terms
from daemons.starter.report.result import ActivationResult, HoldJob
from pool.base.errors import PeerError, PoolError
from pool.classad import ClassAd
from pool.execute import hypervisor as qemu
from pool.execute import vm
from pool.execute.cgroup import CgroupLimits
from pool.execute.exit import Exited, Hold
from pool.execute.plan import RunPlan
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.starter import VmStart

LOOK_S: Final = 0.02
QUIT_S: Final = 3.0
"""How long QEMU may take to close its files before it is killed."""
ORDERS_MAX: Final = 64
LOG_BYTES_MAX: Final = 8192
IMAGE_S: Final = 60.0
_LOST: Final = {
    "io-error": "its disk image can hold no more, or cannot be read or written",
    "internal-error": "it cannot go on",
}
"""States of a virtual machine out of which it does not come by itself."""


class VmFailed(PoolError):
    """This machine could not run the virtual machine."""


class VmBody(BareBody):
    """A running QEMU."""

    def __init__(self, started: WatchedChild, context: Context, monitor: Monitor, status_s: float) -> None:
        super().__init__(started, context.processes, context.group)
        self._monitor, self._status_s, self._log = monitor, status_s, context.log
        self._send, self._orders = trio.open_memory_channel[str](ORDERS_MAX)
        self._moves = trio.Lock()
        self._written = False
        self._trouble: Hold | None = None

    def signal(self, number: int) -> None:
        """Whatever the signal: the power button is pressed, and the guest shuts itself down."""
        self._order("system_powerdown")

    def suspend(self) -> None:
        """Its processors stand still, and its clock with them."""
        self._order("stop")

    def resume(self) -> None:
        """They go on."""
        self._order("cont")

    def _order(self, command: str) -> None:
        try:
            self._send.send_nowait(command)
        except trio.WouldBlock:
            self._log.always("An order to the virtual machine is left out: too many wait", order=command)

    async def attend(self) -> None:
        """Pass orders on, and look now and then whether it still can run."""
        while True:
            with trio.move_on_after(self._status_s) as patience:
                command = await self._orders.receive()
            try:
                if patience.cancelled_caught:
                    await self._ask_status()
                else:
                    await self._carry_out(command)
            except MonitorError as error:
                self._log.always("The virtual machine's monitor", problem=str(error))

    async def _carry_out(self, command: str) -> None:
        async with self._moves:
            if not self._written:
                await self._monitor.do(command)

    async def _ask_status(self) -> None:
        status = (await self._monitor.do("query-status")).get("status")
        if status in _LOST:
            reason = f"The virtual machine stands still ({status}): {_LOST[status]}"
            self._trouble = Hold(reason, HoldCode.JOB_OUT_OF_RESOURCES)
            await self.end()

    async def write_down(self) -> None:
        """Have its memory in the sandbox, as its disks are; it stands still from then on. MonitorError: it goes on."""
        async with self._moves:
            await self._monitor.do("stop")
            nodes = {"vmstate": vm.STATE_NODE, "devices": [vm.STATE_NODE], "tag": vm.TAG}
            await self._monitor.job("snapshot-save", nodes, LOOK_S)
            self._written = True

    async def load(self) -> None:
        """Go on from what was written down."""
        nodes = {"vmstate": vm.STATE_NODE, "devices": [vm.STATE_NODE], "tag": vm.TAG}
        await self._monitor.job("snapshot-load", nodes, LOOK_S)
        await self._monitor.job("snapshot-delete", {"devices": [vm.STATE_NODE], "tag": vm.TAG}, LOOK_S)
        await self._monitor.do("cont")

    async def end(self) -> None:
        """QEMU closes its files, if it still can; then nothing of it is left."""
        with trio.move_on_after(QUIT_S):
            try:
                await self._monitor.do("quit")
                await self.watched.ended.wait()
            except MonitorError:
                pass
        await super().end()

    async def outcome(self) -> Exited:
        """As that of a program."""
        self._monitor.close()
        if self._trouble is not None:
            raise HoldJob(self._trouble)
        return await super().outcome()


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
    if goes_on:
        plan = _paused(plan)
    started = await start_bare(context, plan, account, terms, limits)
    if isinstance(started, ActivationResult):
        return started
    try:
        monitor = await _monitor_of(started, account, sandbox, hypervisor.timeout_s)
        body = VmBody(started.watched, context, monitor, hypervisor.status_s)
        if goes_on:
            await body.load()
            _forget_saved(account, sandbox)
    except MonitorError as error:
        await started.end()
        said, is_the_jobs = qemu.complaint(read_as(account, os.path.join(sandbox, vm.COMPLAINTS), LOG_BYTES_MAX) or "")
        if is_the_jobs:
            reason = f"The virtual machine cannot be started: {said}"
            return ActivationResult.held(Hold(reason, HoldCode.FAILED_TO_CREATE_PROCESS))
        if goes_on:
            reason = f"The virtual machine cannot go on from its checkpoint on {context.settings.host}: {error}"
            return ActivationResult.held(Hold(reason, HoldCode.FAILED_TO_CHECKPOINT))
        return ActivationResult(Ending.FAILED, reason=f"QEMU could not be started: {said} ({error})")
    except BaseException:
        with trio.CancelScope(shield=True):
            await started.end()
        raise
    return body


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
    if vm.keeps_state(job) and not _is_there(account, sandbox, vm.STATE):
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


def _paused(plan: RunPlan) -> RunPlan:
    return replace(plan, arguments=(*plan.arguments, "-S"))


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


def _is_there(account: Account, sandbox: str, name: str) -> bool:
    with acting_as(account):
        return os.path.lexists(os.path.join(sandbox, name))


def _forget_saved(account: Account, sandbox: str) -> None:
    with acting_as(account):
        os.unlink(os.path.join(sandbox, vm.SAVED))
