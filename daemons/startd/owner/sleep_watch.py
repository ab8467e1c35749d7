"""Notices that the machine has slept, whoever sent it to sleep, and has what goes by intervals count that time too.

The clock that daemons wait by stands still while the machine sleeps. For others time has passed: a schedd that has not
heard of its claim for a lease has given the job to another machine, and what a cron job has said of this one is old.
A schedd of this machine has slept as well: it still has the job.

Source: clock_gettime(2): CLOCK_BOOTTIME and CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from daemons.daemon_core.run import DaemonStart
from daemons.host.cron_manager import CronManager
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Slot, Slots

LEAST_S: Final = 1.0
"""A shorter sleep changes nothing."""


class SleepWatch:
    """One startd's. `clock` tells how long the machine has been asleep since it was booted."""

    def __init__(
        self,
        start: DaemonStart,
        slots: Slots,
        moves: Moves,
        crons: Sequence[CronManager],
        clock: Callable[[], float],
    ) -> None:
        self._start, self._slots, self._moves, self._crons, self._clock = start, slots, moves, crons, clock
        self._known_s = clock()

    def look(self) -> None:
        """Let leases and cron jobs have what was slept since the last look."""
        before_s, self._known_s = self._known_s, self._clock()
        slept = self._known_s - before_s
        if slept < LEAST_S:
            return
        self._start.log.always(f"This machine has slept for {slept:.0f} s.")
        for slot in self._slots:
            if slot.claim is not None and not _is_held_here(slot):
                slot.claim = replace(slot.claim, lease=slot.claim.lease.aged(slept))
                self._moves.lease_changed(slot)
        for cron in self._crons:
            cron.slept(slept)


def _is_held_here(slot: Slot) -> bool:
    """Whether the schedd of the claim is on this machine: only there a connection tells the account."""
    return slot.peer is not None and slot.peer.uid is not None
