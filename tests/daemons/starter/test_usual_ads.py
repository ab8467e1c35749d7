"""What rehearsals have in their ads is what ads of jobs and slots have in them."""

from __future__ import annotations

import subprocess
import sys
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


def test_the_jobs_of_a_rehearsal_run_to_their_end() -> None:
    program = (
        "from protocol.messages.shadow import JobEnded\n"
        "from daemons.starter import rehearsal\n"
        "said, say = [], rehearsal._say\n"
        "rehearsal._say = lambda peer, message: [said.append(message), say(peer, message)][1]\n"
        "rehearsal.once_more()\n"
        "print(*((one.ending.value, one.ad.eval('ExitCode')) for one in said if isinstance(one, JobEnded)))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[0] == "('exited', 0) ('exited', 0)"
