"""The defragmenter: looks at the pool each DEFRAG_INTERVAL, calls drains off that have done what they were for, and has
other machines drain, as many as DEFRAG_DRAINING_MACHINES_PER_HOUR says.

Which, `pool.defrag` decides; startds do it. When it last looked is in DEFRAG_STATE_FILE before it acts: one that falls
and is started again drains rather too few machines than too many.

Source: HTCondor's manual, "Defragmenting Dynamic Slots".
"""

from __future__ import annotations

import math
from pathlib import Path

import trio

from daemons.base.layout import publish
from daemons.base.sync import Signal, first_of
from daemons.daemon_core.locate import nearest
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.defrag.looking import survey
from pool.base.errors import PoolError
from pool.classad import ClassAd, parse_long
from pool.defrag.figures import DefragStatistics
from pool.defrag.plan import DefragPlan, decide
from pool.defrag.policy import DefragPolicy
from pool.defrag.rate import Rate
from pool.defrag.survey import SeenSlot, Survey
from pool.hosts.daemon_names import daemon_name
from protocol.messages.startd import CancelDrain, DrainMachine
from protocol.rpc import endpoints
from protocol.wire.message import Request


class Defrag:
    """The state between looks."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._name = daemon_name(start.config.str("DEFRAG_NAME"), start.host)
        self._policy = DefragPolicy.read(start.config, self._name)
        self._file = Path(start.config.path("DEFRAG_STATE_FILE"))
        self._statistics = DefragStatistics(start.started_at)
        self._last = self._load()
        self._changed = Signal()
        start.on_reconfigure(lambda _config: self._reconfigured())
        self._say_rate()

    async def run(self) -> None:
        """Look at the pool, for ever."""
        while True:
            changed = self._changed.next()
            if await first_of(changed, timeout_s=self._wait_s()) is None:
                await self._look()

    def _wait_s(self) -> float:
        """How long until the next look."""
        if not self._policy.interval_s:
            return math.inf
        since_s = self._start.world.wall() - self._last
        # One that lies in the future is of a clock that was set.
        return self._policy.interval_s - since_s if 0 <= since_s < self._policy.interval_s else 0.0

    async def _look(self) -> None:
        start, policy, now = self._start, self._policy, self._start.world.wall()
        due = Rate.of(policy.machines_per_hour, policy.interval_s).due(self._last, now)
        self._last = now
        self._save()
        try:
            seen = await survey(start, policy)
        except PoolError as error:
            start.log.always(f"Doing nothing: the collector cannot be asked for the pool's machines: {error}")
            return
        self._statistics.look(seen, now)
        self._say_seen(seen)
        # A startd that does not answer holds up the others, and never the next look.
        with trio.move_on_after(policy.interval_s):
            await self._carry_out(decide(seen, policy, due, start.world.rng))
        start.adverts.refresh()

    async def _carry_out(self, plan: DefragPlan) -> None:
        log = self._start.log
        for slot in plan.cancel:
            await self._call_off(slot)
        draining = 0
        for slot in plan.candidates:
            if draining >= plan.wanted:
                break
            draining += await self._drain(slot)
        if plan.why:
            log.always(f"Draining no further machine: {plan.why}.")
        else:
            log.always(f"{draining} machines drain, of {plan.wanted} wanted and {len(plan.candidates)} that may.")

    async def _drain(self, slot: SeenSlot) -> bool:
        """Whether the startd drains."""
        policy, now = self._policy, self._start.world.wall()
        self._start.log.always(
            f"Draining {slot.name} ({policy.schedule.name.lower()}): rank {slot.rank:g}, expected to take"
            f" {slot.completion_at - now:.0f} s and to cost {slot.badput} cpu-seconds."
        )
        request = DrainMachine(
            how_fast=policy.schedule,
            on_completion="resume",
            reason=policy.reason,
            check=slot.check,
            start=policy.start.text if policy.start is not None else None,
        )
        worked = await self._tell(slot, request)
        self._statistics.drained(slot.name, policy, now, worked=worked)
        return worked

    async def _call_off(self, slot: SeenSlot) -> None:
        """Cancel the drain that was seen, and no other that has been ordered since."""
        self._start.log.always(f"Cancelling the drain of {slot.name}: DEFRAG_CANCEL_REQUIREMENTS is true.")
        if await self._tell(slot, CancelDrain(request_id=slot.drain_id)):
            self._statistics.cancelled(slot.name, self._start.world.wall())

    async def _tell(self, slot: SeenSlot, request: Request[object]) -> bool:
        """Whether the startd does what it is told."""
        start = self._start
        try:
            where = nearest(start.config, slot.address)
            async with endpoints.connected(where, security=start.security, network=start.world.network) as peer:
                await peer.call(request)
        except PoolError as error:
            start.log.always(f"The startd of {slot.name} does not: {error}")
            return False
        return True

    # ---- what is kept and shown

    def _load(self) -> float:
        """When the pool was last looked at; 0 where nobody knows."""
        file = self._file
        try:
            return parse_long(file.read_text()).eval_float("LastPoll", 0.0)
        except FileNotFoundError:
            return 0.0
        except (OSError, ValueError, PoolError) as error:
            self._start.log.error(f"{file} cannot be read, so the pool is looked at as if for the first time: {error}")
            return 0.0

    def _save(self) -> None:
        try:
            publish(self._file, ClassAd({"LastPoll": int(self._last)}).long())
        except OSError as error:
            self._start.log.error(f"When the pool was last looked at cannot be kept in {self._file}: {error}")

    def _reconfigured(self) -> None:
        self._policy = DefragPolicy.read(self._start.config, self._name)
        self._say_rate()
        self._changed.fire()

    def _say_rate(self) -> None:
        policy, log = self._policy, self._start.log
        if not policy.interval_s:
            log.always("DEFRAG_INTERVAL is 0: no machine will be drained.")
            return
        rate = Rate.of(policy.machines_per_hour, policy.interval_s)
        log.always(
            f"DEFRAG_DRAINING_MACHINES_PER_HOUR = {policy.machines_per_hour:g}: {rate.each_look} machines are drained"
            f" each {policy.interval_s:g} s, {rate.each_hour} more an hour and {rate.each_day} more a day."
        )

    def _say_seen(self, seen: Survey) -> None:
        log, draining, whole = self._start.log, sorted(seen.draining), sorted(seen.whole)
        log.always(f"There are {len(draining)} draining and {len(whole)} whole machines.")
        log.full(f"Draining: {', '.join(draining) or 'none'}. Whole: {', '.join(whole) or 'none'}.")

    def ad(self) -> ClassAd:
        """The daemon's own ad."""
        shown = self._statistics.attributes(self._policy, self._start.world.wall())
        return ClassAd({"MyType": "Defrag", "Name": self._name, **shown})


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Look and drain until told to stop; what drains then goes on."""
    defrag = Defrag(start)
    start.describe(defrag.ad)
    async with trio.open_nursery() as nursery:
        await nursery.start(start.serve)
        tasks = Tasks(nursery, start.log)
        tasks.keep(start.adverts.run)
        tasks.keep(defrag.run)
        task_status.started()
        await start.stopping()
        nursery.cancel_scope.cancel()
