"""File agents that are tasks: a zygote in memory whose children keep logs in a dictionary.

agents = Agents()
async with one_host(tmp_path, zygote=agents) as host: ...
agents.logs["/home/ann/log"]             # what was appended
agents.unwritable.add("/home/ann/log")   # from now on that fails, as a missing directory would
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from typing import Any

import trio

from pool.base.errors import UserError
from protocol.messages.agent import (
    AppendEvents,
    CloseTransfer,
    OpenTransfer,
    TurnGiven,
    TurnTakenBack,
)
from protocol.network.channel import Channel
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.security.identity import Link
from protocol.security.settings import SecuritySettings
from protocol.wire.message import DONE, Done
from tests.fakes.network import FakeNetwork, FakeStream, Wire

FIRST_PID = 2_000_000_000


class FakeAgent:
    """One agent, as its owner sees it."""

    def __init__(self, pid: int, agents: Agents, ours: FakeStream, theirs: FakeStream) -> None:
        self.pid = pid
        self.channel: trio.abc.Stream = theirs
        self._ours = ours
        self._agents = agents
        self.schedd: Peer | None = None
        self.given: list[str] = []
        self.taken_back: list[str] = []
        """Turns in the transfer queue, by the names that a test has given them."""
        self._ended = trio.Event()
        self._scope = trio.CancelScope()

    async def wait(self) -> int | None:
        """As a process."""
        await self._ended.wait()
        return 0

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """As a process."""
        self._scope.cancel()

    async def live(self) -> None:
        """Be an agent until killed, or alone."""
        agents = self._agents
        service = Service("agent", needs.AGENT_TO_SCHEDD)
        service.offer(
            [
                answer(AppendEvents, agents.append),
                answer(OpenTransfer, agents.open),
                answer(CloseTransfer, agents.close),
                answer(TurnGiven, lambda peer, message: self.given.append(message.turn)),
                answer(TurnTakenBack, lambda peer, message: self.taken_back.append(message.turn)),
            ]
        )
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    channel = Channel(self._ours, Link(kind="pair", label="the schedd", verified=True))
                    peer = await endpoints.open_pair(
                        nursery,
                        channel,
                        parent=False,
                        security=Security(SecuritySettings(trust_domain="pool.test")),
                        service=service,
                    )
                    self.schedd = peer
                    await peer.closed.wait()
                    nursery.cancel_scope.cancel()
        finally:
            self._ours.close()
            self._ended.set()


class Agents:
    """Makes fake agents; call it as a world calls its zygote."""

    def __init__(self) -> None:
        self.living: list[FakeAgent] = []
        self.logs: dict[str, str] = {}
        self.unwritable: set[str] = set()
        self.transfers: dict[str, str] = {}
        """Open transfers: the digest of each activation's ticket."""
        self.requests = 0
        self.stuck = False
        """While true, nothing is answered."""
        self._network = FakeNetwork()
        self._nursery: trio.Nursery | None = None

    def __call__(self, kinds: Mapping[str, str]) -> Agents:
        return self

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there; at the end all agents are gone."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self.transfers.clear()

    async def fork(
        self, kind: str, payload: bytes | Mapping[str, Any] = b"", descriptors: Iterable[int] = ()
    ) -> FakeAgent:
        """A new agent."""
        assert self._nursery is not None
        theirs, ours = Wire(self._network, frozenset({"here"})).ends()
        agent = FakeAgent(FIRST_PID + len(self.living), self, ours, theirs)
        self.living.append(agent)
        self._nursery.start_soon(agent.live)
        await trio.lowlevel.checkpoint()
        return agent

    async def append(self, _peer: Peer, request: AppendEvents) -> Done:
        """Append to the logs, as a real agent does."""
        while self.stuck:
            await trio.sleep(0.1)
        self.requests += 1
        for event in request.events:
            if event.log in self.unwritable:
                raise UserError(f"cannot write {event.log}: No such file or directory")
            known = self.logs.get(event.log, "")
            if not (event.check and event.text in known):
                self.logs[event.log] = known + event.text
        return DONE

    def open(self, _peer: Peer, request: OpenTransfer) -> Done:
        """Note the ticket."""
        self.transfers[request.activation] = request.digest
        return DONE

    def close(self, _peer: Peer, request: CloseTransfer) -> Done:
        """Forget it."""
        self.transfers.pop(request.activation, None)
        return DONE
