"""The file agents: one process per user with something to write, which opens every file that the user named.

Events reach a user's log in the order of their commits: each agent has one queue, and what gathers while a request is
under way goes out together with the next. A log that cannot be written costs its own events, not the others'.

An agent is a process of its user's, and may be stopped, killed or slow: each request has a deadline, after which
another agent takes its place, and `pool.jobs.agent_trust` says when there shall be no other. Whoever waits here waits
for one user's agent only.

HTCondor's shadow writes the log as the user (users-manual/managing-a-job, "log"); here the agent does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeVar

import trio

from daemons.base.faults import fault
from daemons.base.log import Log
from daemons.daemon_core.tasks import Tasks
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.jobs.agent_trust import AgentTrust
from pool.jobs.queue.store import EventRow
from pool.jobs.userlog.recovery import UNMARKED_MAX
from protocol.messages.agent import AppendEvents, AskUpToDate, CloseTransfer, LogEvent, OpenTransfer
from protocol.rpc.deadlines import LongWait
from protocol.rpc.remote import RemoteError, TimedOut, TooLong
from protocol.wire.message import Request

EVENTS_PER_REQUEST_MAX: Final = 500
IDLE_S: Final = 300.0
SETTLE_S: Final = 1.0
PATIENCE: Final = 2.0
"""For how many of their deadlines a user's agents may fail before there are no more of them for a while."""


R = TypeVar("R")


class NoAgent(PoolError):
    """The user cannot have an agent; `reason` is for the user."""


class AgentPeer(Protocol):
    """A running agent, and what can be asked of it."""

    async def call(self, request: Request[R], *, timeout: float) -> R: ...

    @property
    def closed(self) -> trio.Event: ...

    @property
    def address(self) -> str:
        """Where starters reach it."""

    @property
    def is_outdated(self) -> bool:
        """Whether this host's certificate was renewed since: an agent cannot read the new one."""

    async def aclose(self) -> None:
        """End it: with a word first, by force if that is not heeded."""

    async def kill(self) -> None:
        """End it by force."""


class StartAgent(Protocol):
    """Makes an agent for a user. NoAgent when there can be none; other PoolErrors when it may work later."""

    async def __call__(self, owner: str) -> AgentPeer: ...


@dataclass
class _Waiting:
    """An event on its way; `check` when it may be in the log already."""

    row: EventRow
    check: bool


