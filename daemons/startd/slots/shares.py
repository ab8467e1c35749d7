"""Disk and swap are measured again at each update, and divided among the slots as the configuration divides them.

Others than jobs write to the disk as well, and what they have filled is not to be promised. What sandboxes hold counts
as free, as it was when their slots were made; what a claim was given stays its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.startd.machine.disk_limits import FoundLimits
from daemons.startd.machine.settings import machine_layout, measured_again
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.slot import Slot, Slots
from pool.base.errors import ConfigError
from pool.execute.scratch import taken_kib
from pool.slots.provision.resources import DISK
from pool.slots.provision.shape import Hardware, Layout


class Shares:
    """The one who divides again. Slot types are those that the startd began with.

    `measured` hears what there is now, as soon as it is another amount and the slots have been given it.
    """

    def __init__(
        self,
        start: DaemonStart,
        slots: Slots,
        ads: Ads,
        disk: FoundLimits,
        began_with: tuple[Hardware, Layout],
        measured: Callable[[Hardware], None],
    ) -> None:
        self._start, self._slots, self._ads, self._disk, self._measured = start, slots, ads, disk, measured
        self._config, self._execute = start.config, start.config.path("EXECUTE")
        self._hardware, layout = began_with
        self._types = _types(layout)
        self._trouble = ""

    async def run(self) -> None:
        """Look at each update, until cancelled."""
        while True:
            await trio.sleep(self._ads.settings.update_s)
            if self._ads.settings.config.bool("STARTD_RECOMPUTE_DISK_FREE"):
                await self._look()

    async def _look(self) -> None:
        measure, taken = self._start.world.threads.run_sync, self._taken()
        try:
            found = await measure(measured_again, self._config, self._execute, self._hardware, self._disk.kib, taken)
            layout = await measure(machine_layout, self._config, found)
        except (OSError, ConfigError) as error:
            self._say(f"The slots keep the disk and the swap that they have: {error}")
            return
        self._divide(found, layout)

    def _divide(self, found: Hardware, layout: Layout) -> None:
        if _types(layout) != self._types:
            why = "; ".join(layout.broken.values()) or "what did not fit at the start does now"
            self._say(f"The slots keep the disk and the swap that they have: {why}")
            return
        self._say("")
        pairs = list(zip(self._of_configuration(), layout.slots, strict=True))
        if [slot for slot, spec in pairs if self._slots.resize(slot, spec.amounts)] or found != self._hardware:
            self._hardware = found
            self._measured(found)

    def _say(self, trouble: str) -> None:
        """Into the log, once for each trouble."""
        if trouble and trouble != self._trouble:
            self._start.log.always(trouble)
        self._trouble = trouble

    def _of_configuration(self) -> Iterator[Slot]:
        return (slot for slot in self._slots if slot.parent is None)

    def _taken(self) -> dict[str, int]:
        """How much disk the sandboxes of running jobs take, by file system."""
        taken: dict[str, int] = {}
        for slot in self._slots:
            if slot.busy:
                own = taken_kib(self._disk.store, int(slot.free.amounts.of(DISK)), slot.sandbox_kib)
                taken[slot.spec.disk] = taken.get(slot.spec.disk, 0) + own
        return taken


def _types(layout: Layout) -> list[int]:
    return [one.type_id for one in layout.slots]
