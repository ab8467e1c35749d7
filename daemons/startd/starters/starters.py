"""The starters of this host: kept ready before they are needed, given to claims, and watched to their end.

A starter serves one claim. Forking one costs more than anything else in starting a job, so SPARE_STARTERS of them are
made beforehand, each for whichever slot needs one next (of those that share its EXECUTE). One meets the schedd of a
claim as soon as that is asked for, and is the claim's when it is granted; where there is none, one is made for it then.

* On a machine in use a spare one does once what jobs will have it do, so that the next job need not wait for that.
* What a starter is told goes out in order; one that hears nothing any more is killed.
* A starter that has ended is swept before its control group is given to the next.
* One that ended with status 0, its job reported over, has ended all its processes before: none is searched for. What
  any other left is the zygote's now, or in its control group, or found by its mark among all processes.
* Reconfigured, spare starters leave, and those with a job keep the settings that they were born with.

Source: HTCondor's manual, "The Different Roles a Machine Can Play" (a startd starts a starter for each job); that
starters are made beforehand is this pool's own.
"""

from __future__ import annotations

import math
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import trio

from daemons.base.linux import children_of
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.process.zygote import KINDS
from daemons.startd.starters.births import ORDER_TIMEOUT_S, Births, MachineParts
from daemons.startd.starters.groups import Groups
from daemons.startd.starters.keepers import KeeperLine, KeptStarter
from daemons.startd.starters.living import LivingStarter
from daemons.startd.starters.sweep import StarterRecords
from pool.base.errors import PeerError, PoolError
from pool.classad import ClassAd, Expr, expr
from protocol.messages.starter import (
    ActivationOver,
    EngineTrouble,
    GoesOn,
    ImageTrouble,
    JobInfo,
    KnowSlot,
    MayGoOn,
    MayRest,
    MeetSchedd,
    RunJob,
    ServeHomes,
    StarterAwake,
    VmStart,
)
from protocol.rpc.deadlines import LongWait
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

REFILL_PAUSE_S: Final = 0.05
IN_USE_S: Final = 600.0
"""How long after it has started a job a machine is taken for one that is in use."""
LEAVE_S: Final = 10.0
MEETING_TURNS: Final = 2
"""Turns of the loop after which a starter has been told whom to meet."""


class StarterListener(Protocol):
    """Who hears of what starters do."""

    def job_info(self, starter: LivingStarter, info: JobInfo) -> None: ...
    def activation_over(self, starter: LivingStarter, over: ActivationOver) -> None: ...
    def may_go_on(self, starter: LivingStarter, asked: MayGoOn) -> GoesOn: ...
    def starter_gone(self, starter: LivingStarter, problems: list[str]) -> None: ...


@dataclass(eq=False)
class _Coming:
    """A starter that is being made for a claim that found no spare one."""

    meeting: MeetSchedd | None
    over: trio.Event = field(default_factory=trio.Event)