class UserAgent:
    """One user's agent, started when needed."""

    def __init__(self, owner: str, agents: Agents) -> None:
        self.owner = owner
        self._agents = agents
        self._queue: deque[_Waiting] = deque()
        self._wake = trio.Event()
        self._appended = trio.Event()
        self._peer: AgentPeer | None = None
        self._replaced: AgentPeer | None = None
        self._starting = trio.Lock()
        self._trust = AgentTrust()
        self._stopped = False
        self._transfers: dict[str, OpenTransfer] = {}
        self._unmarked = 0
        """Characters that are in logs since it was last durable what is."""

    def put(self, rows: Iterable[EventRow], *, check: bool = False) -> None:
        """Append these to their logs, after all that came before."""
        self._queue.extend(_Waiting(row, check) for row in rows)
        self._wake.set()

    async def wait(self, seq: int) -> None:
        """Wait until the events up to this number have been dealt with."""
        while self._queue and self._queue[0].row.seq <= seq:
            await self._appended.wait()

    @property
    def last_seq(self) -> int:
        """The number of the last event that is still on its way; 0 when none is."""
        return self._queue[-1].row.seq if self._queue else 0

    @property
    def address(self) -> str:
        """Where starters reach it; empty while it is not there."""
        return self._peer.address if self._peer is not None and self._is_up() else ""

    # ---- transfers

    async def open_transfer(self, request: OpenTransfer) -> str:
        """Let a starter move a job's files, also through agents that come after this one; where it finds them."""
        self._transfers[request.activation] = request
        with LongWait(self._agents.timeout_s):
            peer = await self.peer()
            await self._ask(peer, request)
            return peer.address
        raise TimedOut(f"the file agent of {self.owner} does not answer")

    async def close_transfer(self, activation: str) -> None:
        """No files of this execution will move any more."""
        peer = self._peer
        if self._transfers.pop(activation, None) is not None and peer is not None and not peer.closed.is_set():
            await self._ask(peer, CloseTransfer(activation=activation))
        self._wake.set()

    async def is_up_to_date(self, job_ad: ClassAd) -> bool:
        """Whether the job need not run, as its output is newer than its input."""
        with LongWait(self._agents.timeout_s):
            return (await self._ask(await self.peer(), AskUpToDate(job_ad=job_ad))).answer
        raise TimedOut(f"the file agent of {self.owner} does not answer")

    # ---- the process

    async def peer(self) -> AgentPeer:
        """The running agent; NoAgent while the user is to have none."""
        async with self._starting:
            # A user who kills each agent as it comes would else have the schedd fork for ever.
            if self._trust.refuses(trio.current_time()):
                raise NoAgent(f"the file agent of {self.owner} does not answer, or ends by itself")
            if self._peer is not None and self._peer.is_outdated:
                self._replaced, self._peer = self._peer, None
                await self._replaced.aclose()
            if self._peer is None or not self._is_up():
                if self._peer is not None:
                    await self._peer.kill()
                self._peer = None
                self._peer = await self._start()
            return self._peer

    async def _start(self) -> AgentPeer:
        try:
            peer = await self._started()
        except NoAgent:
            raise
        except PoolError as error:
            self._failed(str(error))
            raise
        self._agents.start_soon(self._until_end, peer)
        try:
            for request in list(self._transfers.values()):
                await self._open(peer, request)
        except BaseException:
            self._agents.start_soon(peer.kill)
            raise
        return peer

    async def _started(self) -> AgentPeer:
        with LongWait(self._agents.timeout_s):
            return await self._agents.start_agent(self.owner)
        raise TimedOut(f"the file agent of {self.owner} does not say anything")

    async def _open(self, peer: AgentPeer, request: OpenTransfer) -> None:
        try:
            await self._ask(peer, request)
        except RemoteError as error:
            self._agents.log.always(f"The files of job {request.job_id} cannot move: {error}")

    def _is_up(self) -> bool:
        return self._peer is not None and not self._peer.closed.is_set()

    async def _ask(self, peer: AgentPeer, request: Request[R]) -> R:
        """The agent's answer; one that does not answer in time is ended."""
        try:
            return await peer.call(request, timeout=self._agents.timeout_s)
        except TimedOut:
            self._agents.start_soon(peer.kill)
            raise

    async def _until_end(self, peer: AgentPeer) -> None:
        """When an agent ends by itself, another is needed for the transfers that are open."""
        began = trio.current_time()
        await peer.closed.wait()
        if trio.current_time() - began >= PATIENCE * self._agents.timeout_s:
            self._trust.worked()  # until then, at least
        if not self._stopped and peer is not self._replaced:
            self._failed("it has ended")
        self._wake.set()

    def _failed(self, reason: str) -> None:
        patience_s = PATIENCE * self._agents.timeout_s
        self._agents.log.always(f"The file agent of {self.owner} failed: {reason}")
        if self._trust.failed(trio.current_time(), patience_s):
            self._agents.log.always(f"{self.owner} gets no file agent for a while")
            self._wake.set()

    async def run(self) -> None:
        """Append what is put, until there has been nothing to do for a while."""
        while True:
            with LongWait(IDLE_S) as idle:
                await self._wake.wait()
            if idle.cancelled_caught and not self._queue and not self._transfers:
                self._agents.forget(self)  # before anybody else can run: what comes now gets another agent
                await self.stop()
                return
            self._wake = trio.Event()
            while self._queue or (self._transfers and not self._is_up()):
                await trio.sleep(self._trust.pause_s)
                try:
                    await self._append_some()
                except NoAgent as error:
                    self._give_all_up(str(error))
                except PoolError as error:
                    self._agents.log.full(f"Nothing was appended for {self.owner}: {error}")
                    for waiting in self._queue:
                        waiting.check = True

    def _give_all_up(self, reason: str) -> None:
        """There is no agent: nothing waits for it any longer."""
        if self._queue:
            self._give_up(len(self._queue), reason)
        activations, self._transfers = list(self._transfers), {}
        self._agents.cut_off(activations, reason)

    async def stop(self) -> None:
        """End the process for good."""
        self._stopped = True
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.aclose()

    # ---- logs

    async def _append_some(self) -> None:
        batch = self._next_batch()
        peer = await self.peer()
        if not batch:
            return
        try:
            await self._append(peer, batch)
        except (RemoteError, TooLong) as error:  # the agent is well: it is the events
            if len(batch) == 1:
                self._give_up(1, str(error))
                return
            for waiting in batch:  # find out whose log it is
                waiting.check = True
                try:
                    await self._append(peer, [waiting])
                except (RemoteError, TooLong) as alone:
                    self._give_up(1, str(alone))
                else:
                    self._finish(1)
            return
        self._finish(len(batch))
        self._unmarked += sum(len(waiting.row.text) for waiting in batch)
        if self._unmarked >= UNMARKED_MAX:
            # An event that is in the log and not marked so is looked for in the tail after a crash, which is only so
            # long.
            await self._agents.marked()
            self._unmarked = 0

    def _next_batch(self) -> list[_Waiting]:
        """What goes out in one request."""
        batch: list[_Waiting] = []
        size = 0
        for waiting in islice(self._queue, EVENTS_PER_REQUEST_MAX):
            size += len(waiting.row.text)
            if batch and size > UNMARKED_MAX:
                break
            batch.append(waiting)
        return batch

    async def _append(self, peer: AgentPeer, batch: list[_Waiting]) -> None:
        events = [LogEvent(log=w.row.log, text=w.row.text, check=w.check) for w in batch]
        await self._ask(peer, AppendEvents(events=events))
        self._trust.worked()
        fault("schedd.event_appended")

    def _finish(self, count: int) -> None:
        rows = [self._queue.popleft().row for _ in range(count)]
        self._agents.written(rows)
        appended, self._appended = self._appended, trio.Event()
        appended.set()

    def _give_up(self, count: int, reason: str) -> None:
        lost = [self._queue[at].row for at in range(count)]
        self._finish(count)
        self._agents.failed(lost, reason)


