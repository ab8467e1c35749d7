"""What a starter hears when it says that it is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from daemons.schedd.execution.shadow import Shadow
from daemons.schedd.execution.starters import Starters
from pool.base.errors import PeerError
from pool.base.ids import JobId
from pool.jobs.execution.states import Known
from protocol.messages.shadow import StarterReady

READY = StarterReady(job_id=JobId(1, 0), activation="a")


def _schedd(shadow: object | None) -> tuple[Starters, Any]:
    core = SimpleNamespace(executions=SimpleNamespace(shadows={"a": shadow} if shadow else {}))
    return Starters(cast(Any, core)), SimpleNamespace(ticket="claim")


def _claim() -> Any:
    return SimpleNamespace(public="claim", slot_name="slot1@here", alive_s=300.0)


async def test_p2_a_starter_may_run_its_job_only_when_the_execution_is_durable() -> None:
    heard: list[object] = []
    durable = trio.Event()
    shadow = SimpleNamespace(
        claim=_claim(),
        starter_ready=lambda peer, address: heard.append(peer),
        until_durable=durable.wait,
        is_given_up=False,
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
        durable.set()
        await answered.wait()


async def test_a_starter_of_an_execution_that_was_never_committed_is_refused() -> None:
    starters, peer = _schedd(None)
    with pytest.raises(PeerError):
        await starters.ready(peer, READY)


async def test_p2_a_starter_is_refused_whose_execution_is_given_up_while_it_becomes_durable() -> None:
    durable = trio.Event()
    shadow = SimpleNamespace(
        claim=_claim(), starter_ready=lambda peer, address: None, until_durable=durable.wait, is_given_up=False
    )
    starters, peer = _schedd(shadow)
    refused = trio.Event()

    async def say() -> None:
        with pytest.raises(PeerError):
            await starters.ready(peer, READY)
        refused.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
        await trio.testing.wait_all_tasks_blocked()
        shadow.is_given_up = True
        durable.set()
        await refused.wait()


def _shadow() -> Shadow:
    core = SimpleNamespace(log=SimpleNamespace(always=lambda said: None))
    claim, job = _claim(), SimpleNamespace(id="1.0")
    return Shadow(cast(Any, core), cast(Any, None), cast(Any, None), cast(Any, claim), cast(Any, job), "activation", {})


async def test_p2_a_starter_of_an_execution_that_was_given_up_is_refused() -> None:
    shadow = _shadow()
    shadow.is_lost("nobody knows")
    assert shadow.is_given_up
    starters, peer = _schedd(shadow)
    with pytest.raises(PeerError):
        await starters.ready(peer, READY)


async def test_p5_what_a_startd_said_before_it_heard_of_a_job_does_not_end_it() -> None:
    shadow = _shadow()
    shadow.slot_came_back("", Known.UNASKED)
    shadow.slot_came_back("the one before", Known.UNASKED)
    assert not shadow.is_given_up
