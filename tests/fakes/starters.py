"""Starters that are tasks: a zygote in memory whose children speak the real protocol and pretend to run jobs.

    farm = Farm()
    async with one_host(tmp_path, zygote=farm) as host: ...
    farm.running("1.0")                      # the starter that has this job, or None

A job ad says how its job behaves: RunsFor (seconds; for ever without), LeavesIn (seconds from a soft kill; 0), Stubborn (true:
hard kills do nothing either).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import trio

from daemons.host.child_settings import StarterSettings
from pool.classad import ClassAd
from pool.classad.eval.delta import Delta, changed_by
from protocol.messages.common import StopHow
from protocol.messages.starter import (
    ActivationOver,
    ContinueJob,
    JobInfo,
    KnowSlot,
    LeaveNow,
    MeetSchedd,
    RunJob,
    StopJob,
    SuspendJob,
)
from protocol.network.channel import Channel
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.security.identity import Link
from protocol.wire.message import DONE, Done, replace
from tests.fakes.network import FakeNetwork, FakeStream, Wire

FIRST_PID = 1_000_000_000
"""Beyond any real process id, so that nothing real is ever taken for one of these."""


class FakeStarter:
    """One starter: the process as its owner sees it, and what it does."""

    def __init__(self, pid: int, ours: FakeStream, theirs: FakeStream) -> None:
        self.pid = pid
        self.channel: trio.abc.Stream = theirs
        self.met: list[str] = []
        """Schedds of claims that were asked for; empty for those that were refused."""
        self.settings: StarterSettings | None = None
        """What it was born with."""
        self.job: RunJob | None = None
        self.heard: list[str] = []
        self.stops: list[StopJob] = []
        self.jobs: list[RunJob] = []
        self.news: list[ClassAd] = []
        """What came of the slot's ad with each of them, and before them."""
        self._slot_ad = ClassAd()
        self.ended = trio.Event()
        self._ours = ours
        self._peer: Peer | None = None
        self._scope = trio.CancelScope()
        self._leave = trio.Event()
        self._stop_at = trio.CancelScope()
        self._deadline = float("inf")
        self._status = 0

    @property
    def rehearses(self) -> bool:
        """It was to do once what jobs will have it do."""
        return self.settings is not None and self.settings.rehearses

    async def wait(self) -> int | None:
        """As a process: its status once it has ended."""
        await self.ended.wait()
        return self._status

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """As a process."""
        self.heard.append(f"signal {int(signum)}")
        self._status = int(signum)
        self._scope.cancel()

    async def live(self) -> None:
        """Be a starter until told to leave, killed, or alone."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                service = Service("starter", needs.STARTER)
                service.offer(
                    [
                        answer(RunJob, lambda _, order: self._run(nursery, order)),
                        answer(StopJob, self._stop),
                        answer(SuspendJob, lambda _, order: self._note("suspend")),
                        answer(ContinueJob, lambda _, order: self._note("continue")),
                        answer(LeaveNow, lambda _, order: self._go()),
                        answer(MeetSchedd, self._meet),
                        answer(KnowSlot, self._know),
                    ]
                )
                channel = Channel(self._ours, Link(kind="pair", label="startd", verified=True))
                self._peer = await endpoints.open_pair(
                    nursery, channel, parent=False, security=Security(), service=service
                )
                nursery.start_soon(self._until_alone, self._peer)
                await self._leave.wait()
                await self._peer.aclose()
                nursery.cancel_scope.cancel()
        self._ours.close()
        self.job = None
        self.ended.set()

    async def inform(self, **attributes: object) -> None:
        """Report what the job uses."""
        assert self._peer is not None
        assert self.job is not None
        await self._peer.notify(JobInfo(activation=self.job.activation, ad=ClassAd(attributes)))

    async def _until_alone(self, peer: Peer) -> None:
        await peer.closed.wait()
        self._scope.cancel()

    def _note(self, what: str) -> Done:
        self.heard.append(what)
        return DONE

    def _go(self) -> Done:
        self.heard.append("leave")
        if self.job is None:
            self._leave.set()
        return DONE

    def _learn(self, slot_ad: ClassAd, lacks: list[str]) -> ClassAd:
        self.news.append(slot_ad)
        self._slot_ad = changed_by(self._slot_ad, Delta(slot_ad, lacks))
        return self._slot_ad

    def _meet(self, _peer: Peer, order: MeetSchedd) -> Done:
        self.met.append(order.shadow_address)
        return DONE

    def _know(self, _peer: Peer, order: KnowSlot) -> Done:
        self._learn(order.slot_ad, order.slot_lacks)
        return DONE

    def _run(self, nursery: trio.Nursery, order: RunJob) -> Done:
        order = replace(order, slot_ad=self._learn(order.slot_ad, order.slot_lacks))
        self.job = order
        self.jobs.append(order)
        self.heard.append(f"run {order.job_id}")
        self._deadline = trio.current_time() + order.job_ad.eval_float("RunsFor", float("inf"))
        nursery.start_soon(self._work, order)
        return DONE

    async def _work(self, order: RunJob) -> None:
        with trio.CancelScope(deadline=self._deadline) as self._stop_at:
            if order.job_ad.eval_float("RunsFor", 1.0):  # what ends at once tells so together with its answer
                await trio.sleep_forever()
        await self._tell_end(order)

    async def _tell_end(self, order: RunJob) -> None:
        self.job = None
        assert self._peer is not None
        await self._peer.notify(ActivationOver(activation=order.activation, reason="it ended"))
        if "leave" in self.heard:
            self._leave.set()

    def _stop(self, _peer: Peer, order: StopJob) -> Done:
        self.heard.append(f"stop {order.how.value}")
        self.stops.append(order)
        job = self.job
        if job is None or job.activation != order.activation or job.job_ad.eval_bool("Stubborn"):
            return DONE
        leaves_in = 0.0 if order.how is StopHow.FAST else job.job_ad.eval_float("LeavesIn", 0.0)
        self._stop_at.deadline = min(self._stop_at.deadline, trio.current_time() + leaves_in)
        return DONE


ORDERS: Final = frozenset(("runsfor", "leavesin", "stubborn"))
"""What a job's ad tells its fake starter, and nobody else."""