class Starters:
    """Makes starters and keeps them.

    `upcoming` names the slots that will want one next, the likeliest first; `example` is the ad of such a slot, or of
    the one that it will be a part of.
    """

    def __init__(
        self,
        start: DaemonStart,
        nursery: trio.Nursery,
        records: StarterRecords,
        listener: StarterListener,
        upcoming: Callable[[int], list[str]],
        example: Callable[[], ClassAd | None],
        machine: MachineParts,
        *,
        engine_trouble: Callable[[str], None],
        vm_started: Callable[[str], None],
        image_trouble: Callable[[str], None],
    ) -> None:
        self._start = start
        self._tasks = Tasks(nursery, start.log)
        self._records = records
        self._listener = listener
        self._upcoming, self._example = upcoming, example
        self._zygote = start.world.zygote({name: KINDS[name] for name in ("starter", "homes")})
        self._births = Births(start, nursery, self._zygote, records, machine, self._answers, self._born)
        self._spares: list[LivingStarter] = []
        """They serve whoever comes first."""
        self._meeting: dict[str, LivingStarter] = {}
        """By claim id: spare ones that meet the schedd of a claim which is being asked for."""
        self._ready: dict[str, LivingStarter] = {}
        """By slot: those of claims that have had no job yet."""
        self._coming: dict[str, _Coming] = {}
        self._groups = Groups()
        self._wanted = Signal()
        self._used_until = -math.inf
        """So long spare starters rehearse: that saves the next job time, and takes memory until then."""
        self.living: set[LivingStarter] = set()
        self._engine_trouble = engine_trouble
        """Who hears that the container engine fails jobs."""
        self._vm_started = vm_started
        """Who hears how starts of virtual machines go."""
        self._image_trouble = image_trouble
        """Who hears that an image did not run."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the zygote and the spare starters; started when starters can be forked."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._zygote.run)
                Tasks(nursery, self._start.log).keep(self._keep_spares)
                task_status.started()
        finally:
            self._births.free_keepers.let_go()
            for line in [starter.line for starter in self.living if starter.line is not None]:
                line.close()

    def forget_settings(self) -> None:
        """The configuration has changed: jobs that start from now on have starters with the new one."""
        self._births.forget_settings()
        for starter in self.living:
            starter.outdated = True
        for starter in (*self._spares, *self._meeting.values(), *self._ready.values()):
            starter.leave()
        self._spares.clear()
        self._meeting.clear()
        self._ready.clear()
        self._wanted.fire()

    def run_vms_by(self, packed: Mapping[str, str]) -> None:
        """What runs virtual machines has changed."""
        self._births.run_vms_by(packed)
        self.forget_settings()

    # ---- for claims

    async def meet(self, claim_id: str, slot_name: str, meeting: MeetSchedd) -> None:
        """A claim is asked for, on this slot or a part of it: a spare starter meets its schedd meanwhile.

        It is the claim's with `prepare`, and else a spare one again with `meet_no_more`.
        """
        if claim_id not in self._meeting and (spare := self._spare_for(slot_name)) is not None:
            self._meeting[claim_id] = spare
            spare.tell(meeting)
            for _ in range(MEETING_TURNS):
                await trio.lowlevel.checkpoint()

    def meet_no_more(self, claim_id: str) -> None:
        """The claim was granted, or refused."""
        starter = self._meeting.pop(claim_id, None)
        if starter is not None and starter.usable:
            starter.tell(MeetSchedd())
            self._spares.append(starter)

    def prepare(self, claim_id: str, slot_name: str, meeting: MeetSchedd | None, slot_ad: ClassAd | None) -> None:
        """This slot was claimed: let it have a starter before it asks, and the starter know schedd and slot."""
        if slot_name in self._ready or slot_name in self._coming:  # the same claim was asked for again
            return
        met = self._meeting.pop(claim_id, None)
        if met is not None and met.usable:
            self._ready[slot_name] = met
        elif (spare := self._spare_for(slot_name)) is not None:
            self._assign(spare, slot_name, meeting)
        else:
            self._coming[slot_name] = coming = _Coming(meeting)
            self._tasks.once(self._make_for, slot_name, coming)
        if slot_ad is not None and (starter := self._ready.get(slot_name)) is not None:
            self._tasks.once(self._describe, starter, slot_ad)
        self._wanted.fire()

    async def _describe(self, starter: LivingStarter, slot_ad: ClassAd) -> None:
        """Let it know of its slot what it does not know yet."""
        if starter.peer is not None and not starter.activation:
            news = starter.news_of(slot_ad)
            try:  # at once, so that its first job has the news since then
                await starter.peer.notify(KnowSlot(slot_ad=news.changed, slot_lacks=list(news.removed)))
            except PeerError as error:
                self._start.log.full(f"The starter {starter.pid} was not told of its slot: {error}")

    async def take(self, slot_name: str) -> LivingStarter:
        """A starter for this slot, ready for its first job; SpawnError when there can be none."""
        if (coming := self._coming.get(slot_name)) is not None:
            await coming.over.wait()
        starter = self._ready.pop(slot_name, None)
        if starter is None or not starter.usable:
            starter = self._spare_for(slot_name) or await self._births.fork(self._births.execute_of(slot_name))
        self._wanted.fire()
        self._used_until = trio.current_time() + IN_USE_S
        self._births.seat(starter, slot_name)
        await self._groups.give(starter.group, starter.pid)
        return starter

    def dismiss(self, slot_name: str) -> None:
        """The slot's claim is over; a starter that waits for its first job may go."""
        self._coming.pop(slot_name, None)
        if (starter := self._ready.pop(slot_name, None)) is not None:
            starter.leave()

    async def run_job(self, starter: LivingStarter, job: RunJob) -> None:
        """Give a starter its job; PoolError when it cannot take it."""
        if starter.peer is None:
            raise PeerError("the starter is gone")
        starter.activation = job.activation
        await starter.peer.call(job, timeout=ORDER_TIMEOUT_S)

    def kill(self, starter: LivingStarter) -> None:
        """It did not do what it was told in time: end its children, then itself."""
        for child in children_of(starter.pid):
            _kill(child)
        starter.process.kill(signal.SIGKILL)

    async def end_all(self) -> None:
        """Let the starters leave; those that stay too long are killed."""
        self._used_until = -math.inf
        self._births.free_keepers.let_go()
        for starter in list(self.living):
            starter.leave()
        with trio.move_on_after(LEAVE_S):
            await self._all_gone()
        for starter in list(self.living):
            self.kill(starter)
        with trio.move_on_after(LEAVE_S):
            await self._all_gone()

    async def _all_gone(self) -> None:
        while self.living:
            await next(iter(self.living)).gone.wait()

    # ---- having them ready

    def _spare_for(self, slot_name: str) -> LivingStarter | None:
        """A spare starter, which is one no more; None when there is none that can work for the slot."""
        execute = self._births.execute_of(slot_name)
        for spare in self._spares:
            if spare.execute == execute and spare.usable:
                self._spares.remove(spare)
                return spare
        return None

    def _assign(self, starter: LivingStarter, slot_name: str, meeting: MeetSchedd | None) -> None:
        self._ready[slot_name] = starter
        if meeting is not None:
            starter.tell(meeting)

    async def _make_for(self, slot_name: str, coming: _Coming) -> None:
        try:
            starter = await self._births.fork(self._births.execute_of(slot_name))
            if self._coming.get(slot_name) is coming:
                self._assign(starter, slot_name, coming.meeting)
            else:  # the claim was over before
                self._spares.append(starter)
                self._wanted.fire()
        except PoolError as error:
            self._start.log.always(f"Cannot make a starter for {slot_name}: {error}")
        finally:
            if self._coming.get(slot_name) is coming:
                del self._coming[slot_name]
            coming.over.set()

    async def _keep_spares(self) -> None:
        while True:
            wanted = self._wanted.next()
            count = self._start.config.int("SPARE_STARTERS", default=1)
            executes = Counter(self._births.execute_of(name) for name in self._upcoming(count))
            is_used = trio.current_time() < self._used_until
            if not is_used:
                self._let_go([spare for spare in self._spares if spare.has_rehearsed])
                self._births.free_keepers.let_go()
            there = Counter(spare.execute for spare in (*self._spares, *self._meeting.values()))
            for execute in (executes - there).elements():
                await self._make_spare(execute, rehearses=is_used)
            self._let_go(self._beyond(count, executes))
            with LongWait(self._used_until - trio.current_time() if is_used else math.inf):
                await wanted.wait()
            await trio.sleep(REFILL_PAUSE_S)  # the job that was just started goes first

    def _let_go(self, spares: Iterable[LivingStarter]) -> None:
        for spare in spares:
            self._spares.remove(spare)
            spare.leave()

    def _beyond(self, count: int, wanted: Counter[str]) -> list[LivingStarter]:
        """The spare starters that are too many: those for directories that no slot needs next go first."""
        surplus = max(0, len(self._spares) - count)
        return sorted(self._spares, key=lambda spare: wanted[spare.execute] > 0)[:surplus]

    async def _make_spare(self, execute: str, *, rehearses: bool) -> None:
        try:
            spare = await self._births.fork(execute, rehearses=rehearses)
            self._spares.append(spare)
            if (example := self._example()) is not None:  # so that little is left to tell once it has a slot
                await self._describe(spare, example)
        except PoolError as error:
            self._start.log.always(f"Cannot make a starter: {error}")

    # ---- while they live

    def _answers(self, starter: LivingStarter) -> list[Answer]:
        """What this starter tells."""
        return [
            answer(JobInfo, lambda _peer, info: self._listener.job_info(starter, info)),
            answer(ActivationOver, lambda _peer, over: self._over(starter, over)),
            answer(MayGoOn, lambda _peer, asked: self._listener.may_go_on(starter, asked)),
            answer(MayRest, lambda _peer, asked: self._may_rest(starter, asked)),
            answer(ServeHomes, partial(self._births.serve_homes, starter)),
            answer(StarterAwake, lambda peer, _word: self._is_awake(starter, peer)),
            answer(EngineTrouble, lambda _peer, trouble: self._engine_trouble(trouble.reason)),
            answer(VmStart, lambda _peer, start: self._vm_started(start.problem)),
            answer(ImageTrouble, lambda _peer, trouble: self._image_trouble(trouble.reason)),
        ]

    def _over(self, starter: LivingStarter, over: ActivationOver) -> Done:
        if over.activation == starter.activation:
            starter.activation = ""
        self._listener.activation_over(starter, over)
        return DONE

    def _may_rest(self, starter: LivingStarter, asked: MayRest) -> Done:
        if starter.has_orders or starter.line is None or asked.activation != starter.activation:
            raise PeerError("the starter has orders")
        starter.rests = True
        return DONE

    def _is_awake(self, starter: LivingStarter, peer: Peer) -> None:
        starter.peer, starter.rests = peer, False
        starter.awake.fire()

    def _born(self, starter: LivingStarter) -> None:
        self.living.add(starter)
        self._tasks.once(self._watch, starter)
        if starter.line is not None:
            self._tasks.once(self._hear_keeper, starter, starter.line)

    async def _hear_keeper(self, starter: LivingStarter, line: KeeperLine) -> None:
        def wake(why: str) -> None:
            self._start.log.full(f"The starter {starter.pid} wakes: {why}")
            starter.wake()

        def metric() -> Expr | None:
            said = self._start.config.str("MEMORY_USAGE_METRIC")
            return expr(said) if self._start.config.is_set("MEMORY_USAGE_METRIC") and said else None

        await line.hear(wake, lambda info: self._listener.job_info(starter, info), metric)

    async def _watch(self, starter: LivingStarter) -> None:
        """Wait for its end, then remove what it left."""
        status = await starter.process.wait()
        if starter.peer is not None:
            if status == 0:  # it left nobody who could hold its end open, and its last word may not have been read yet
                with LongWait(LEAVE_S):
                    await starter.peer.closed.wait()
            starter.peer.abort("the starter ended")
        tidy = status == 0 and not starter.activation
        if not tidy:
            await self._zygote.kill_strays()
        is_free = tidy and starter.line is not None and starter.line.free.is_set()
        with self._groups.sweeping(starter.group, starter.pid) as with_group:
            how = {"with_group": with_group, "search": not tidy, "process_stays": is_free}
            sweep = partial(self._records.clean, starter.pid, **how)
            problems = await self._start.world.threads.run_sync(sweep)
        self._let_go_of_keeper(starter, is_free=is_free and not problems)
        starter.is_gone()
        self.living.discard(starter)
        self._forget(starter)
        self._wanted.fire()
        for problem in problems:
            self._start.log.always(f"Left behind by the starter {starter.pid}: {problem}")
        self._listener.starter_gone(starter, problems)

    def _let_go_of_keeper(self, starter: LivingStarter, *, is_free: bool) -> None:
        """Another claim's starter may be born of it."""
        kept = starter.process
        if not isinstance(kept, KeptStarter):
            return
        if is_free and trio.current_time() < self._used_until:
            self._births.free_keepers.add(kept)
        else:
            kept.line.close()

    def _forget(self, starter: LivingStarter) -> None:
        if starter in self._spares:
            self._spares.remove(starter)
        for kept in (self._meeting, self._ready):
            for key, one in list(kept.items()):
                if one is starter:
                    del kept[key]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
