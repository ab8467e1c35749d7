"""The owner's conditions, with real daemons and jobs: suspending, vacating, draining, preferring, and giving slots on.

One pool for all tests: slot1 is static and ranks jobs, slot2 is partitionable. Each test leaves both free.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING, SUSPENDED = 1, 2, 7
STATIC, PARTITIONABLE = 'SlotType == "Static"', "PartitionableSlot =?= true || DynamicSlot =?= true"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        NUM_CPUS=3,
        MEMORY=3000,
        SLOT_TYPE_1="cpus=1, memory=1000, disk=25%",
        NUM_SLOTS_TYPE_1=1,
        SLOT_TYPE_2="cpus=2, memory=2000, disk=50%",
        NUM_SLOTS_TYPE_2=1,
        SLOT_TYPE_2_PARTITIONABLE="true",
        RANK="TARGET.Loved ?: 0",
        MAXJOBRETIREMENTTIME="TARGET.Patience ?: 0",
        MachineMaxVacateTime=60,
        NEGOTIATOR_CONSIDER_EARLY_PREEMPTION="true",
        NEGOTIATOR_INTERVAL=2,
        NEGOTIATOR_MIN_INTERVAL=1,
        POLLING_INTERVAL=1,
    ) as pool:
        yield pool


@pytest.fixture
def home(pool: RealPool, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory in which the submitting user may write; afterwards both slots are free again."""
    home = Path(mkdtemp(prefix=f"{request.node.name[:40]}-", dir=pool.directory))
    home.chmod(0o777)
    yield home
    for directory in (home, *(path for path in home.iterdir() if path.is_dir())):
        (directory / "go").touch()
    admin(pool, "condor_rm", "-all", check=False)
    pool.until(lambda: not pool.jobs(), "an empty queue")
    pool.until(lambda: states(pool) == {"slot1": "Unclaimed/Idle", "slot2": "Unclaimed/Idle"}, "free slots")


def admin(pool: RealPool, *argv: str, check: bool = True, text: str | None = None) -> str:
    """Run a tool as the pool's owner."""
    user, pool.user = pool.user, None
    try:
        return pool.tool(*argv, check=check, text=text)
    finally:
        pool.user = user


def states(pool: RealPool) -> dict[str, str]:
    """Every slot's state and activity, by short name."""
    return {
        ad.eval_str("Name", "").partition("@")[0]: f"{ad.eval_str('State')}/{ad.eval_str('Activity')}"
        for ad in pool.slots()
    }


def until_state(pool: RealPool, slot: str, state: str) -> None:
    pool.until(lambda: states(pool).get(slot) == state, f"{slot} to be {state}")


def until_logged(pool: RealPool, home: Path, codes: list[str]) -> None:
    """Wait until these are the log's events among those of their kinds."""

    def there() -> bool:
        heads = [line[:3] for line in (home / "log").read_text().splitlines() if line[3:5] == " ("]
        return [code for code in heads if code in codes] == codes

    pool.until(there, f"events {codes}")


def a_ticking_job(home: Path, *, requirements: str = STATIC, more: str = "", trap: str = "") -> str:
    """A job that adds a line to `ticks.PID` ten times a second until `go` exists."""
    script = f"{trap}echo x >> {home}/begun; while [ ! -e {home}/go ]; do echo x >> {home}/ticks; sleep 0.1; done"
    return f"""executable = /bin/sh
arguments = "-c '{script}'"
should_transfer_files = NO
requirements = {requirements}
request_memory = 100
request_disk = 1000
log = {home}/log
{more}
queue
"""


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def stands_still(pid: int) -> bool:
    """Whether the kernel runs nothing of it: it is stopped, or its control group is frozen."""
    if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
        return True
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        where = Path(f"/sys/fs/cgroup{'/freezer' if controllers == 'freezer' else ''}{group}")
        for name, frozen in (("freezer.state", "FROZEN"), ("cgroup.events", "frozen 1")):
            if (where / name).exists() and frozen in (where / name).read_text().splitlines():
                return True
    return False


