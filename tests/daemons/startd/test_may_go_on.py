"""Whether a job that has made a checkpoint is started again: its starter asks, and the startd says."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from protocol.messages.startd import DrainMachine
from protocol.messages.starter import GoesOn, MayGoOn
from tests.daemons.startd.schedd import a_bench, a_job
from tests.fakes.starters import FakeStarter


async def asked(starter: FakeStarter, activation: str) -> str:
    assert starter._peer is not None
    said: GoesOn = await starter._peer.call(MayGoOn(activation=activation))
    return said.why_not


@pytest.mark.parametrize("checks", ["true", "false"])
async def test_after_a_checkpoint_a_job_leaves_a_slot_that_takes_no_other(
    tmp_path: Path, autojump_clock: MockClock, checks: str
) -> None:
    knobs = {"CHECK_REACTIVATE_AFTER_CHECKPOINT": checks, "CLAIM_WORKLIFE": "600", "MaxJobRetirementTime": "9999"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), lease_s=2400)
        await schedd.run(held, a_job(RunsFor=5000), activation="act-1")
        starter = await bench.until_running()
        assert await asked(starter, "act-1") == ""
        await trio.sleep(601)
        assert await asked(starter, "act-1") == ("the claim takes no more jobs" if checks == "true" else "")
        assert await asked(starter, "another") == ""
        await schedd.peer.call(DrainMachine())
        await bench.until("Claimed/Retiring", "slot1_1")
        assert await asked(starter, "act-1") == ("slot1_1 is Claimed/Retiring" if checks == "true" else "")
