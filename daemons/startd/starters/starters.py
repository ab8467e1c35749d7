"""The starters of this host: forked by the zygote, kept ready before they are needed, told what to do, and watched.

A starter belongs to one slot and one claim. Forking one costs more than anything else in starting a job, so the
starters of the slots that will be claimed next are made beforehand (SPARE_STARTERS of them), and a claim that has none
gets one as soon as it is granted, while its schedd still prepares the activation.

* What a starter is told goes out in order; one that hears nothing any more is killed.
* A starter that has ended is swept before its control group is given to the next.
* Reconfigured, spare starters leave, and those with a job keep the settings that they were born with.

Source: HTCondor's manual, "The Different Roles a Machine Can Play" (a startd starts a starter for each job); that
starters are made beforehand is this pool's own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import trio

from daemons.base.faults import fault
from daemons.base.linux import children_of
from daemons.base.pace import LoopTurns
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.daemon_core.world import ChildProcess
from daemons.host.child_settings import group_name, payload_of_neighbour, starter_payload
from daemons.process.children import SpawnError
from daemons.process.zygote import KINDS
from daemons.startd.machine.settings import execute_directory
from daemons.startd.starters.groups import Groups
from daemons.startd.starters.sweep import StarterPlace, StarterRecords
from pool.base.errors import PeerError, PoolError
from pool.execute.cgroup import Trees
from pool.execute.scratch import Store
from protocol.messages.starter import ActivationOver, EngineTrouble, JobInfo, LeaveNow, MeetSchedd, RunJob
from protocol.network.channel import Channel
from protocol.rpc import endpoints
from protocol.rpc.service import Answer, Service, answer
from protocol.security import needs
from protocol.security.identity import Link
from protocol.wire.message import DONE, Done, Request

REFILL_PAUSE_S: Final = 0.05
LEAVE_S: Final = 10.0
ORDER_TIMEOUT_S: Final = 20.0
ORDERS_MAX: Final = 256
"""Orders that a starter has not heard yet; one that has so many ahead of it hears nothing any more, and is killed."""


class StarterListener(Protocol):
    """Who hears of what starters do."""

    def job_info(self, starter: LivingStarter, info: JobInfo) -> None: ...
    def activation_over(self, starter: LivingStarter, over: ActivationOver) -> None: ...
    def starter_gone(self, starter: LivingStarter, problems: list[str]) -> None: ...


@dataclass(eq=False)
class LivingStarter:
    """One living starter. What it is told goes out in order."""

    slot_name: str
    process: ChildProcess
    group: str = ""
    """Its jobs' control group."""
    cpu_s: float = 0.0
    """The processor seconds that its jobs were last seen to have used."""
    peer: endpoints.Peer | None = None
    activation: str = ""
    leaving: bool = False
    gone: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self._orders, self.orders = trio.open_memory_channel[Request[Done]](ORDERS_MAX)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def usable(self) -> bool:
        """Whether it can be given a job."""
        return not self.leaving and not self.gone.is_set() and self.peer is not None and not self.peer.closed.is_set()

    def tell(self, order: Request[Done]) -> None:
        """Say something; it is sent after what was said before."""
        if self.gone.is_set():
            return
        try:
            self._orders.send_nowait(order)
        except trio.WouldBlock:  # it has not heeded any for a long time
            self.process.kill(signal.SIGKILL)

    def is_gone(self) -> None:
        """Its process has ended, and what it left is removed."""
        self.gone.set()
        self._orders.close()

    def leave(self) -> None:
        """The claim is over: the starter ends when nothing runs."""
        if not self.leaving:
            self.leaving = True
            self.tell(LeaveNow())