class Agents:
    """All users' agents. `written` and `failed` are told of events that are in their logs, or never will be.

    `cut_off` is told of executions whose files cannot move, for want of an agent. `marked` returns when what `written`
    was told is durable. `timeout` says how long an agent may take to answer.
    """

    def __init__(
        self,
        start_agent: StartAgent,
        log: Log,
        *,
        written: Callable[[list[EventRow]], None],
        failed: Callable[[list[EventRow], str], None],
        cut_off: Callable[[list[str], str], None],
        marked: Callable[[], Awaitable[None]],
        timeout: Callable[[], float],
    ) -> None:
        self.start_agent = start_agent
        self.log = log
        self.written = written
        self.failed = failed
        self.cut_off = cut_off
        self.marked = marked
        self._timeout = timeout
        self._users: dict[str, UserAgent] = {}
        self._tasks: Tasks | None = None

    @property
    def timeout_s(self) -> float:
        """How long an agent may take to answer."""
        return self._timeout()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the agents until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._tasks = Tasks(nursery, self.log)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._tasks = None

    async def end(self) -> None:
        """End all agents once logs have what is on its way: with a word, and by force those that do not heed it."""
        async with trio.open_nursery() as nursery:
            tasks = Tasks(nursery, self.log)  # one agent that cannot be ended keeps no other
            for agent in list(self._users.values()):
                tasks.once(self._end, agent)

    async def _end(self, agent: UserAgent) -> None:
        await self.settled(agent.owner)
        await agent.stop()

    def start_soon(self, task: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run a task beside the agents."""
        if self._tasks is not None:  # else the schedd is on its way out, and what it started with it
            self._tasks.once(task, *args)

    def of(self, owner: str) -> UserAgent:
        """The agent of a user."""
        agent = self._users.get(owner)
        if agent is None:
            agent = self._users[owner] = UserAgent(owner, self)
            if self._tasks is not None:
                self._tasks.keep(agent.run)
        return agent

    def address_of(self, owner: str) -> str:
        """Where starters reach a user's agent; empty while there is none."""
        agent = self._users.get(owner)
        return agent.address if agent is not None else ""

    def put(self, rows: Iterable[EventRow], *, check: bool = False) -> None:
        """Append these events, each to its own user's log."""
        by_owner: dict[str, list[EventRow]] = {}
        for row in rows:
            by_owner.setdefault(row.owner, []).append(row)
        for owner, own in by_owner.items():
            self.of(owner).put(own, check=check)

    async def wait(self, owner: str, seq: int) -> None:
        """Wait until a user's event is in its log, or has been late for so long that nobody may be kept waiting."""
        agent = self._users.get(owner)
        if agent is not None:
            with LongWait(self.timeout_s):
                await agent.wait(seq)

    async def settled(self, owner: str, patience_s: float = SETTLE_S) -> None:
        """Wait until what is on its way is in a user's logs, so that he hears of no job's end before its log says so.

        A log that hangs holds him up no longer than a moment, and nobody else.
        """
        agent = self._users.get(owner)
        if agent is not None and agent.last_seq:
            with trio.move_on_after(patience_s):
                await agent.wait(agent.last_seq)

    def forget(self, agent: UserAgent) -> None:
        """It has nothing left to do."""
        if self._users.get(agent.owner) is agent:
            del self._users[agent.owner]
