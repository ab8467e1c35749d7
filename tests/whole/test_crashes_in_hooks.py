"""kill -9 while a job's hook runs: the job ends once, and neither the hook nor what it started is left (P2 to P6).

Each hook of the job notes its process; one for which the probe has an order to hang hangs, until something ends it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.probe import Probe
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_crashes_by_stage import zygote_of

HOOKS = ("PREPARE_JOB_BEFORE_TRANSFER", "PREPARE_JOB", "UPDATE_JOB_INFO", "JOB_EXIT")
SCRIPT = """#!/bin/sh
iwd=$(sed -n 's/^Iwd = "\\(.*\\)"$/\\1/p')
name=$(basename "$0")
rm "$iwd/hang.$name" 2> /dev/null || exit 0
echo $$ > "$iwd/hung.new"
mv "$iwd/hung.new" "$iwd/hung"
sleep 654
exit 0
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        user="www-data", NUM_CPUS=4, MASTER_BACKOFF_CEILING=1, STARTER_INITIAL_UPDATE_INTERVAL=1, start=False
    ) as pool:
        hooks = pool.directory / "hooks"
        hooks.mkdir()
        for name in HOOKS:
            (hooks / name).write_text(SCRIPT)
            (hooks / name).chmod(0o755)
            pool.settings[f"SLOW_HOOK_{name}"] = str(hooks / name)
        pool.start()
        yield pool


def until_hung(pool: RealPool, hook: str) -> tuple[Probe, int]:
    """A job whose hook hangs, and the hook's process. Nothing waits for the update hook: then the job does."""
    probe = Probe(pool, None if hook == "UPDATE_JOB_INFO" else 1, more='+HookKeyword = "SLOW"')
    order = probe.directory / f"hang.{hook}"
    order.touch()
    probe.submit()
    hung = probe.directory / "hung"
    pool.until(hung.exists, f"{hook} to hang")
    return probe, int(hung.read_text())


def starter_of(pid: int) -> int:
    """The starter above a process."""
    while pid > 1 and Path(f"/proc/{pid}/comm").read_text().strip() != "condor_starter":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert pid > 1
    return pid


def sleepers(pool: RealPool) -> list[int]:
    """What a hung hook has started."""
    found = []
    for pid in pool.processes():
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00654\x00":
                found.append(pid)
        except OSError:
            continue
    return found


def assert_all_is_well(pool: RealPool, probe: Probe) -> None:
    probe.may_end()
    probe.assert_ended_once()
    pool.until(lambda: not sleepers(pool), "the end of the hook")
    pool.until(lambda: not list((pool.directory / "execute").iterdir()), "the end of the sandbox")


@pytest.mark.parametrize("hook", [HOOKS[0], *(pytest.param(hook, marks=pytest.mark.slow) for hook in HOOKS[1:])])
def test_a_starter_that_dies_takes_its_hook_along_and_the_job_runs_again(pool: RealPool, hook: str) -> None:
    probe, pid = until_hung(pool, hook)
    os.kill(starter_of(pid), signal.SIGKILL)
    assert_all_is_well(pool, probe)


@pytest.mark.parametrize("hook", ["PREPARE_JOB", pytest.param("JOB_EXIT", marks=pytest.mark.slow)])
def test_a_startd_that_dies_takes_the_hook_along_and_the_job_runs_again(pool: RealPool, hook: str) -> None:
    probe, _ = until_hung(pool, hook)
    pool.restart_of("startd")
    assert_all_is_well(pool, probe)


@pytest.mark.parametrize("hook", ["PREPARE_JOB", pytest.param("JOB_EXIT", marks=pytest.mark.slow)])
def test_a_zygote_that_dies_while_a_hook_runs_is_not_noticed(pool: RealPool, hook: str) -> None:
    probe, pid = until_hung(pool, hook)
    os.kill(zygote_of(pool), signal.SIGKILL)
    os.kill(pid, 0)  # the hook has lived on
    os.kill(pool.until(lambda: sleepers(pool), "what the hook has started")[0], signal.SIGTERM)
    assert_all_is_well(pool, probe)
    assert probe.trace() == ["begin", "end"]


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["PREPARE_JOB_BEFORE_TRANSFER", "PREPARE_JOB", "JOB_EXIT"])
def test_a_job_ends_once_although_starter_and_zygote_die_while_its_hook_runs(pool: RealPool, hook: str) -> None:
    probe, pid = until_hung(pool, hook)
    os.kill(zygote_of(pool), signal.SIGKILL)
    os.kill(starter_of(pid), signal.SIGKILL)
    assert_all_is_well(pool, probe)


@pytest.mark.parametrize("hook", ["PREPARE_JOB", "UPDATE_JOB_INFO"])
def test_a_job_whose_hook_hangs_can_be_removed(pool: RealPool, hook: str) -> None:
    probe, _ = until_hung(pool, hook)
    (ad,) = probe.in_queue()
    pool.tool("condor_rm", str(ad.eval("ClusterId")))
    assert probe.until_ended().eval_int("JobStatus") == 3
    pool.until(lambda: not sleepers(pool), "the end of the hook")


def test_a_schedd_that_dies_while_a_hook_runs_is_not_noticed(pool: RealPool) -> None:
    probe, pid = until_hung(pool, "PREPARE_JOB")
    pool.restart_of("schedd")
    os.kill(pid, 0)  # the hook has lived on
    os.kill(pool.until(lambda: sleepers(pool), "what the hook has started")[0], signal.SIGTERM)
    ad = probe.assert_ended_once()
    assert probe.trace() == ["begin", "end"]
    assert ad["NumJobStarts"] == 1
