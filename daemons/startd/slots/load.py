"""Looks at what the pool's jobs take of the processors, each time that the machine is looked at.

A job's control group counts its processor time; where there is none its processes are asked, below the starter that
collects them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from daemons.base.linux import descendants, stat_fields
from daemons.host.cgroup import processor_seconds
from daemons.startd.slots.slot import Slot, Slots
from daemons.startd.starters.living import LivingStarter
from pool.execute.cgroup import Trees
from pool.slots.load import Cores, LoadedSlot, assign_owner_load, jobs_share
from pool.slots.provision.resources import CPUS

SHORTEST_LOOK_S: Final = 0.5
"""Two looks within less time would see more of the clock's ticks than of the jobs."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_CPUS: Final = os.cpu_count() or 1


class Loads:
    """The one who knows how much of the load is whose."""

    def __init__(self, slots: Slots, trees: Trees) -> None:
        self._slots, self._trees = slots, trees
        self._looked_at = self._busy_s = self._load = self._jobs = 0.0
        self._busy = Cores()
        self._owner: dict[str, float] = {}

    def of_job(self, slot: Slot) -> float:
        """CondorLoadAvg: the load that the slot's job makes, or made until a moment ago."""
        return jobs_share(self._load, slot.cores, self._jobs, self._busy.average)

    def of_owner(self, slot: Slot) -> float:
        """The slot's part of what is not the pool's."""
        return self._owner.get(slot.name, 0.0)

    def look(self, load: float, busy_s: float, now: float) -> None:
        """The machine has this load now, and its processors were busy for so long since it was started."""
        elapsed_s = now - self._looked_at
        if self._looked_at and elapsed_s < SHORTEST_LOOK_S:
            return
        if self._looked_at:
            self._busy = self._busy.after(elapsed_s, busy_s - self._busy_s)
            for slot in self._slots:
                used_s = min(slot.used_s + self._used_since(slot.starter), _CPUS * elapsed_s)
                slot.cores, slot.used_s = slot.cores.after(elapsed_s, used_s), 0.0
        self._load, self._busy_s, self._looked_at = load, busy_s, now
        self._jobs = sum(slot.cores.average for slot in self._slots)
        owner = max(0.0, load - sum(self.of_job(slot) for slot in self._slots))
        self._owner = assign_owner_load(owner, [_place(slot) for slot in self._slots if slot.parent is None])

    def claim_over(self, slot: Slot) -> None:
        """Before its starter leaves: what a slot that goes has used stays in the average of the one it goes back to."""
        slot.used_s += self._used_since(slot.starter)
        if (parent := slot.parent) is not None:
            parent.used_s += slot.used_s
            parent.cores = replace(parent.cores, average=parent.cores.average + slot.cores.average)
            slot.used_s, slot.cores = 0.0, Cores()

    def _used_since(self, starter: LivingStarter | None) -> float:
        """The processor seconds that its jobs have taken since they were last counted."""
        if starter is None:
            return 0.0
        before = starter.cpu_s
        grouped = processor_seconds(self._trees, starter.group)
        starter.cpu_s = processes_seconds(starter.pid) if grouped is None else grouped
        return max(0.0, starter.cpu_s - before)


def _place(slot: Slot) -> LoadedSlot:
    children = [(child.name, float(child.whole.of(CPUS))) for child in slot.children.values()]
    return LoadedSlot(
        slot.name, float(slot.whole.of(CPUS)), float(slot.free.amounts.of(CPUS)), slot.state.state, children
    )


def processes_seconds(pid: int) -> float:
    """What those below a process have used, those included that it has collected."""
    own = stat_fields(pid)
    ticks = sum(map(int, own[13:15])) if own is not None else 0
    for child in descendants(pid):
        if (fields := stat_fields(child)) is not None:
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS
