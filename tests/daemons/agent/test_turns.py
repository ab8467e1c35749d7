"""An agent's turns in the schedd's queue: asked for, used, and given back whoever goes away."""

from __future__ import annotations

import pytest
import trio

from protocol.messages.agent import FetchInput, FileEntry, PushOutput, PushTaken, TurnGiven, TurnTakenBack
from protocol.messages.schedd import AskTurn, EndTurn
from protocol.rpc import endpoints
from tests.daemons.agent.test_agent import _open
from tests.daemons.starter.bench import Bench, bench

LARGE = [FileEntry(name="half", size=200_000_000)]


async def _ask_to_push(b: Bench, peer: endpoints.Peer, got: list[PushTaken]) -> None:
    got.append(await peer.call(PushOutput(activation="activation", files=LARGE), timeout=None))


async def test_little_moves_without_a_turn() -> None:
    async with bench(agent=True, start=False) as b:
        address = await _open(b)
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            await peer.call(PushOutput(activation="activation", files=[FileEntry(name="x", size=100)]))
        assert not [message for message in b.heard if isinstance(message, AskTurn)]


async def test_a_starter_that_goes_while_it_waits_waits_no_more() -> None:
    async with bench(agent=True, start=False) as b:
        address = await _open(b)
        got: list[PushTaken] = []
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_ask_to_push, b, peer, got)
                asked = await b.until(AskTurn)
                assert (asked.activation, asked.upload, asked.size) == ("activation", False, 200_000_000)
                nursery.cancel_scope.cancel()
            peer.abort("gone")
        assert (await b.until(EndTurn)).turn == asked.turn
        assert not got


async def test_a_turn_ends_with_the_connection_that_it_is_for() -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        address = await _open(b)
        got: list[PushTaken] = []
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_ask_to_push, b, peer, got)
                asked = await b.until(AskTurn)
                assert not got
                await b.agent.notify(TurnGiven(turn=asked.turn))
            assert len(got) == 1
            assert not [message for message in b.heard if isinstance(message, EndTurn)]
            peer.abort("gone")
        assert (await b.until(EndTurn)).turn == asked.turn


async def test_a_turn_that_is_taken_back_ends_its_transfer_and_the_next_attempt_asks_again() -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        address = await _open(b)
        got: list[PushTaken] = []
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_ask_to_push, b, peer, got)
                first = await b.until(AskTurn)
                await b.agent.notify(TurnGiven(turn=first.turn))
            await b.agent.notify(TurnTakenBack(turn=first.turn))
            with trio.fail_after(60):
                await peer.closed.wait()
        assert (await b.until(EndTurn)).turn == first.turn
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_ask_to_push, b, peer, got)
                assert (await b.until(AskTurn, count=2)).turn != first.turn
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_given", [True, False])
async def test_input_waits_for_its_turn_and_keeps_it_while_it_moves(is_given: bool) -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        with open(b.iwd / "large", "wb") as file:
            file.truncate(150_000_000)
        address = await _open(b, TransferInput="large")
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: peer.call(FetchInput(activation="activation"), timeout=None))
                asked = await b.until(AskTurn)
                assert asked.upload
                if is_given:
                    await b.agent.notify(TurnGiven(turn=asked.turn))
                    await peer.bulk.next()
                    assert not [message for message in b.heard if isinstance(message, EndTurn)]
                else:
                    nursery.cancel_scope.cancel()
            peer.abort("gone")
        assert (await b.until(EndTurn)).turn == asked.turn
