"""A file agent cannot read the certificate that its host gets while it runs: another takes its place."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from daemons.base.log import Log
from daemons.schedd.files.agents import Agents
from pool.jobs.queue.store import EventRow


class AnAgent:
    """An agent that does whatever it is asked."""

    address = "/run/agent.sock"

    def __init__(self) -> None:
        self.closed = trio.Event()
        self.is_outdated = False
        self.asked: list[object] = []

    async def call(self, request: Any, *, timeout: float) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)

    async def aclose(self) -> None:
        self.closed.set()
        await trio.lowlevel.checkpoint()

    kill = aclose


async def test_an_agent_with_an_earlier_certificate_is_replaced_and_has_not_failed(autojump_clock: object) -> None:
    made: list[AnAgent] = []

    async def start_agent(owner: str) -> AnAgent:
        await trio.lowlevel.checkpoint()
        made.append(AnAgent())
        return made[-1]

    async def marked() -> None:
        await trio.lowlevel.checkpoint()

    failures: list[object] = []
    agents = Agents(
        start_agent,
        Log(None),
        written=lambda rows: None,
        failed=lambda rows, reason: failures.append(reason),
        cut_off=lambda activations, reason: failures.append(reason),
        marked=marked,
        timeout=lambda: 10.0,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(agents.run)
        for seq in range(1, 9):
            agents.put([EventRow(seq, "alice", "/home/alice/log", "000\n")])
            await agents.wait("alice", seq)
            made[-1].is_outdated = True
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(made) == 8  # and she is not refused another for having lost so many
    assert [len(agent.asked) for agent in made] == [1] * 8
    assert [agent.closed.is_set() for agent in made] == [True] * 7 + [False]
    assert failures == []