class Starters:
    """Makes starters and keeps them. `upcoming` names the slots that will want one next, the likeliest first."""

    def __init__(
        self,
        start: DaemonStart,
        nursery: trio.Nursery,
        records: StarterRecords,
        trees: Trees,
        listener: StarterListener,
        upcoming: Callable[[int], list[str]],
        *,
        machine_memory_mb: int,
        store: Store | None = None,
        refused: Collection[str] = (),
        engine_trouble: Callable[[str], None],
    ) -> None:
        self._start = start
        self._nursery = nursery
        self._tasks = Tasks(nursery, start.log)
        self._records = records
        self._trees = trees
        self._listener = listener
        self._upcoming = upcoming
        self._memory_mb = machine_memory_mb
        self._store, self._refused = store, refused
        self._zygote = start.world.zygote({"starter": KINDS["starter"]})
        self._payloads: dict[str, bytes] = {}
        self._by_execute: dict[str, bytes] = {}
        """A payload for each EXECUTE; those of its other slots are made from it."""
        self._spares: dict[str, LivingStarter] = {}
        self._coming: dict[str, trio.Event] = {}
        self._to_meet: dict[str, MeetSchedd] = {}
        self._groups = Groups()
        self._turns = LoopTurns()
        self._wanted = Signal()
        self.living: set[LivingStarter] = set()
        self._engine_trouble = engine_trouble
        """Who hears that the container engine fails jobs."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the zygote and the spare starters; started when starters can be forked."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._zygote.run)
            Tasks(nursery, self._start.log).keep(self._keep_spares)
            task_status.started()

    def forget_settings(self) -> None:
        """The configuration has changed: starters made from now on get the new one."""
        self._payloads.clear()
        self._by_execute.clear()
        for spare in list(self._spares.values()):
            spare.leave()
        self._spares.clear()
        self._wanted.fire()

    def prepare(self, slot_name: str, meeting: MeetSchedd | None) -> None:
        """This slot was claimed: let it have a starter before it asks, and the starter its schedd."""
        spare = self._spares.get(slot_name)
        if meeting is not None:
            if spare is not None:
                spare.tell(meeting)
            else:
                self._to_meet[slot_name] = meeting
        if spare is None and slot_name not in self._coming:
            self._coming[slot_name] = trio.Event()
            self._tasks.once(self._make_spare, slot_name)
        self._wanted.fire()

    async def take(self, slot_name: str) -> LivingStarter:
        """A starter for this slot, ready for its first job; SpawnError when there can be none."""
        if (coming := self._coming.get(slot_name)) is not None:
            await coming.wait()
        self._to_meet.pop(slot_name, None)
        spare = self._spares.pop(slot_name, None)
        self._wanted.fire()
        starter = spare if spare is not None and spare.usable else await self._fork(slot_name)
        await self._groups.give(starter.group, starter.pid)
        return starter

    def dismiss(self, slot_name: str) -> None:
        """The slot is no more; a starter that waits for it may go."""
        self._to_meet.pop(slot_name, None)
        if (spare := self._spares.pop(slot_name, None)) is not None:
            spare.leave()

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

    # ---- making them

    async def _keep_spares(self) -> None:
        while True:
            wanted = self._wanted.next()
            count = self._start.config.int("SPARE_STARTERS", default=1)
            upcoming = self._upcoming(count)
            for name in upcoming:
                if name not in self._spares and name not in self._coming:
                    self._coming[name] = trio.Event()
                    await self._make_spare(name)
            for name in list(self._spares):
                if len(self._spares) > count and name not in upcoming:
                    self._spares.pop(name).leave()
            await wanted.wait()
            await trio.sleep(REFILL_PAUSE_S)  # the job that was just started goes first

    async def _make_spare(self, slot_name: str) -> None:
        try:
            self._spares[slot_name] = spare = await self._fork(slot_name)
            if (meeting := self._to_meet.pop(slot_name, None)) is not None:
                spare.tell(meeting)
        except PoolError as error:
            self._start.log.always(f"Cannot make a starter for {slot_name}: {error}")
        finally:
            self._coming.pop(slot_name).set()

    async def _fork(self, slot_name: str) -> LivingStarter:
        for last in (False, True):
            await self._turns.next()
            process = await self._zygote.fork("starter", self._payload(slot_name))
            fault("startd.starter_forked")
            place = self._place(slot_name)
            starter = LivingStarter(slot_name, process, place.group)
            try:
                await self._introduce(starter, place)
            except (PoolError, OSError, trio.BrokenResourceError) as error:
                process.kill(signal.SIGKILL)
                if last:
                    raise SpawnError(f"the starter ended before it could speak: {error}") from None
                continue
            return starter
        raise AssertionError("unreachable")

    async def _introduce(self, starter: LivingStarter, place: StarterPlace) -> None:
        self._records.write(starter.pid, place)
        service = Service("startd", needs.STARTD_TO_STARTER)
        service.offer(self._answers(starter))
        channel = Channel(starter.process.channel, Link(kind="pair", label=f"starter {starter.pid}", verified=True))
        self.living.add(starter)
        self._tasks.once(self._watch, starter)
        starter.peer = await endpoints.open_pair(
            self._nursery, channel, parent=True, security=self._start.security, service=service
        )
        self._tasks.once(self._send_orders, starter)

    def _answers(self, starter: LivingStarter) -> list[Answer]:
        """What this starter tells."""
        return [
            answer(JobInfo, lambda _peer, info: self._listener.job_info(starter, info)),
            answer(ActivationOver, lambda _peer, over: self._over(starter, over)),
            answer(EngineTrouble, lambda _peer, trouble: self._engine_trouble(trouble.reason)),
        ]

    def _over(self, starter: LivingStarter, over: ActivationOver) -> Done:
        if over.activation == starter.activation:
            starter.activation = ""
        self._listener.activation_over(starter, over)
        return DONE

    async def _send_orders(self, starter: LivingStarter) -> None:
        peer = starter.peer
        assert peer is not None
        async for order in starter.orders:
            try:
                await peer.call(order, timeout=ORDER_TIMEOUT_S)
            except PeerError as error:
                self._start.log.full(f"The starter {starter.pid} did not heed: {error}")

    async def _watch(self, starter: LivingStarter) -> None:
        """Wait for its end, then remove what it left."""
        await starter.process.wait()
        if starter.peer is not None:
            starter.peer.abort("the starter ended")
        with self._groups.sweeping(starter.group, starter.pid) as with_group:
            sweep = partial(self._records.clean, starter.pid, with_group=with_group)
            problems = await self._start.world.threads.run_sync(sweep)
        starter.is_gone()
        self.living.discard(starter)
        for name, spare in list(self._spares.items()):
            if spare is starter:
                del self._spares[name]
        self._wanted.fire()  # its slot may be the next that is claimed
        for problem in problems:
            self._start.log.always(f"Left behind by the starter {starter.pid}: {problem}")
        self._listener.starter_gone(starter, problems)

    def _payload(self, slot_name: str) -> bytes:
        if slot_name not in self._payloads:
            execute = self._place(slot_name).execute
            config = self._start.config.with_overrides({"EXECUTE": execute})
            if (known := self._by_execute.get(execute)) is not None:
                self._payloads[slot_name] = payload_of_neighbour(known, config, slot_name)
            else:
                made = starter_payload(
                    config,
                    slot_name,
                    trees=self._trees,
                    machine_memory_mb=self._memory_mb,
                    store=self._store,
                    refused=self._refused,
                )
                self._payloads[slot_name] = self._by_execute[execute] = made
        return self._payloads[slot_name]

    def _place(self, slot_name: str) -> StarterPlace:
        config = self._start.config
        number = (
            slot_name.partition("@")[0]
            .partition("_")[0]
            .lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
        )
        execute = execute_directory(config, int(number) if number.isdigit() else 0)
        group = group_name(config.with_overrides({"EXECUTE": execute}), slot_name) if self._trees.version else ""
        return StarterPlace(execute, group)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
