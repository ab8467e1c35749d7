"""Limits and policies hold for a job whose starter rests, and what it makes while nobody looks is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.rest import resting_keepers, starters_of
from tests.whole.test_shares import a_small_disk

RUNNING, HELD, COMPLETED = 2, 5, 4
JOB = """executable = {python}
arguments = {home}/job.py
transfer_executable = false
request_memory = 100
log = {home}/log
{more}
queue
"""
PROGRAM = """import itertools, os, time
while not os.path.exists("{home}/go"):
    time.sleep(0.05)
{code}
"""
RESTS = {
    "STARTER_REST_AFTER": 1,
    "STARTER_INITIAL_UPDATE_INTERVAL": 1,
    "STARTER_UPDATE_INTERVAL": 2,
    "JOB_MEMORY_POLLING_INTERVAL": 0.5,
    "PERIODIC_EXPR_INTERVAL": 1,
}


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=4, **RESTS) as pool:
        yield pool


def submit(pool: RealPool, code: str, more: str = "") -> tuple[int, Path]:
    """A job that runs this Python when it may go on: its cluster and its home."""
    home = pool.place("home")
    (home / "job.py").write_text(PROGRAM.format(home=home, code=code))
    return pool.submit(JOB.format(python=sys.executable, home=home, more=more), cwd=home), home


def resting(pool: RealPool, code: str, more: str = "") -> tuple[int, Path, int]:
    """A job that runs this Python when it may go on, and whose starter rests: its cluster, home and keeper."""
    cluster, home = submit(pool, code, more)
    pool.until_status(cluster, RUNNING)
    return cluster, home, pool.until(lambda: resting_keepers(pool), "the starter to rest")[0]


def held(pool: RealPool, cluster: int) -> ClassAd:
    (ad,) = pool.until_status(cluster, HELD)
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    return ad


GREEDY = "x = b'x' * (400 << 20); time.sleep(600)"


@pytest.mark.slow
def test_a_job_that_outgrows_its_memory_is_held(pool: RealPool) -> None:
    cluster, home, _ = resting(pool, GREEDY)
    (home / "go").touch()
    ad = held(pool, cluster)
    assert (ad.eval_int("HoldReasonCode"), ad.eval_int("HoldReasonSubCode")) == (34, 102)


@pytest.mark.long
def test_so_is_one_that_no_control_group_limits() -> None:
    with real_pool(owner="nobody", **RESTS) as pool:
        cluster, home, _ = resting(pool, GREEDY)
        (home / "go").touch()
        ad = held(pool, cluster)
        assert (ad.eval_int("HoldReasonCode"), ad.eval_int("HoldReasonSubCode")) == (34, 102)


@pytest.mark.slow
def test_a_job_that_is_in_the_way_of_a_full_disk_is_held() -> None:
    with a_small_disk(STARTER_REST_AFTER=1) as (pool, place):
        code = "free = os.statvfs('.')\nos.posix_fallocate(os.open('big', os.O_CREAT | os.O_RDWR), 0, free.f_bavail * free.f_frsize - (1 << 20))\ntime.sleep(600)"
        more = "request_disk = 1M\nrequest_memory = 600\nshould_transfer_files = yes"
        cluster, home, _ = resting(pool, code, more)
        (home / "go").touch()
        ad = held(pool, cluster)
        assert (ad.eval_int("HoldReasonCode"), ad.eval_int("HoldReasonSubCode")) == (34, 104)
        assert "disk is nearly full" in ad.eval_str("HoldReason", "")
        pool.until(lambda: not list(place.glob("dir_*/*")), "the space to be free again")


@pytest.mark.slow
def test_a_job_is_held_by_what_it_uses(pool: RealPool) -> None:
    cluster, home, keeper = resting(pool, "for _ in itertools.count(): pass", "periodic_hold = RemoteUserCpu > 1")
    assert not starters_of(keeper)
    (home / "go").touch()
    assert held(pool, cluster).eval_int("HoldReasonCode") == 3


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "code"), [("AllowedJobDuration", 46), ("AllowedExecuteDuration", 47)])
def test_a_job_is_held_by_how_long_it_runs(pool: RealPool, limit: str, code: int) -> None:
    cluster, _, keeper = resting(pool, "", f"+{limit} = 600")
    assert not starters_of(keeper)
    # No sooner: a busy machine takes its time until a starter rests.
    pool.tool("condor_qedit", str(cluster), limit, "3")
    assert held(pool, cluster).eval_int("HoldReasonCode") == code


def cpu_s(ad: ClassAd) -> float:
    return ad.eval_float("RemoteUserCpu", 0.0) + ad.eval_float("RemoteSysCpu", 0.0)


@pytest.mark.slow
def test_what_the_job_before_has_used_is_none_of_the_next_ones() -> None:
    """Both in one claim, and while the starter rests."""
    burns = "if not os.fork():\n    while time.process_time() < 2: pass\n    os._exit(0)\nos.wait()"
    with real_pool(NUM_CPUS=1, **RESTS) as pool:
        cluster, home, keeper = resting(pool, burns)
        following, next_home = submit(pool, "")
        (home / "go").touch()
        (ad,) = pool.until_done(cluster)
        assert cpu_s(ad) >= 1
        pool.until_status(following, RUNNING)
        assert pool.until(lambda: resting_keepers(pool), "the starter to rest again") == [keeper]
        (next_home / "go").touch()
        (ad,) = pool.until_done(following)
        assert cpu_s(ad) < 1


@pytest.mark.slow
def test_checkpoints_that_a_job_makes_are_kept_and_it_goes_on(pool: RealPool) -> None:
    code = "n = len(open('count').read()) if os.path.exists('count') else 0; open('count', 'a').write('x'); time.sleep(3); os._exit(85 if n < 2 else 0)"
    more = "\n".join(
        (
            "checkpoint_exit_code = 85",
            "transfer_checkpoint_files = count",
            "transfer_output_files = count",
            "should_transfer_files = yes",
        )
    )
    cluster, home, _ = resting(pool, code, more)
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_int("ExitCode"), ad.eval_int("NumCkpts"), ad.eval_int("NumJobStarts")) == (0, 2, 1)
    assert (home / "count").read_text() == "xxx"


@pytest.mark.long
def test_a_machine_that_wants_its_slot_back_gets_it() -> None:
    with real_pool(NUM_CPUS=1, PREEMPT="TotalJobRunTime > 4", WANT_VACATE=True, **RESTS) as pool:
        cluster, home, _ = resting(pool, "")
        pool.until(lambda: "004" in (home / "log").read_text(), "the job to be evicted")
        (home / "go").touch()
        (ad,) = pool.until_done(cluster)
        assert (ad.eval_int("ExitCode"), ad.eval_int("NumJobStarts", 0) >= 2) == (0, True)


@pytest.mark.long
def test_a_job_whose_hook_is_told_of_it_keeps_its_starter() -> None:
    with real_pool(NUM_CPUS=1, start=False, **RESTS) as pool:
        told = pool.place("told")
        hook = pool.directory / "hook"
        hook.write_text(f"#!/bin/sh\ncat >/dev/null\necho told >> {told}/words\n")
        hook.chmod(0o755)
        pool.settings.update(TELL_HOOK_UPDATE_JOB_INFO=str(hook), STARTER_JOB_HOOK_KEYWORD="TELL")
        pool.start()
        cluster, home = submit(pool, "")
        words = told / "words"
        pool.until(
            lambda: words.exists() and words.read_text().count("told") > 2, "the hook to be told again and again"
        )
        assert not resting_keepers(pool)
        (home / "go").touch()
        (ad,) = pool.until_done(cluster)
        assert ad.eval_int("ExitCode") == 0
