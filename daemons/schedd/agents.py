"""The file agents: one process per user with something to write, which opens every file that the user named.

Events reach a user's log in the order of their commits: each agent has one queue, and what gathers while a request is
under way goes out together with the next. A log that cannot be written costs its own events, not the others'.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeVar

import trio

from daemons.faults import fault
from daemons.log import Log
from pool.errors import PoolError
from pool.jobs.log_tail import UNMARKED_MAX
from pool.jobs.store import EventRow
from protocol.message import Request
from protocol.messages.agent import AppendEvents, CloseTransfer, LogEvent, OpenTransfer

EVENTS_PER_REQUEST_MAX: Final = 500
RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 30.0
IDLE_S: Final = 300.0
APPEND_TIMEOUT_S: Final = 120.0
SETTLE_S: Final = 1.0


R = TypeVar("R")


class NoAgent(PoolError):
    """The user cannot have an agent; `reason` is for the user."""


class AgentPeer(Protocol):
    """A running agent, and what can be asked of it."""

    async def call(self, request: Request[R], *, timeout: float) -> R: ...

    @property
    def closed(self) -> trio.Event: ...

    async def aclose(self) -> None: ...


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
        self._starting = trio.Lock()
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

    async def open_transfer(self, request: OpenTransfer) -> str:
        """Let a starter move a job's files, also through agents that come after this one; where it finds them."""
        self._transfers[request.activation] = request
        peer = await self.peer()
        opened = await peer.call(request, timeout=APPEND_TIMEOUT_S)
        return opened.address

    async def close_transfer(self, activation: str) -> None:
        """No files of this execution will move any more."""
        if self._transfers.pop(activation, None) is not None and self._is_up():
            peer = await self.peer()
            await peer.call(CloseTransfer(activation=activation), timeout=APPEND_TIMEOUT_S)
        self._wake.set()

    async def peer(self) -> AgentPeer:
        """The running agent."""
        async with self._starting:
            if self._peer is None or not self._is_up():
                self._peer = peer = await self._agents.start_agent(self.owner)
                for request in list(self._transfers.values()):
                    await peer.call(request, timeout=APPEND_TIMEOUT_S)
                self._agents.start_soon(self._wake_at_end, peer)
            return self._peer

    def _is_up(self) -> bool:
        return self._peer is not None and not self._peer.closed.is_set()

    async def _wake_at_end(self, peer: AgentPeer) -> None:
        await peer.closed.wait()
        self._wake.set()

    async def run(self) -> None:
        """Append what is put, until there has been nothing to do for a while."""
        retry_s = RETRY_FIRST_S
        while True:
            with trio.move_on_after(IDLE_S) as idle:
                await self._wake.wait()
            if idle.cancelled_caught and not self._queue and not self._transfers:
                self._agents.forget(self)  # before anybody else can run: what comes now gets another agent
                await self.stop()
                return
            self._wake = trio.Event()
            while self._queue or (self._transfers and not self._is_up()):
                try:
                    await self._append_some()
                    retry_s = RETRY_FIRST_S
                except NoAgent as error:
                    self._transfers.clear()
                    if self._queue:
                        self._give_up(len(self._queue), str(error))
                except PoolError as error:
                    self._agents.log.always(f"The file agent of {self.owner} failed: {error}")
                    for waiting in self._queue:
                        waiting.check = True
                    await trio.sleep(retry_s)
                    retry_s = min(2 * retry_s, RETRY_MAX_S)

    async def stop(self) -> None:
        """End the process."""
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.aclose()

    async def _append_some(self) -> None:
        batch = self._next_batch()
        peer = await self.peer()
        if not batch:
            return
        try:
            await self._append(peer, batch)
        except PoolError as error:
            if not self._agents.is_users_fault(error):
                raise
            if len(batch) == 1:
                self._give_up(1, str(error))
                return
            for waiting in batch:  # find out whose log it is
                waiting.check = True
                try:
                    await self._append(peer, [waiting])
                except PoolError as alone:
                    if not self._agents.is_users_fault(alone):
                        raise
                    self._give_up(1, str(alone))
                else:
                    self._finish(1)
            return
        self._finish(len(batch))
        self._unmarked += sum(len(waiting.row.text) for waiting in batch)
        if self._unmarked >= UNMARKED_MAX:
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
        await peer.call(AppendEvents(events=events), timeout=APPEND_TIMEOUT_S)
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

    `marked` returns when what `written` was told is durable.
    """

    def __init__(
        self,
        start_agent: StartAgent,
        log: Log,
        *,
        written: Callable[[list[EventRow]], None],
        failed: Callable[[list[EventRow], str], None],
        is_users_fault: Callable[[PoolError], bool],
        marked: Callable[[], Awaitable[None]],
    ) -> None:
        self.start_agent = start_agent
        self.log = log
        self.written = written
        self.failed = failed
        self.is_users_fault = is_users_fault
        self.marked = marked
        self._users: dict[str, UserAgent] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the agents until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def start_soon(self, task: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run a task beside the agents."""
        assert self._nursery is not None
        self._nursery.start_soon(task, *args)

    def of(self, owner: str) -> UserAgent:
        """The agent of a user."""
        agent = self._users.get(owner)
        if agent is None:
            agent = self._users[owner] = UserAgent(owner, self)
            self.start_soon(agent.run)
        return agent

    def put(self, rows: Iterable[EventRow], *, check: bool = False) -> None:
        """Append these events, each to its own user's log."""
        by_owner: dict[str, list[EventRow]] = {}
        for row in rows:
            by_owner.setdefault(row.owner, []).append(row)
        for owner, own in by_owner.items():
            self.of(owner).put(own, check=check)

    async def wait(self, owner: str, seq: int) -> None:
        """Wait until a user's event is in its log."""
        agent = self._users.get(owner)
        if agent is not None:
            await agent.wait(seq)

    async def settled(self, patience_s: float = SETTLE_S) -> None:
        """Wait until what is on its way is in the logs, so that nobody hears of a job's end before its log says so.

        A log that hangs holds up nobody for longer than a moment.
        """
        behind = [(agent, agent.last_seq) for agent in self._users.values() if agent.last_seq]
        if behind:
            with trio.move_on_after(patience_s):
                for agent, seq in behind:
                    await agent.wait(seq)

    def forget(self, agent: UserAgent) -> None:
        """It has nothing left to do."""
        if self._users.get(agent.owner) is agent:
            del self._users[agent.owner]
