"""What a starter hears when it says that it is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from daemons.schedd.starters import Starters
from pool.errors import PeerError
from pool.ids import JobId
from protocol.messages.schedd import StarterReady
from protocol.service import Service

READY = StarterReady(job_id=JobId(1, 0), activation="a")


def _schedd(shadow: object | None) -> tuple[Starters, Any]:
    core = SimpleNamespace(start=SimpleNamespace(service=Service("schedd")), shadows={"a": shadow} if shadow else {})
    return Starters(cast(Any, core)), SimpleNamespace(ticket="claim")


async def test_p2_a_starter_may_run_its_job_only_when_the_execution_is_durable() -> None:
    heard: list[object] = []
    shadow = SimpleNamespace(
        claim=SimpleNamespace(public="claim"),
        starter_ready=lambda peer, address: heard.append(peer),
        durable=trio.Event(),
    )
    starters, peer = _schedd(shadow)
    answered = trio.Event()

    async def say() -> None:
        await starters.ready(peer, READY)
        answered.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [peer]
        assert not answered.is_set()
        shadow.durable.set()
        await answered.wait()


async def test_a_starter_of_an_execution_that_was_never_committed_is_refused() -> None:
    starters, peer = _schedd(None)
    with pytest.raises(PeerError):
        await starters.ready(peer, READY)
