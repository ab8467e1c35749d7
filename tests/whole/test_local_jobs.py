"""Jobs that run at the access point: the local and the scheduler universe, with real processes."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING, REMOVED, COMPLETED, HELD = 1, 2, 3, 4, 5


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        DAEMON_LIST="MASTER, COLLECTOR, SCHEDD",
        START_SCHEDULER_UNIVERSE="TARGET.NotYet =!= true",
        SCHEDD_INTERVAL="1",
        SCHED_UNIV_RENICE_INCREMENT="7",
    ) as pool:
        home = pool.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        yield pool


@pytest.fixture
def home(pool: RealPool) -> Path:
    """A directory in which the submitting user may write."""
    return pool.directory / "home"


def submit(pool: RealPool, home: Path, universe: str, script: str, more: str = "") -> int:
    (home / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    (home / "job.sh").chmod(0o755)
    text = f"universe = {universe}\nexecutable = job.sh\narguments = one 2\nlog = log.$(Cluster)\n{more}\nqueue\n"
    return pool.submit(text, cwd=home)


def events(home: Path, cluster: int) -> list[str]:
    lines = (home / f"log.{cluster}").read_text().splitlines()
    return [line[:3] for line in lines if line[3:5] == " (" and line[:3].isdigit()]


@pytest.mark.parametrize("universe", ["local", "scheduler"])
def test_its_requirements_are_asked_of_the_access_point(pool: RealPool, home: Path, universe: str) -> None:
    more = 'requirements = MY.Ready =?= true && TARGET.OpSys == "LINUX" && TARGET.TotalJobAds > 0'
    waiting = submit(pool, home, universe, "exit 0", more)
    pool.until_done(submit(pool, home, universe, "exit 0"))  # which was looked at later
    (ad,) = pool.jobs(str(waiting))
    assert ad.eval_int("JobStatus") == IDLE
    pool.tool("condor_qedit", str(waiting), "Ready", "true")
    pool.until_done(waiting)


@pytest.mark.parametrize(("universe", "theirs"), [("local", False), ("scheduler", True)])
def test_one_of_the_scheduler_universe_has_the_home_that_it_was_submitted_with(
    pool: RealPool, home: Path, universe: str, theirs: bool
) -> None:
    cluster = submit(pool, home, universe, "echo $HOME > $1.home", 'environment = "HOME=/elsewhere"')
    pool.until_done(cluster)
    assert ((home / "one.home").read_text() == "/elsewhere\n") == theirs


def test_ads_of_the_schedd_and_of_submitters_count_it_apart_from_jobs_of_slots(pool: RealPool, home: Path) -> None:
    def counts(kind: str, *names: str) -> str:
        return pool.tool("condor_status", kind, "-af", *names).strip()

    def queue(universe: str, number: int, more: str = "") -> int:
        return pool.submit(f"universe = {universe}\nexecutable = /bin/sleep\narguments = 600\n{more}\nqueue {number}\n")

    queued = [queue("local", 1), queue("scheduler", 2), queue("vanilla", 5), queue("local", 1, "hold = true")]
    queued += [queue("local", 3, "requirements = false"), queue("scheduler", 4, "requirements = false")]
    kinds = ("LocalJobsIdle", "LocalJobsRunning", "SchedulerJobsIdle", "SchedulerJobsRunning")
    totals = [f"Total{name}" for name in kinds]
    pool.until(lambda: counts("-schedd", *totals) == "3 1 4 2", "the schedd's counts")
    others = ("IdleJobs", "RunningJobs", "HeldJobs")
    pool.until(lambda: counts("-submitters", *kinds, *others) == "3 1 4 2 5 0 0", "the submitter's counts")
    pool.tool("condor_rm", *map(str, queued))
    pool.until(lambda: counts("-schedd", *totals) == "0 0 0 0", "counts without them")


def test_one_whose_requirements_cost_too_much_is_held(pool: RealPool, home: Path) -> None:
    bomb = 'requirements = regexp("(a|aa)+$", "' + "a" * 50 + 'X")'
    (ad,) = pool.until_status(submit(pool, home, "local", "exit 0", bomb), HELD)
    assert ad.eval_int("HoldReasonCode") == 900


@pytest.mark.parametrize("universe", ["local", "scheduler"])
def test_it_runs_here_as_its_owner_in_its_directory(pool: RealPool, home: Path, universe: str) -> None:
    script = 'echo $1 $2 $X; id -u; pwd; cat; test -d "$_CONDOR_SCRATCH_DIR"; exit 3'
    (home / "in").write_text("said\n")
    more = 'output = out\nerror = out\ninput = in\nenvironment = "X=y"'
    (ad,) = pool.until_done(submit(pool, home, universe, script, more))
    uid = (home / "out").stat().st_uid
    assert (home / "out").read_text() == f"one 2 y\n{uid}\n{home}\nsaid\n"
    assert uid != 0 or os.geteuid() != 0
    assert (ad.eval_int("JobStatus"), ad.eval_int("ExitCode"), ad.eval_int("NumJobStarts")) == (COMPLETED, 3, 1)
    assert events(home, ad.eval_int("ClusterId", 0)) == ["000", "001", "005"]
    scratch = pool.directory / "spool" / "local_univ_execute"
    pool.until(lambda: not list(scratch.iterdir()), "the scratch directory's end")


def test_one_of_the_scheduler_universe_is_nice_and_rests_when_it_has_failed(pool: RealPool, home: Path) -> None:
    cluster = submit(pool, home, "scheduler", "nice > niceness\nexit 1", "on_exit_remove = false")
    pool.until(lambda: any("NumJobCoolDowns" in ad for ad in pool.jobs(str(cluster))), "its rest")
    (ad,) = pool.jobs(str(cluster))
    assert (home / "niceness").read_text() == f"{min(19, os.nice(0) + 7)}\n"
    assert (ad.eval_int("NumJobCoolDowns"), ad.eval_int("NumJobStarts"), ad.eval_int("JobStatus")) == (1, 1, 1)
    assert 200 < ad.eval_int("JobCoolDownExpiration", 0) - ad.eval_int("EnteredCurrentStatus", 0) <= 302
    pool.tool("condor_rm", str(cluster))


def test_what_it_leaves_running_ends_with_it(pool: RealPool, home: Path) -> None:
    cluster = submit(pool, home, "local", "setsid sleep 1000 & echo $! > left\nexit 0")
    pool.until_done(cluster)
    left = int((home / "left").read_text())
    pool.until(lambda: not os.path.exists(f"/proc/{left}"), "the end of what was left")


def test_a_removed_job_gets_its_signal_and_leaves(pool: RealPool, home: Path) -> None:
    script = "trap 'echo asked > asked; exit 0' USR1\ntouch ready\nwhile :; do sleep 0.05; done"
    cluster = submit(pool, home, "scheduler", script, "remove_kill_sig = SIGUSR1")
    pool.until((home / "ready").exists, "the job's own start")
    pool.tool("condor_rm", str(cluster))
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("JobStatus") == REMOVED
    assert (home / "asked").read_text() == "asked\n"
    assert events(home, cluster) == ["000", "001", "004", "009"]


def test_a_job_that_does_not_leave_is_ended(pool: RealPool, home: Path) -> None:
    script = "trap '' TERM\ntouch stubborn\nwhile :; do sleep 0.05; done"
    cluster = submit(pool, home, "local", script, "kill_sig_timeout = 1")
    pool.until((home / "stubborn").exists, "the job's own start")
    pool.tool("condor_hold", str(cluster))
    pool.until_status(cluster, HELD)
    pool.until(lambda: events(home, cluster)[-1] == "012", "the hold in the log")
    (home / "stubborn").unlink()
    pool.tool("condor_release", str(cluster))
    pool.until((home / "stubborn").exists, "another run")
    pool.tool("condor_rm", str(cluster))
    pool.until_done(cluster)


def held(pool: RealPool, home: Path, more: str) -> ClassAd:
    cluster = submit(pool, home, "local", "exit 0", more)
    (ad,) = pool.until_status(cluster, HELD)
    pool.tool("condor_rm", str(cluster))
    return ad


def test_what_cannot_be_started_is_held_with_the_reason(pool: RealPool, home: Path) -> None:
    ad = held(pool, home, "input = nothing\nskip_filechecks = true")
    assert (ad.eval_int("HoldReasonCode"), ad.eval_int("HoldReasonSubCode")) == (8, 2)
    ad = held(pool, home, "executable = none\nskip_filechecks = true\ntransfer_executable = false")
    assert ad.eval_int("HoldReasonCode") == 6
    assert "none" in ad.eval_str("HoldReason", "")
    ad = held(pool, home, "deferral_time = 1000000000")
    assert ad.eval_int("HoldReasonCode") == 20


def test_a_job_waits_until_the_access_point_lets_it_start(pool: RealPool, home: Path) -> None:
    cluster = submit(pool, home, "scheduler", "exit 0", "+NotYet = true")
    other = submit(pool, home, "scheduler", "exit 0")
    pool.until_done(other)
    (ad,) = pool.jobs(str(cluster))
    assert ad.eval_int("JobStatus") == 1
    pool.tool("condor_qedit", str(cluster), "NotYet", "false")
    pool.until_done(cluster)


def test_a_schedd_that_dies_takes_its_jobs_along_and_runs_them_again(pool: RealPool, home: Path) -> None:
    for left in ("pids", "go"):
        (home / left).unlink(missing_ok=True)
    script = "echo $$ >> pids\nwhile [ ! -e go ]; do sleep 0.05; done"
    cluster = submit(pool, home, "local", script)
    pids = home / "pids"
    pool.until(lambda: pids.exists() and pids.read_text().strip(), "the job's own start")
    pool.until(lambda: pool.jobs(str(cluster))[0].eval_int("NumJobStarts"), "the start to be counted")
    pool.restart_of("schedd")
    pool.until(lambda: len(pids.read_text().split()) == 2, "another run")
    first = int(pids.read_text().split()[0])
    pool.until(lambda: not os.path.exists(f"/proc/{first}"), "the end of the first run")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert (ad.eval_int("JobStatus"), ad.eval_int("NumJobStarts")) == (COMPLETED, 2)


def test_the_death_of_the_process_beside_it_costs_a_run_and_leaves_nothing(pool: RealPool, home: Path) -> None:
    for left in ("runs", "go"):
        (home / left).unlink(missing_ok=True)
    script = "echo $$ >> runs\nwhile [ ! -e go ]; do sleep 0.05; done"
    cluster = submit(pool, home, "local", script)
    runs = home / "runs"
    pool.until(lambda: runs.exists() and runs.read_text().strip(), "the job's own start")
    pool.until(lambda: pool.jobs(str(cluster))[0].eval_int("NumJobStarts"), "the start to be counted")
    first = int(runs.read_text().split()[0])
    stat = Path(f"/proc/{first}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    pool.until(lambda: len(runs.read_text().split()) == 2, "another run")
    pool.until(lambda: not os.path.exists(f"/proc/{first}"), "the end of the first run")
    (home / "go").touch()
    pool.until_done(cluster)


@pytest.mark.parametrize(("priority", "order"), [("0", [0, 1, 2, 3, 4]), ("$(Process)", [4, 3, 2, 1, 0])])
def test_they_start_by_priority_and_then_as_they_were_submitted(
    pool: RealPool, home: Path, priority: str, order: list[int]
) -> None:
    (home / "job.sh").write_text("#!/bin/sh\nexit 0\n")
    (home / "job.sh").chmod(0o755)
    text = f"universe = scheduler\nexecutable = job.sh\npriority = {priority}\nlog = log.$(Cluster)\nqueue 5\n"
    cluster = pool.submit(text, cwd=home)
    pool.until_done(cluster)
    started = [line for line in (home / f"log.{cluster}").read_text().splitlines() if line.startswith("001 (")]
    assert [int(line.split(".")[1]) for line in started] == order


STUBBORN = "trap '' TERM\n(trap '' TERM; setsid sleep 1000) & echo $! $$ > pids.{0}\ntouch ready.{0}\nwhile :; do sleep 0.05; done"


def two_that_stay(pool: RealPool, home: Path) -> dict[int, list[int]]:
    """Jobs of both universes that run until they are killed; their processes."""
    found = {}
    for universe in ("local", "scheduler"):
        for old in (f"pids.{universe}", f"ready.{universe}"):
            (home / old).unlink(missing_ok=True)
        cluster = submit(pool, home, universe, STUBBORN.format(universe), "kill_sig_timeout = 1")
        pool.until((home / f"ready.{universe}").exists, "the job's own start")
        pool.until_status(cluster, RUNNING)
        found[cluster] = [int(pid) for pid in (home / f"pids.{universe}").read_text().split()]
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def gone(pids: list[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.fixture
def own_pool() -> Iterator[RealPool]:
    """A pool that the test stops or kills."""
    rest = {"SCHEDULER_UNIVERSE_COOL_DOWN_DURATION": "0"}
    with real_pool(DAEMON_LIST="MASTER, COLLECTOR, SCHEDD", SCHEDD_INTERVAL="1", **rest) as pool:
        (pool.directory / "home").mkdir()
        (pool.directory / "home").chmod(0o777)
        yield pool


def test_a_pool_that_is_stopped_leaves_no_process_of_these_jobs_and_no_directory(own_pool: RealPool) -> None:
    home = own_pool.directory / "home"
    jobs = two_that_stay(own_pool, home)
    own_pool.stop()
    assert all(map(gone, jobs.values()))
    for cluster in jobs:
        assert events(home, cluster) == ["000", "001", "004"]
    own_pool.start()
    for cluster in jobs:
        own_pool.until_status(cluster, RUNNING)
    own_pool.stop(signal.SIGQUIT)


def test_one_that_is_put_on_hold_before_its_turn_to_start_stays_so() -> None:
    rest = {"JOB_START_COUNT": "1", "JOB_START_DELAY": "1000"}
    with real_pool(DAEMON_LIST="MASTER, COLLECTOR, SCHEDD", **rest) as pool:
        home = pool.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        first = submit(pool, home, "local", "sleep 1000")
        pool.until(lambda: "001" in events(home, first), "the first one's program, which is replaced now")
        second = submit(pool, home, "local", "true")
        pool.tool("condor_hold", str(second))
        pool.until(lambda: "012" in events(home, second), "the hold to be logged")
        (ad,) = pool.until_status(second, HELD)
        assert ad.eval_str("HoldReason", "").startswith("via condor_hold")
        assert "001" not in events(home, second)
        pool.tool("condor_rm", str(first), str(second))


KEEPER, SCHEDD, ZYGOTE, MASTER = "keeper", "schedd", "zygote", "master"


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [*itertools.permutations([KEEPER, SCHEDD, ZYGOTE, MASTER], 2), (MASTER,), (ZYGOTE, KEEPER, SCHEDD)],
)
def test_whoever_is_killed_in_whatever_order_no_process_of_these_jobs_stays(
    own_pool: RealPool, order: tuple[str, ...]
) -> None:
    home = own_pool.directory / "home"
    jobs = two_that_stay(own_pool, home)
    assert own_pool.master is not None
    keepers = [parent_of(pids[-1]) for pids in jobs.values()]
    victims = {
        KEEPER: keepers,
        ZYGOTE: [parent_of(keepers[0])],
        SCHEDD: [own_pool.pid_of("schedd")],
        MASTER: [own_pool.master.pid],
    }
    for who in order:
        for pid in victims[who]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    own_pool.until(lambda: all(map(gone, jobs.values())), f"the end of {jobs}")
    if MASTER in order:
        own_pool.until(lambda: not own_pool.processes(), "the end of what the master left")
        own_pool.kill()
        own_pool.start()
    own_pool.until(lambda: own_pool.pid_of("schedd") not in (0, *victims[SCHEDD]) or SCHEDD not in order, "a schedd")
    for cluster in jobs:
        own_pool.until_status(cluster, RUNNING)


PIDFD_GETFD = 438


def say_in_place_of(pid: int, line: bytes) -> None:
    """Write a line to the schedd on the socket that a process beside a job has."""
    pidfd = os.pidfd_open(pid)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        links = {name: os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        (channel,) = (int(name) for name, target in links.items() if target.startswith("socket:"))
        own = libc.syscall(PIDFD_GETFD, pidfd, channel, 0)
        if own < 0:
            pytest.skip(f"this account may not take another process's socket: {os.strerror(ctypes.get_errno())}")
        with socket.socket(fileno=own) as theirs:
            theirs.sendall(line)
    finally:
        os.close(pidfd)


@pytest.mark.parametrize(
    "line", [b"no report\n", b"{}\n", b'{"ended": "x"}\n', b'{"started": 1, "at": NaN}\n', b"[" * 100_000 + b"\n"]
)
def test_a_process_beside_a_job_that_says_nonsense_costs_that_job_alone(
    pool: RealPool, home: Path, line: bytes
) -> None:
    schedd = pool.pid_of("schedd")
    other = submit(pool, home, "local", "exec sleep 1000")
    pool.until(lambda: "001" in events(home, other), "the other one's program, which is replaced now")
    keepers = home / "keepers"
    keepers.unlink(missing_ok=True)
    cluster = submit(pool, home, "local", "echo $PPID >> keepers\nexec sleep 1000")
    pool.until(lambda: events(home, cluster) == ["000", "001"], "the job's start")
    pool.until(lambda: keepers.exists() and keepers.read_text(), "the process beside it")
    say_in_place_of(int(keepers.read_text()), line)
    pool.until(lambda: events(home, cluster)[:4] == ["000", "001", "007", "001"], "another start")
    assert pool.pid_of("schedd") == schedd
    assert pool.jobs(str(other))[0].eval_int("JobStatus") == RUNNING
    pool.tool("condor_rm", str(cluster), str(other))
    pool.until(lambda: not pool.jobs(str(cluster), str(other)), "the end of both")
