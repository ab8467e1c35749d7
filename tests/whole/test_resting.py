"""Starters that rest: their jobs run on alone, and all that can happen to a job happens as if its starter were there."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from daemons.base.linux import children_of, descendants
from daemons.host.namespaces import can_isolate
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.rest import resting_keepers, starters_of

COMPLETED, RUNNING, HELD, SUSPENDED = 4, 2, 5, 7
JOB = """executable = /bin/sh
arguments = "-c 'echo begun >> {home}/begun; while [ ! -e {home}/go ]; do sleep 0.1; done; {end}'"
log = {home}/log
{more}
queue {count}
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[RealPool]:
    with real_pool(
        NUM_CPUS=4,
        STARTER_REST_AFTER=1,
        STARTER_INITIAL_UPDATE_INTERVAL=1,
        STARTER_UPDATE_INTERVAL=2,
        MASTER_BACKOFF_CEILING=1,
        STARTER_DEBUG="D_FULLDEBUG",
    ) as pool:
        yield pool


@pytest.fixture
def pool(shared: RealPool) -> Iterator[RealPool]:
    yield shared
    shared.tool("condor_rm", "-all", check=False)
    shared.until(lambda: not shared.jobs(), "an empty queue")


@pytest.fixture
def home(shared: RealPool) -> Iterator[Path]:
    with home_in(shared) as home:
        yield home


@contextmanager
def home_in(pool: RealPool) -> Iterator[Path]:
    """A directory of a test's own in which the submitting user may write."""
    home = Path(tempfile.mkdtemp(dir=pool.directory))
    home.chmod(0o777)
    yield home


def resting(pool: RealPool, home: Path, *, end: str = "exit 3", more: str = "", count: int = 1) -> tuple[int, int]:
    """A job whose starter rests: its cluster, and the keeper."""
    cluster = pool.submit(JOB.format(home=home, end=end, more=more, count=count), cwd=home)
    pool.until_status(cluster, RUNNING, count=count)
    found = pool.until(lambda: len(all := resting_keepers(pool)) == count and all, "the starters to rest")
    return cluster, found[0]


def rests(pool: RealPool) -> int:
    """How often starters have gone to rest: one that wakes for a moment may do so unseen."""
    return sum(log.read_text().count("The starter rests") for log in pool.directory.glob("log/StarterLog.*"))


def events(home: Path) -> list[str]:
    return [line[:3] for line in (home / "log").read_text().splitlines() if line[3:5] == " (" and line[:3].isdigit()]


def test_a_job_ends_while_its_starter_rests(pool: RealPool, home: Path) -> None:
    cluster, _ = resting(pool, home, more="output = out", end="echo words; echo more > made; exit 3")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_int("JobStatus"), ad.eval_int("ExitCode")) == (COMPLETED, 3)
    assert (home / "out").read_text() == "words\n"
    assert (home / "made").read_text() == "more\n"
    assert [code for code in events(home) if code != "006"] == ["000", "001", "005"]


@pytest.mark.slow
def test_a_job_is_killed_by_a_signal_while_its_starter_rests(pool: RealPool, home: Path) -> None:
    cluster, _ = resting(pool, home, end="kill -9 $$")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_bool("ExitBySignal"), ad.eval_int("ExitSignal")) == (True, 9)


@pytest.mark.slow
def test_what_a_job_uses_is_told_while_its_starter_rests(pool: RealPool, home: Path) -> None:
    more = f"while [ ! -e {home}/over ]; do :; done; exit 0"
    cluster, keeper = resting(pool, home, end=more)
    (home / "go").touch()
    pool.until(lambda: pool.jobs(str(cluster))[0].eval_float("RemoteUserCpu", 0.0) > 1, "its processor time to be told")
    assert not starters_of(keeper)
    assert pool.jobs(str(cluster))[0].eval_int("ImageSize", 0) > 0
    (home / "over").touch()
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ResidentSetSize", 0) > 0
    assert ad.eval_float("RemoteUserCpu", 0.0) > 1


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["condor_hold", "condor_rm", "condor_vacate_job"])
def test_a_job_leaves_while_its_starter_rests(pool: RealPool, home: Path, tool: str) -> None:
    cluster, keeper = resting(pool, home)
    inner = descendants(keeper)
    pool.tool(tool, str(cluster))
    if tool == "condor_rm":
        pool.until_gone(cluster)
    elif tool == "condor_hold":
        pool.until_status(cluster, HELD)
    else:
        pool.until(lambda: (home / "begun").read_text().count("begun") == 2, "the job to run again")
    pool.until(lambda: not any(_is_there(pid) for pid in inner), "the end of its processes")


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_a_job_is_suspended_and_goes_on_while_its_starter_rests(pool: RealPool, home: Path) -> None:
    cluster, _ = resting(pool, home)
    pool.tool("condor_suspend", str(cluster))
    pool.until_status(cluster, SUSPENDED)
    (home / "go").touch()
    pool.tool("condor_continue", str(cluster))
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 3


@pytest.mark.slow
def test_tools_wake_a_starter_that_rests(pool: RealPool, home: Path) -> None:
    cluster, keeper = resting(pool, home, more="output = out", end="exit 0")
    assert pool.tool("condor_ssh_to_job", str(cluster), "echo", "within").strip() == "within"
    pool.tool("condor_tail", str(cluster))
    pool.until(lambda: not starters_of(keeper), "the starter to rest again")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 0
    assert ad.eval_int("NumJobStarts") == 1


