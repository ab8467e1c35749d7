"""A virtual machine that runs: what it is told by QEMU's monitor, and how it is put away and taken out again.

                    suspend                      resume
    it runs  ------------------->  put away  ------------->  it runs: another QEMU, with the memory of the first
             its memory is in the sandbox, and no QEMU is there

So a suspended job leaves the machine's memory to others. Where VM_SOFT_SUSPEND is true, or its memory cannot be
written, its processors only stand still. To all others it is one program all the while, which ends once.

Rules: a virtual machine that was written down to go on elsewhere does not move again; of two orders the second waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import trio

from daemons.host.processes import WatchedChild
from daemons.starter.launch.bare import BareBody
from daemons.starter.launch.context import Context
from daemons.starter.launch.monitor import Monitor, MonitorError
from daemons.starter.report.result import HoldJob
from pool.execute import vm
from pool.execute.exit import Exited, Hold
from pool.jobs.vocabulary.hold_codes import HoldCode

LOOK_S: Final = 0.02
QUIT_S: Final = 3.0
"""How long QEMU may take to close its files before it is killed."""
ORDERS_MAX: Final = 64
_LOST: Final = {
    "io-error": "its disk image can hold no more, or cannot be read or written",
    "internal-error": "it cannot go on",
}
"""States of a virtual machine out of which it does not come by itself."""
_NODES: Final = {"vmstate": vm.STATE_NODE, "devices": [vm.STATE_NODE], "tag": vm.TAG}
"""Where its memory is written, and by which name."""


class Qemu(NamedTuple):
    """One QEMU, and the way to tell it things."""

    child: WatchedChild
    monitor: Monitor


class VmBody(BareBody):
    """A running virtual machine. `again` starts another QEMU of it, which stands still; None where none is needed."""

    def __init__(
        self, qemu: Qemu, context: Context, status_s: float, again: Callable[[], Awaitable[Qemu]] | None
    ) -> None:
        super().__init__(WatchedChild(qemu.child.pid), context.processes, context.group)
        self._qemu, self._again = qemu, again
        self._status_s, self._log = status_s, context.log
        self._send, self._orders = trio.open_memory_channel[str](ORDERS_MAX)
        self._moves = trio.Lock()
        self._written = self._is_over = False
        self._is_back: trio.Event | None = None
        """There while it is put away; set when it is not any more."""
        self._trouble: Hold | None = None

    # ---- what it is told

    def signal(self, number: int) -> None:
        """Whatever the signal: the power button is pressed, and the guest shuts itself down."""
        self._order("system_powerdown")

    def suspend(self) -> None:
        """It is put away, or its processors stand still, and its clock with them."""
        self._order("stop")

    def resume(self) -> None:
        """It goes on."""
        self._order("cont")

    def _order(self, command: str) -> None:
        try:
            self._send.send_nowait(command)
        except trio.WouldBlock:
            self._log.always("An order to the virtual machine is left out: too many wait", order=command)

    async def attend(self) -> None:
        """Pass orders on, look now and then whether it still can run, and see its end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_ended)
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

    async def _until_ended(self) -> None:
        """A QEMU that ends while it is put away is not the end of it."""
        while True:
            await self._qemu.child.ended.wait()
            if self._is_back is None or self._is_over:
                break
            await self._is_back.wait()
        self.watched.status = self._qemu.child.status
        self.watched.ended.set()

    async def _carry_out(self, command: str) -> None:
        async with self._moves:
            if self._written or self._is_over:
                return
            if self._is_back is not None:
                if command == "stop":
                    return
                await self._take_out()
                if command == "cont" or self._is_over:
                    return
            await self._qemu.monitor.do(command)
            if command == "stop" and self._again is not None:
                await self._put_away()

    async def _ask_status(self) -> None:
        if self._is_back is not None:
            return
        status = (await self._qemu.monitor.do("query-status")).get("status")
        if status in _LOST:
            reason = f"The virtual machine stands still ({status}): {_LOST[status]}"
            await self._give_up(Hold(reason, HoldCode.JOB_OUT_OF_RESOURCES))

    async def _give_up(self, why: Hold) -> None:
        self._trouble = why
        await self.end()

    # ---- its memory

    async def _put_away(self) -> None:
        """It stands still: have its memory in the sandbox, and no QEMU."""
        began = trio.current_time()
        try:
            await self._qemu.monitor.job("snapshot-save", _NODES, LOOK_S)
        except MonitorError as error:
            self._log.always("The suspended virtual machine keeps its memory", problem=str(error))
            return
        self._is_back = trio.Event()
        await self._quit()
        if not self._qemu.child.ended.is_set():
            await super().end()
        self._qemu.monitor.close()
        self._log.always("The virtual machine is put away", seconds=trio.current_time() - began)

    async def _take_out(self) -> None:
        """Have it run in another QEMU, from where it was."""
        assert self._again is not None
        assert self._is_back is not None
        began = trio.current_time()
        try:
            self._qemu = await self._again()
            await load(self._qemu.monitor)
        except MonitorError as error:
            reason = f"The virtual machine cannot go on after it was suspended: {error}"
            await self._give_up(Hold(reason, HoldCode.FAILED_TO_CHECKPOINT))
            return
        back, self._is_back = self._is_back, None
        back.set()
        self._log.always("The virtual machine is taken out again", seconds=trio.current_time() - began)

    async def write_down(self) -> None:
        """Have its memory in the sandbox, as its disks are; it stands still from then on. MonitorError: it goes on."""
        async with self._moves:
            if self._is_back is None:
                await self._qemu.monitor.do("stop")
                await self._qemu.monitor.job("snapshot-save", _NODES, LOOK_S)
            self._written = True

    # ---- its end

    async def _quit(self) -> None:
        """Have QEMU close its files and end, if it still can."""
        with trio.move_on_after(QUIT_S):
            try:
                await self._qemu.monitor.do("quit")
                await self._qemu.child.ended.wait()
            except MonitorError:
                pass

    async def end(self) -> None:
        """QEMU closes its files, if it still can; then nothing of it is left."""
        self._is_over = True
        if self._is_back is None:
            await self._quit()
        await super().end()
        if self._is_back is not None:
            self._is_back.set()

    async def outcome(self) -> Exited:
        """As that of a program."""
        self._qemu.monitor.close()
        if self._trouble is not None:
            raise HoldJob(self._trouble)
        return await super().outcome()


async def load(monitor: Monitor) -> None:
    """Have a QEMU that stands still go on from the memory that was written, which is written no more then."""
    await monitor.job("snapshot-load", _NODES, LOOK_S)
    await monitor.job("snapshot-delete", {"devices": [vm.STATE_NODE], "tag": vm.TAG}, LOOK_S)
    await monitor.do("cont")
