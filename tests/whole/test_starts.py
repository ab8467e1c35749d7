"""A thousand starts under one claim, by a schedd that does nothing else: what is held before is held after."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from benchmarks.launch import Held, held, launcher
from benchmarks.pool_run import Bench, bench

STARTS = 1000
SETTLED_AFTER = 200
GROWTH_MB_MAX = 4.0
"""Pages that were shared get written to; a leak of 10 kB a start would be 10 MB."""


@pytest.mark.slow
def test_a_thousand_starts_leave_no_descriptor_group_sandbox_or_memory() -> None:
    with bench({"NUM_CPUS": "2"}) as pool:
        before, after = trio.run(_starts, pool)
        trio.run(_no_sandbox, pool)
    assert after.descriptors <= before.descriptors
    assert after.groups <= before.groups
    assert after.sandboxes <= 1  # the claim's own, which is empty between its jobs
    assert after.processes <= before.processes
    assert after.pss_mb - before.pss_mb < GROWTH_MB_MAX


async def _starts(pool: Bench) -> tuple[Held, Held]:
    async with launcher(pool) as one:
        for _ in range(SETTLED_AFTER):
            await one.start()
        before = held(pool)
        for _ in range(STARTS):
            await one.start()
        with trio.fail_after(60):
            while _in_sandboxes(pool) or _holds_more(after := held(pool), before):
                await trio.sleep(0.1)
        return before, after


def _holds_more(after: Held, before: Held) -> bool:
    """As it does for a moment after a job."""
    names = ("descriptors", "groups", "processes")
    return any(getattr(after, name) > getattr(before, name) for name in names)


def _in_sandboxes(pool: Bench) -> list[Path]:
    return list((pool.directory / "execute").glob("*/*"))


async def _no_sandbox(pool: Bench) -> None:
    """The claim's schedd is gone, and with it the claim."""
    with trio.fail_after(60):
        while any((pool.directory / "execute").iterdir()):
            await trio.sleep(0.1)