@pytest.mark.slow
def test_p5_a_schedd_that_is_killed_finds_the_job_whose_starter_rests(pool: RealPool, home: Path) -> None:
    cluster, _ = resting(pool, home)
    before = rests(pool)
    pool.restart_of("schedd")
    pool.until(lambda: rests(pool) > before, "the starter to wake and to rest again")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_int("ExitCode"), ad.eval_int("NumJobStarts")) == (3, 1)
    assert (home / "begun").read_text() == "begun\n"


@pytest.mark.slow
def test_p5_a_job_ends_while_its_schedd_is_away_and_its_starter_rests(pool: RealPool, home: Path) -> None:
    cluster, keeper = resting(pool, home)
    schedd = pool.pid_of("schedd")
    os.kill(schedd, signal.SIGSTOP)
    (home / "go").touch()
    pool.until(lambda: starters_of(keeper), "the starter to wake")
    os.kill(schedd, signal.SIGKILL)
    pool.until(lambda: pool.pid_of("schedd") not in (0, schedd), "another schedd")
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_int("ExitCode"), ad.eval_int("NumJobStarts")) == (3, 1)


@pytest.mark.slow
@pytest.mark.parametrize("daemon", ["startd", "keeper", "zygote", "job"])
def test_p4_p6_whatever_is_killed_while_a_starter_rests(pool: RealPool, home: Path, daemon: str) -> None:
    cluster, keeper = resting(pool, home)
    inner = descendants(keeper)
    if daemon == "startd":
        pool.restart_of("startd")
    elif daemon == "keeper":
        os.kill(keeper, signal.SIGKILL)
    elif daemon == "zygote":
        (zygote,) = [pid for pid in pool.processes() if keeper in children_of(pid)]
        os.kill(zygote, signal.SIGKILL)
    else:
        for pid in inner:
            with suppress(ProcessLookupError):  # its `sleep 0.1` may be over
                os.kill(pid, signal.SIGKILL)
    if daemon in ("startd", "keeper"):
        pool.until(lambda: (home / "begun").read_text().count("begun") == 2, "the job to run again")
        pool.until(lambda: not any(map(_is_there, inner)), "the end of its first processes")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_int("ExitSignal") == 9) if daemon == "job" else (ad.eval_int("ExitCode") == 3)


@pytest.mark.slow
def test_the_next_job_of_a_claim_has_the_starter_that_has_rested(pool: RealPool, home: Path) -> None:
    cluster, _ = resting(pool, home, count=4)
    more = pool.submit(f"executable = /bin/true\nlog = {home}/log\nqueue 3\n", cwd=home)
    (home / "go").touch()
    assert [ad.eval_int("ExitCode") for ad in pool.until_done(cluster)] == [3] * 4
    assert [ad.eval_int("ExitCode") for ad in pool.until_done(more)] == [0] * 3


@pytest.mark.slow
def test_a_job_that_calls_by_chirp_wakes_its_starter(pool: RealPool, home: Path) -> None:
    chirp = Path(sys.executable).with_name("condor_chirp")
    cluster, _ = resting(pool, home, end=f"{chirp} set_job_attr_delayed ChirpSaid 42", more="+WantIOProxy = true")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_int("ExitCode"), ad.eval_int("ChirpSaid")) == (0, 42)


def test_a_starter_stays_with_a_job_whose_devices_are_watched() -> None:
    assert_stays({"MACHINE_RESOURCE_LASERS": "red, blue"}, "request_lasers = 1", "its devices are watched")


@pytest.mark.skipif(not can_isolate(), reason="takes root's rights")
def test_a_starter_stays_with_a_job_that_has_a_pid_namespace_which_would_end_with_it() -> None:
    assert_stays({"USE_PID_NAMESPACES": "true"}, "", "its pid namespace ends with its starter")


def assert_stays(knobs: dict[str, str], more: str, why: str) -> None:
    """A job's starter says that it does not rest; the job ends as any."""
    more_knobs = {"STARTER_REST_AFTER": 1, "STARTER_DEBUG": "D_FULLDEBUG", **knobs}
    with real_pool(NUM_CPUS=1, **more_knobs) as pool, home_in(pool) as home:
        cluster = pool.submit(JOB.format(home=home, end="exit 3", more=more, count=1), cwd=home)
        logs = pool.directory / "log"
        pool.until(lambda: any(why in path.read_text() for path in logs.glob("StarterLog.*")), "the starter to stay")
        (home / "go").touch()
        (ad,) = pool.until_done(cluster)
        assert (ad.eval("ExitCode"), ad.eval("NumJobStarts")) == (3, 1)


@pytest.mark.slow
def test_a_stop_of_the_pool_leaves_nothing_of_jobs_whose_starters_rest() -> None:
    with real_pool(NUM_CPUS=2, STARTER_REST_AFTER=1) as pool, home_in(pool) as home:
        cluster, _ = resting(pool, home, count=2)
        pool.stop()
        pool.assert_nothing_left()
        pool.start()
        (home / "go").touch()
        assert [ad.eval_int("ExitCode") for ad in pool.until_done(cluster)] == [3, 3]