def started(pool: RealPool, home: Path, **options: str) -> int:
    """Submit such a job and wait until it ticks."""
    cluster = pool.submit(a_ticking_job(home, **options), cwd=home)
    pool.until(lambda: lines(home / "ticks") > 0, "the first tick")
    return cluster


def job(pool: RealPool, cluster: int) -> ClassAd:
    (ad,) = pool.jobs(str(cluster))
    return ad


def test_suspending_stops_the_ticking_and_continuing_resumes_it(pool: RealPool, home: Path) -> None:
    cluster = started(pool, home)
    pid = pool.until(lambda: job(pool, cluster).eval_int("JobPid", 0), "its process id")
    assert not stands_still(pid)
    pool.tool("condor_suspend", f"{cluster}.0")
    pool.until_status(cluster, SUSPENDED)
    until_state(pool, "slot1", "Claimed/Suspended")
    pool.until(lambda: stands_still(pid), "silence")
    before = lines(home / "ticks")
    pool.tool("condor_continue", f"{cluster}.0")
    pool.until_status(cluster, RUNNING)
    pool.until(lambda: lines(home / "ticks") > before, "another tick")
    until_logged(pool, home, ["010", "011"])


def test_vacating_a_slot_sends_kill_sig_and_waits_as_long_as_the_job_needs(pool: RealPool, home: Path) -> None:
    leave = f'trap "echo got >> {home}/left; sleep 1; echo left >> {home}/left; exit 0" USR1; '.replace('"', '""')
    cluster = started(pool, home, trap=leave, more="kill_sig = SIGUSR1\nmax_job_retirement_time = 0")
    (name,) = [ad.eval_str("Name", "") for ad in pool.slots() if ad.eval_str("SlotType") == "Static"]
    assert admin(pool, "condor_vacate", name) == f'Sent "Vacate-Claim" command to startd {name}\n'
    pool.until(lambda: lines(home / "left") >= 2, "the job's last words")
    assert (home / "left").read_text().split()[:2] == ["got", "left"]
    pool.until(lambda: lines(home / "begun") == 2, "the job to start anew")  # it went back to its queue
    pool.until(lambda: job(pool, cluster).eval_int("NumJobStarts") == 2, "the second start to be counted")
    until_logged(pool, home, ["004"])


def test_a_fast_vacate_of_the_whole_machine_kills(pool: RealPool, home: Path) -> None:
    started(pool, home, trap='trap "" TERM; '.replace('"', '""'))
    assert admin(pool, "condor_vacate", "-fast") == 'Sent "Vacate-All-Claims-Fast" command to local startd\n'
    pool.until(lambda: lines(home / "begun") == 2, "the job to start anew")


