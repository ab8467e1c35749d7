"""condor_dagman's log says that the schedd is lost, and that it is there again."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from minipool.dagman.contact import Contact


async def test_a_loss_is_said_once_and_again_every_five_minutes(autojump_clock: MockClock) -> None:
    said: list[str] = []
    contact = Contact(said.append)
    contact.made()
    for _ in range(310):
        contact.lost("closed")
        await trio.sleep(2)
    contact.made()
    contact.made()
    assert said == [
        "Lost the schedd (closed); trying until it is there",
        "Still no schedd after 300 s (closed)",
        "Still no schedd after 600 s (closed)",
        "The schedd is there again, after 620.0 s",
    ]


async def test_one_that_was_never_there_is_none_that_is_lost(autojump_clock: MockClock) -> None:
    said: list[str] = []
    contact = Contact(said.append)
    contact.lost("connection refused")
    await trio.sleep(0.5)
    contact.made()
    assert said == [
        "No schedd yet (connection refused); trying until it is there",
        "The schedd is there again, after 0.5 s",
    ]
