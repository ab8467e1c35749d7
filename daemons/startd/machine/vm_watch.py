"""Takes virtual machines off a machine that has failed to start one, and tries after a while whether it can again.

Who starts one says how that went. What is the machine's fault costs it all further ones (HasVM false, VMOfflineReason),
so that they go elsewhere; those that run go on. The trial of the startd's beginning is made again each
VM_RECHECK_INTERVAL, and brings them back; so does one that starts all the same, and an administrator's HasVM = true.

Source: HTCondor's manual, "Virtual Machine Configuration Options" (VM_RECHECK_INTERVAL); "Configuration for Execution
Points": "When a vm Universe Job Fails to Start".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.startd.machine.findings import Findings
from daemons.startd.machine.vm_trial import VirtualMachines, find_vm
from pool.execute import vm


class VmWatch:
    """One startd's. `found`: what the first trial has shown; `tell` is told of what there is from now on."""

    def __init__(
        self, start: DaemonStart, findings: Findings, found: VirtualMachines, tell: Callable[[VirtualMachines], None]
    ) -> None:
        self._start, self._findings, self._tell = start, findings, tell
        self._config = start.config
        self._found = found
        self._off = found.problem
        """Why there are none for the time being."""
        self._news = Signal()

    @property
    def is_off(self) -> bool:
        """Whether virtual machines are wanted here, and there are none for the time being."""
        return bool(self._off)

    def started(self, problem: str) -> None:
        """One has been started, or the machine has this `problem` with it."""
        if problem:
            self._take_off(problem)
        elif self._off:
            self._bring_back(self._found)

    def wanted_back(self) -> None:
        """An administrator says that they are to be had again: at once, if the machine ever could."""
        if self._off and self._found.hypervisor is not None:
            self._bring_back(self._found)
        elif self._off:
            self._news.fire()

    async def run(self) -> None:
        """While there are none, try each VM_RECHECK_INTERVAL; for ever."""
        if self._off:
            self._findings.learn(self._facts_off())
        while True:
            news = self._news.next()
            if not self._off:
                await news.wait()
                continue
            with trio.move_on_after(self._start.config.seconds("VM_RECHECK_INTERVAL")):
                await news.wait()
            if self._off:
                self._tried(await self._start.world.threads.run_sync(find_vm, self._config))

    def _tried(self, found: VirtualMachines) -> None:
        if not self._off:
            return  # one has been started meanwhile
        if found.problem:
            self._take_off(found.problem)
        else:
            self._bring_back(found)

    def _take_off(self, problem: str) -> None:
        was_off, self._off = self._off, problem
        if problem == was_off:
            return
        self._start.log.always(f"No more virtual machines for the time being: {problem}")
        self._findings.learn(self._facts_off())
        self._tell(VirtualMachines(problem=problem))
        if not was_off:
            self._news.fire()

    def _bring_back(self, found: VirtualMachines) -> None:
        self._off, self._found = "", found
        self._start.log.always("Virtual machines can be run again.")
        no_longer = dict.fromkeys(vm.taken_off("", 0.0))
        self._findings.learn({**no_longer, **found.attributes()})
        self._tell(found)

    def _facts_off(self) -> dict[str, Any]:
        no_longer = dict.fromkeys(self._found.attributes())
        return {**no_longer, **vm.taken_off(self._off, self._start.world.wall())}