def test_whoever_is_not_the_owner_cannot_vacate_or_drain(pool: RealPool, home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests' account owns the pool")
    assert pool.tool("condor_vacate", check=False) == ""
    (machine,) = {ad.eval_str("Machine", "") for ad in pool.slots()}
    assert pool.tool("condor_drain", machine, check=False) == ""
    assert states(pool)["slot1"] == "Unclaimed/Idle"


def test_a_machine_that_is_drained_is_empty_and_takes_jobs_again(pool: RealPool, home: Path) -> None:
    cluster = started(pool, home)
    (machine,) = {ad.eval_str("Machine", "") for ad in pool.slots()}
    said = admin(pool, "condor_drain", "-quick", "-verbose", "-reason", "new disk", machine)
    assert said.startswith("Sent request to drain the startd <")
    assert f" with {machine}. This only affects the single startd;" in said
    request_id = said.rpartition("Request id: ")[2].strip()
    until_state(pool, "slot1", "Drained/Idle")
    until_state(pool, "slot2", "Drained/Idle")
    pool.until_status(cluster, IDLE)
    assert {ad.eval_str("DrainReason") for ad in pool.slots()} == {"new disk"}
    assert admin(pool, "condor_drain", "-cancel", "-request-id", "7", machine, check=False) == ""
    said = admin(pool, "condor_drain", "-cancel", "-request-id", request_id, machine)
    assert said == f"Sent request to cancel draining on {machine}\n"
    pool.until(lambda: lines(home / "begun") == 2, "the job to start anew")


def test_a_check_that_fails_drains_nothing_and_resuming_follows_by_itself(pool: RealPool, home: Path) -> None:
    cluster = started(pool, home)
    until_state(pool, "slot1", "Claimed/Busy")
    (machine,) = {ad.eval_str("Machine", "") for ad in pool.slots()}
    assert admin(pool, "condor_drain", "-check", 'State == "Unclaimed"', machine, check=False) == ""
    assert states(pool)["slot1"] == "Claimed/Busy"
    admin(pool, "condor_drain", "-fast", "-resume-on-completion", machine)
    pool.until(lambda: lines(home / "begun") == 2, "the job to start anew")
    pool.until(lambda: job(pool, cluster).eval_int("NumJobStarts") == 2, "the second start to be counted")


def test_a_startd_that_was_drained_to_exit_stays_down_until_it_is_turned_on(pool: RealPool, home: Path) -> None:
    (machine,) = {ad.eval_str("Machine", "") for ad in pool.slots()}
    before = pool.pid_of("startd")
    admin(pool, "condor_drain", "-exit-on-completion", machine)
    pool.until(lambda: pool.pid_of("startd") == 0, "the startd's end")
    pool.until(lambda: not pool.slots(), "no slots")
    assert pool.pid_of("startd") == 0
    admin(pool, "condor_on", "-startd")
    pool.until(lambda: pool.pid_of("startd") not in (0, before), "another startd")


def test_a_better_job_gets_the_slot_after_retirement(pool: RealPool, home: Path) -> None:
    first = started(pool, home, more="+Patience = 8")
    (home / "better").mkdir(mode=0o777)
    (home / "better").chmod(0o777)
    log = pool.directory / "log" / "StartLog"
    said = log.stat().st_size
    second = pool.submit(a_ticking_job(home / "better", more="+Loved = 10"), cwd=home)
    pool.until_status(second, RUNNING)
    # It may have been short, since its time began with the job.
    assert b"slot1: Claimed/Busy -> Claimed/Retiring" in log.read_bytes()[said:]
    pool.until_status(first, IDLE)
    until_state(pool, "slot1", "Claimed/Busy")
    until_logged(pool, home, ["001", "004"])


def test_a_job_that_retires_goes_on_when_the_better_one_goes_away(pool: RealPool, home: Path) -> None:
    first = started(pool, home, more="+Patience = 1000")
    second = pool.submit(a_ticking_job(home, more="+Loved = 10"), cwd=home)
    until_state(pool, "slot1", "Claimed/Retiring")
    pool.tool("condor_rm", str(second))
    until_state(pool, "slot1", "Claimed/Busy")
    assert job(pool, first).eval_int("NumJobStarts") == 1
    assert lines(home / "begun") == 1


def test_condor_now_gives_a_running_jobs_slot_to_another(pool: RealPool, home: Path) -> None:
    first = started(pool, home)
    (home / "next").mkdir()
    (home / "next").chmod(0o777)
    second = pool.submit(a_ticking_job(home / "next"), cwd=home)
    pool.tool("condor_now", f"{second}.0", f"{first}.0")
    pool.until_status(second, RUNNING)
    pool.until_status(first, IDLE)
    assert pool.tool("condor_now", f"{first}.0", f"{second}.7", check=False) == ""


def test_condor_now_makes_one_slot_out_of_several(pool: RealPool, home: Path) -> None:
    small = [started(pool, home, requirements=PARTITIONABLE) for _ in range(2)]
    for cluster in small:
        pool.until_status(cluster, RUNNING)
    (home / "large").mkdir()
    (home / "large").chmod(0o777)
    large = pool.submit(a_ticking_job(home / "large", requirements=PARTITIONABLE, more="request_cpus = 2"), cwd=home)
    pool.tool("condor_now", f"{large}.0", *(f"{cluster}.0" for cluster in small))
    ads = pool.until_status(large, RUNNING)
    assert ads[0].eval_int("CpusProvisioned") == 2


def test_a_slot_whose_schedd_does_not_come_for_its_match_goes_back_to_its_owner(pool: RealPool, home: Path) -> None:
    (pool.directory / "config").write_text("NEGOTIATOR_INFORM_STARTD = true\nMATCH_TIMEOUT = 2\n")
    admin(pool, "condor_reconfig")
    admin(pool, "condor_update_machine_ad", text="Lent = false\n")
    pool.until(lambda: all(ad.eval("Lent") is False for ad in pool.slots()), "slots that are not lent")
    waited_before = waited_in_matched(pool)
    cluster = pool.submit(a_ticking_job(home, requirements=f"({STATIC}) && Lent =?= true"), cwd=home)
    pool.until(lambda: "LastRejMatchTime" in job(pool, cluster), "the negotiator to know of the job")
    schedd = pool.pid_of("schedd")
    os.kill(schedd, signal.SIGSTOP)
    try:
        admin(pool, "condor_update_machine_ad", text="Lent = true\n")
        pool.until(lambda: waited_in_matched(pool) > waited_before, "a match that is over")
        until_state(pool, "slot1", "Unclaimed/Idle")
    finally:
        os.kill(schedd, signal.SIGCONT)
    pool.until_status(cluster, RUNNING)
    (pool.directory / "config").unlink()
    admin(pool, "condor_reconfig")


def waited_in_matched(pool: RealPool) -> int:
    """How long slot1 has been in Matched, as its ad says."""
    return max(ad.eval_int("TotalTimeMatchedIdle", 0) for ad in pool.slots() if ad.eval_str("SlotType") == "Static")


def test_condor_prio_leaves_a_running_job_alone_and_condor_vacate_job_does_not(pool: RealPool, home: Path) -> None:
    cluster = started(pool, home)
    pool.tool("condor_prio", "-p", "-10", str(cluster))
    (home / "other").mkdir()
    (home / "other").chmod(0o777)
    other = pool.submit(a_ticking_job(home / "other", more="priority = 5"), cwd=home)
    pool.until(lambda: "LastRejMatchTime" in job(pool, other), "a match cycle that has no slot for the other")
    ticks = lines(home / "ticks")
    pool.until(lambda: lines(home / "ticks") > ticks + 5, "more ticks")
    ad = job(pool, cluster)
    assert (ad.eval_int("JobPrio"), ad.eval_int("JobStatus"), ad.eval_int("NumJobStarts")) == (-10, RUNNING, 1)
    assert lines(home / "begun") == 1
    pool.tool("condor_vacate_job", str(cluster))
    pool.until_status(other, RUNNING)
    assert job(pool, cluster).eval_int("JobStatus") == IDLE


def test_a_job_that_waits_for_a_moment_takes_a_slot_no_sooner_than_it_may(pool: RealPool, home: Path) -> None:
    """ScheddInterval, SCHEDD_INTERVAL of where it was submitted, and deferral_prep_time before its moment."""
    moment = int(time.time()) + 12
    more = f"deferral_time = {moment}\ndeferral_prep_time = 3\ndeferral_window = 60\n+ScheddInterval = 3"
    script = f"date +%s > {home}/ran"
    cluster = pool.submit(
        f"""executable = /bin/sh
arguments = "-c '{script}'"
should_transfer_files = NO
{more}
queue
"""
    )
    (ad,) = pool.until_done(cluster)
    assert moment - 6 <= ad.eval_int("JobCurrentStartDate", 0)
    assert int((home / "ran").read_text()) >= moment
