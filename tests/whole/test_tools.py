"""Tools that do a whole thing by themselves, on a real pool: run a command, find a host, give the collector ads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=2) as started:
        home = started.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        yield started


def ran(pool: RealPool, *argv: str, text: str = "", user: str | None = None) -> tuple[int, str, str]:
    """A verb of `pool`: exit status and what it printed."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("pool")), *argv],
        cwd=pool.directory / "home",
        env={**pool.env(), "SHELL": "/bin/sh"},
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        **as_account(user),
    )
    return done.returncode, done.stdout, done.stderr


def test_a_command_runs_as_a_job_and_its_output_and_status_are_the_tools(pool: RealPool) -> None:
    command = "echo out; echo err >&2; exit 7"
    assert ran(pool, "run", command, user=pool.user) == (7, "out\n", "err\n")
    assert ran(pool, "run", "kill -9 $$", user=pool.user) == (137, "", "Condor job killed by signal 9.\n")
    assert ran(pool, "run", "-a", "arguments = a b", 'echo "$@"', user=pool.user) == (0, "a b\n", "")
    assert os.listdir(pool.directory / "home") == []


def test_a_host_that_can_be_spared_is_found(pool: RealPool) -> None:
    machine = pool.slots()[0].eval_str("Machine")
    assert ran(pool, "findhost") == (0, f"{machine}\n", "")
    assert ran(pool, "findhost", "-m", "-n", "3", "-r", "Cpus") == (2, f"{machine}\n", "")
    assert ran(pool, "findhost", "-c", "Cpus > 1000") == (1, "", "")
    assert ran(pool, "findhost", "-c", "Cpus >")[0] == 1


def test_ads_are_given_to_the_collector_and_taken_from_it(pool: RealPool) -> None:
    ads = 'MyType = "Generic"\nName = "one"\nKept = 1\n\nMyType = "Generic"\nName = "two"\nKept = 2\n'
    status, out, err = ran(pool, "advertise", "-multiple", "UPDATE_AD_GENERIC", "-", text=ads)
    assert (status, err) == (0, "")
    assert out.startswith("Sent 2 of 2 ads to ")
    shown = "status", "-any", "-constraint", "Kept > 0", "-af", "Name", "Kept"
    assert sorted(ran(pool, *shown)[1].splitlines()) == ["one 1", "two 2"]
    query = 'MyType = "Query"\nTargetType = "Generic"\nRequirements = Kept == 2\n'
    assert ran(pool, "advertise", "INVALIDATE_ADS_GENERIC", text=query)[0] == 0
    assert ran(pool, *shown)[1] == "one 1\n"
    assert ran(pool, "advertise", "INVALIDATE_ADS_GENERIC", text='MyType = "Query"\n')[0] == 1
    assert ran(pool, *shown)[1] == "one 1\n"
    assert ran(pool, "advertise", "UPDATE_NONSENSE", "-", text=ads)[0] == 1
