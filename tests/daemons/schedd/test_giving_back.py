"""A slot that is not needed any more is given back, whatever happens to the word that says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from tests.daemons.schedd.bench import a_bench, a_job

Clock = trio.testing.MockClock


async def test_a_startd_that_may_not_have_heard_is_told_again(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        startd.lost_releases = 3
        await bench.submit(a_job(RunsFor=10))
        await bench.match(startd)
        await bench.until_status()
        await bench.until(lambda: not startd.claims)
        assert (startd.concluded, startd.lost_releases) == ([True], 0)


@pytest.mark.parametrize("is_away", [False, True])
async def test_p5_a_schedd_that_comes_after_a_crash_gives_back_what_the_last_one_could_not(
    tmp_path: Path, autojump_clock: Clock, is_away: bool
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        startd.lost_releases = 1000
        await bench.submit(a_job(RunsFor=10))
        await bench.match(startd)
        await bench.until_status()
        await bench.until(lambda: startd.lost_releases < 1000)
        await bench.restart()
        startd.lost_releases = 2 if is_away else 0
        await bench.until(lambda: not startd.claims)
        assert startd.concluded == [True]
