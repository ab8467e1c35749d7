"""What one job's processes say to each other is what docs/architecture.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import docs
from pool.base.ids import ClaimId
from protocol.messages.offers import ClaimChange
from protocol.rpc.peer import Peer
from protocol.wire.message import Message
from tests.daemons.schedd import bench as schedd_bench
from tests.daemons.startd import schedd as startd_bench

PAGE = Path(docs.__path__[0]) / "architecture.md"
ARROW = re.compile(r"^    (\w+)->>(\w+): (\w+)$", re.MULTILINE)


def shown(*between: str) -> list[str]:
    """The messages of the page's sequence in which both of these have a part."""
    text = PAGE.read_text().partition("sequenceDiagram\n")[2].partition("```")[0]
    found = ARROW.findall(text)
    assert len(found) == len(text.strip().splitlines())
    return [name for start, end, name in found if {start, end} <= set(between)]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that processes say to each other from now on, in its order."""
    said: list[str] = []
    call, notify = Peer.call, Peer.notify

    async def heard_call(self: Peer, request: Message, **how: object) -> object:
        said.append(type(request).__name__)
        return await call(self, request, **how)  # type: ignore[arg-type]

    async def heard_notify(self: Peer, message: Message) -> None:
        said.append(type(message).__name__)
        await notify(self, message)

    monkeypatch.setattr(Peer, "call", heard_call)
    monkeypatch.setattr(Peer, "notify", heard_notify)
    return said


async def test_a_schedd_speaks_with_startd_and_starter_as_the_page_shows(
    tmp_path: Path, autojump_clock: MockClock, said: list[str]
) -> None:
    async with schedd_bench.a_bench(tmp_path) as bench:
        await bench.submit(schedd_bench.a_job(RunsFor=3))
        startd = await bench.startd()
        startd.grants = trio.Event()
        await bench.match(startd)
        await bench.until(lambda: "StarterReady" in said)  # a starter may be quicker than the grant
        startd.grants.set()
        await bench.until(lambda: bool(startd.released))
    wanted = [name for name in (*shown("schedd", "startd"), *shown("schedd", "starter")) if name != "ClaimChanged"]
    in_order = [name for name in shown("schedd", "startd", "starter") if name in wanted]
    assert [name for name in said if name in wanted] == in_order


async def test_a_startd_speaks_with_schedd_and_starter_as_the_page_shows(
    tmp_path: Path, autojump_clock: MockClock, said: list[str]
) -> None:
    async with startd_bench.a_bench(tmp_path, SPARE_STARTERS="0") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), startd_bench.a_job(RunsFor=3), early="first")
        await bench.until_running()
        await schedd.run(held, activation="first")
        await schedd.release(held, concluded=True)
        told = await schedd.until_told(ClaimChange.RELEASED)
        assert told.claim == ClaimId(held.claim_id).public()
        (starter,) = bench.farm.starters
        await starter.ended.wait()
    wanted = [*shown("schedd", "startd"), *shown("startd", "starter")]
    in_order = [name for name in shown("schedd", "startd", "starter") if name in wanted]
    heard = [name for name in said if name in wanted]
    assert sorted(heard[-2:]) == sorted(in_order[-2:])  # to two processes
    assert heard[:-2] == in_order[:-2]
