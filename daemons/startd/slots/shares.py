"""Disk and swap are measured again at each update, and divided among the slots as the configuration divides them.

Others than jobs write to the disk as well, and what they have filled is not to be promised. What sandboxes hold counts
as free, as it was when their slots were made; what a claim was given stays its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from daemons.startd.machine.settings import machine_layout, measured_again
from pool.base.errors import ConfigError
from pool.execute.scratch import taken_kib
from pool.slots.provision.resources import DISK
from pool.slots.provision.shape import Hardware, Layout

if TYPE_CHECKING:
    from daemons.startd.main import Startd
    from daemons.startd.slots.slot import Slot


class Shares:
    """The one who divides again. Slot types are those that the startd began with."""

    def __init__(self, startd: Startd) -> None:
        self._startd = startd
        self._config, self._hardware = startd.start.config, startd.hardware
        self._trouble = ""

    async def run(self) -> None:
        """Look at each update, until cancelled."""
        while True:
            await trio.sleep(self._startd.ads.settings.update_s)
            if self._startd.ads.settings.config.bool("STARTD_RECOMPUTE_DISK_FREE"):
                await self._look()

    async def _look(self) -> None:
        startd = self._startd
        measure = startd.start.world.threads.run_sync
        taken = self._taken()
        try:
            found = await measure(measured_again, self._config, startd.execute, self._hardware, startd.disk.kib, taken)
            layout = await measure(machine_layout, self._config, found)
        except (OSError, ConfigError) as error:
            self._say(f"The slots keep the disk and the swap that they have: {error}")
            return
        self._divide(found, layout)

    def _divide(self, found: Hardware, layout: Layout) -> None:
        startd = self._startd
        if [one.type_id for one in layout.slots] != [one.type_id for one in startd.layout.slots]:
            why = "; ".join(layout.broken.values()) or "what did not fit at the start does now"
            self._say(f"The slots keep the disk and the swap that they have: {why}")
            return
        self._say("")
        pairs = list(zip(self._of_configuration(), layout.slots, strict=True))
        if [slot for slot, spec in pairs if startd.slots.resize(slot, spec.amounts)] or found != self._hardware:
            self._hardware = found
            startd.measured(found)

    def _say(self, trouble: str) -> None:
        """Into the log, once for each trouble."""
        if trouble and trouble != self._trouble:
            self._startd.start.log.always(trouble)
        self._trouble = trouble

    def _of_configuration(self) -> Iterator[Slot]:
        return (slot for slot in self._startd.slots if slot.parent is None)

    def _taken(self) -> dict[str, int]:
        """How much disk the sandboxes of running jobs take, by file system."""
        taken: dict[str, int] = {}
        for slot in self._startd.slots:
            if slot.busy:
                own = taken_kib(self._startd.disk.store, int(slot.free.amounts.of(DISK)), slot.sandbox_kib)
                taken[slot.spec.disk] = taken.get(slot.spec.disk, 0) + own
        return taken
