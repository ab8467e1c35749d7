"""What rehearsals have in their ads is what ads of jobs and slots have in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trio.testing import MockClock

from daemons.starter.usual_ads import usual_job, usual_slot
from pool.classad import ClassAd
from tests.daemons.startd.schedd import a_bench
from tests.pool.submit.build import Place

MOSTLY = 0.9


def known(ad: Iterable[str], usual: ClassAd) -> float:
    """The part of an ad's names that a usual ad has."""
    names = list(ad)
    return sum(name in usual for name in names) / len(names)


def test_a_usual_job_has_nearly_all_names_of_a_job_that_was_submitted(tmp_path: Path) -> None:
    ad = Place(tmp_path, {}).ad("executable = /bin/true\nlog = log\nqueue\n")
    assert (
        known(ad, usual_job({"Cmd": "", "Iwd": "", "Owner": "", "User": "", "In": "", "Out": "", "Err": ""})) > MOSTLY
    )


async def test_a_usual_slot_has_nearly_all_names_of_a_startds(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held)).started
        await bench.until("Claimed/Busy", held.slot)
        ad = (await bench.ads())["slot1_1"]
    assert known(ad, usual_slot({"Name": "", "MachineResources": ""})) > MOSTLY
