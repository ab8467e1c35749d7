"""Puts the machine to sleep when all its slots want that (HIBERNATE), and takes jobs again when it is awake.

Before it sleeps a collector has the offline ads of all slots, or it stays awake: nobody could find it to wake it. From
the moment at which they are made no slot is claimed. What the machine did not do in its sleep was to run this program,
so the call that put it to sleep returns when it is awake: then the slots' own ads take the places of the offline ones.
An hour has to pass before it sleeps again.

A machine that is switched off (S5) comes back with another startd, and that one's ads do the same.

Source: HTCondor's manual, "Power Management" and "Startd Daemon Configuration Options" (HIBERNATE_CHECK_INTERVAL).
"""

from __future__ import annotations

import math
from typing import Final

import trio

from daemons.base.sync import Signal, first_of
from daemons.daemon_core.run import DaemonStart
from daemons.host.programs import ProgramError, run_program
from daemons.startd.machine.sleep_ability import SleepAbility
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.publish import Publisher
from daemons.startd.slots.slot import Slots
from pool.power.states import SleepState, agreed, objection, vote

AWAKE_S: Final = 3600.0
"""How long a machine that was woken stays awake at the least, so that it does not go to and fro."""
TOLD_S: Final = 20.0
"""How long a collector may take to have the offline ads."""
OFF_S: Final = 300.0
"""How long a machine that was switched off may take to go down."""


class Hibernation:
    """The one who asks the slots, and has the machine sleep."""

    def __init__(
        self,
        start: DaemonStart,
        ability: SleepAbility,
        slots: Slots,
        ads: Ads,
        moves: Moves,
        publisher: Publisher,
        config_changed: Signal,
    ) -> None:
        self._start, self._ability = start, ability
        self._slots, self._ads, self._moves, self._publisher = slots, ads, moves, publisher
        self._config_changed = config_changed
        self._awake_until = -math.inf
        self._said = ""

    async def run(self) -> None:
        """Ask each HIBERNATE_CHECK_INTERVAL, for ever."""
        while True:
            changed = self._config_changed.next()
            if await first_of(changed, timeout_s=self._wait_s()) is None:
                await self._ask()

    def _wait_s(self) -> float:
        interval_s = self._start.config.seconds("HIBERNATE_CHECK_INTERVAL")
        return max(interval_s, self._awake_until - trio.current_time()) if interval_s else math.inf

    async def _ask(self) -> None:
        state = self._agreed()
        if state is SleepState.NONE:
            self._said = ""
            return
        override = self._start.config.bool("HIBERNATION_OVERRIDE_WOL")
        if why := objection(state, self._ability.states, wakeable=self._ability.wakes, override=override):
            self._say(f"HIBERNATE wants {state.name}, and nothing is done: {why}.")
            return
        self._start.log.always(f"All slots want this machine to sleep: it goes into {state.name}.")
        self._slots.asleep = state
        self._publisher.all_changed()
        self._publisher.put_now()
        self._say(await self._sleep(state))
        self._awakes()

    def _agreed(self) -> SleepState:
        """What the slots want now, with a fresh look at the machine."""
        wanted = self._start.config.expr("HIBERNATE")
        if wanted is None or self._moves.stopping:
            return SleepState.NONE
        self._ads.refresh()
        return agreed(vote(slot.state.state, wanted.eval(self._ads.for_policy(slot))) for slot in self._slots)

    async def _sleep(self, state: SleepState) -> str:
        """Return when the machine is awake again, or has not slept; why not."""
        names = [slot.name for slot in self._slots]
        with trio.move_on_after(TOLD_S) as patience:
            await self._start.adverts.has_all("Machine", names)
        if patience.cancelled_caught:
            return f"This machine stays awake: no collector has its offline ads after {TOLD_S:g} s."
        # A claim that was being granted when the offline ads were made has its slot by now.
        if self._agreed() is SleepState.NONE:
            return "This machine stays awake: not all slots want it to sleep any more."
        try:
            done = await run_program(self._start.world.spawner, (*self._ability.command, state.name))
        except ProgramError as error:
            return f"This machine does not sleep: {error}"
        if done.status != 0:
            said = done.stderr.strip() or done.stdout.strip() or "it says nothing"
            return f"This machine does not go into {state.name}: {self._ability.command[0]} {done}: {said}"
        if state is SleepState.S5:
            with trio.move_on_after(OFF_S):
                await trio.sleep_forever()
            return f"This machine was switched off, and is still up after {OFF_S:g} s."
        self._awake_until = trio.current_time() + AWAKE_S
        self._start.log.always(f"This machine is awake again, from {state.name}.")
        return ""

    def _awakes(self) -> None:
        self._slots.asleep = SleepState.NONE
        self._ads.refresh()
        self._moves.evaluate_all()
        self._publisher.all_changed()

    def _say(self, why: str) -> None:
        """Why the machine does not sleep; once, and not at each look."""
        if why and why != self._said:
            self._start.log.always(why)
        self._said = why