class Farm:
    """Makes fake starters; call it as a world calls its zygote."""

    def __init__(self, make: Callable[[int, FakeStream, FakeStream], FakeStarter] = FakeStarter) -> None:
        self.make = make
        self.starters: list[FakeStarter] = []
        self.failures = 0
        """How many forks from now on give a child that dies at once."""
        self.network = FakeNetwork()
        """Between all starters and the startd."""
        self._nursery: trio.Nursery | None = None

    def __call__(self, kinds: Mapping[str, str]) -> Farm:
        return self

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there; at the end all children are gone."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    async def fork(
        self, kind: str, payload: bytes | Mapping[str, Any] = b"", descriptors: Iterable[int] = ()
    ) -> FakeStarter:
        """A new starter."""
        assert self._nursery is not None
        theirs, ours = Wire(self.network, frozenset({"here"})).ends()
        starter = self.make(FIRST_PID + len(self.starters), ours, theirs)
        starter.settings = StarterSettings.unpack(payload) if isinstance(payload, bytes) else None
        self.starters.append(starter)
        if self.failures:
            self.failures -= 1
            starter.kill()
        self._nursery.start_soon(starter.live)
        await trio.lowlevel.checkpoint()
        return starter

    async def kill_strays(self) -> int:
        """Tasks leave nothing behind."""
        return 0

    def running(self, job: str) -> FakeStarter | None:
        """The living starter that has this job."""
        for starter in self.starters:
            if starter.job is not None and str(starter.job.job_id) == job and not starter.ended.is_set():
                return starter
        return None
