"""Measures the machine when a slot's policy wants it: the jobs of BENCHMARKS_JOBLIST, run once for all slots."""

from __future__ import annotations

from daemons.daemon_core.tasks import Tasks
from daemons.host.cron_manager import CronManager
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Slot, Slots
from pool.slots.state_machine import Event


class Benchmarks:
    """Begins them, and tells the slots when they are over."""

    def __init__(self, tasks: Tasks, jobs: CronManager, slots: Slots, ads: Ads, moves: Moves) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._slots = slots
        self._ads = ads
        self._moves = moves

    def begin(self, slot: Slot) -> None:
        """The slot has gone to Benchmarking; whoever claims it meanwhile has it at once."""
        self._tasks.once(self._run, slot)

    async def _run(self, slot: Slot) -> None:
        await self._jobs.run_all()
        self._ads.benchmarked()
        self._moves.if_can(slot, Event.BENCHMARKED)
        for other in self._slots:
            self._moves.note(other)
