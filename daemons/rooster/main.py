"""The rooster: looks each ROOSTER_INTERVAL for machines that sleep and are wanted, and has a command wake them.

Which, `pool.power.rooster` decides; the command gets the ad of one of the machine's slots on its standard input. What
becomes of the machine shows when its startd is heard again: a machine that does not wake is called at the next look.

Source: HTCondor's manual, "Rooster Daemon Configuration Options" and "Returning From a Low Power State".
"""

from __future__ import annotations

import math
import os
import sys
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.base.sync import Signal, first_of
from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.host.programs import ProgramError, run_program
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.hosts.daemon_names import daemon_name
from pool.power.rooster import RoosterPolicy, Sleeper, to_wake
from protocol.messages.collector import QueryAds

OWN_COMMAND: Final = "condor_power"
COMMAND_S: Final = 60.0
"""How long a command may take."""
AT_ONCE_MAX: Final = 8
"""Most commands that run at a time."""


class Rooster:
    """The state between looks."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._policy = RoosterPolicy.read(start.config)
        self._changed = Signal()
        self._woken = self._failed = 0
        start.on_reconfigure(lambda _config: self._reconfigured())
        self._say_interval()

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            changed = self._changed.next()
            if await first_of(changed, timeout_s=self._policy.interval_s or math.inf) is None:
                await self._look()

    async def _look(self) -> None:
        log = self._start.log
        try:
            slots = await self._offline()
        except PoolError as error:
            log.always(f"Waking nobody: the collector cannot be asked for machines that sleep: {error}")
            return
        chosen = to_wake(slots, self._policy)
        log.full(f"{len(slots)} slots meet ROOSTER_UNHIBERNATE; {len(chosen)} machines are woken.")
        limit = trio.Semaphore(AT_ONCE_MAX)
        async with trio.open_nursery() as nursery:
            for sleeper in chosen:
                await limit.acquire()
                Tasks(nursery, log).once(self._wake, sleeper, limit)
        if chosen:
            self._start.adverts.refresh()

    async def _offline(self) -> list[ClassAd]:
        """The ads of slots that are wanted, as the collector has them."""
        found, pace = list[ClassAd](), Pace()
        async with collector_connected(self._start) as peer:
            async with peer.stream(QueryAds(ad_type="Machine", constraint=self._policy.wanted.text)) as batches:
                async for batch in batches:
                    for ad in batch.ads:
                        found.append(ad)
                        await pace.breathe()
        return found

    async def _wake(self, sleeper: Sleeper, limit: trio.Semaphore) -> None:
        log, name = self._start.log, sleeper.slot.eval_str("Name", "")
        log.always(f"Waking {sleeper.machine} for {name} (rank {sleeper.rank:g}).")
        try:
            done = await run_program(
                self._start.world.spawner, self._argv(), text=sleeper.slot.long(), timeout_s=COMMAND_S
            )
        except ProgramError as error:
            log.always(f"{sleeper.machine} is not woken: {error}")
            self._failed += 1
            return
        finally:
            limit.release()
        said = " ".join((done.stdout + done.stderr).split())
        if done.status == 0:
            self._woken += 1
            log.full(f"{sleeper.machine}: {said}")
        else:
            self._failed += 1
            log.always(f"{sleeper.machine} is not woken: {self._policy.command[0]} {done}: {said}")

    def _argv(self) -> list[str]:
        """The command; where there is none at the place that it names, the pool's own does its work."""
        program, *words = self._policy.command
        if os.path.basename(program) == OWN_COMMAND and not os.access(program, os.X_OK):
            return [os.path.join(os.path.dirname(sys.executable), OWN_COMMAND), *words]
        return [program, *words]

    def _reconfigured(self) -> None:
        self._policy = RoosterPolicy.read(self._start.config)
        self._say_interval()
        self._changed.fire()

    def _say_interval(self) -> None:
        interval_s = self._policy.interval_s
        self._start.log.always(
            f"Machines that sleep and are wanted are woken each {interval_s:g} s."
            if interval_s
            else "ROOSTER_INTERVAL is 0: no machine will be woken."
        )

    def ad(self) -> ClassAd:
        """The daemon's own ad."""
        name = daemon_name("", self._start.host)
        return ClassAd({"MyType": "Rooster", "Name": name, "WakeCalls": self._woken, "WakeCallsFailed": self._failed})


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Wake machines until told to stop."""
    rooster = Rooster(start)
    start.describe(rooster.ad)
    async with trio.open_nursery() as nursery:
        await nursery.start(start.serve)
        tasks = Tasks(nursery, start.log)
        tasks.keep(start.adverts.run)
        tasks.keep(rooster.run)
        task_status.started()
        await start.stopping()
        nursery.cancel_scope.cancel()
