"""Why a job waits, or was held: what users are told by hold reasons and by `pool why`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, as_account, real_pool

JOB = "executable = {}\ntransfer_executable = false\nshould_transfer_files = no\nuniverse = {}\nlog = log\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=2, NEGOTIATOR_INTERVAL=1, NEGOTIATOR_CYCLE_DELAY=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def home(pool: RealPool) -> Path:
    home = pool.directory / "home"
    home.mkdir()
    home.chmod(0o777)
    return home


def why(pool: RealPool, *words: str) -> str:
    """What `pool why` says."""
    return pool.tool("pool", "why", *words)


@pytest.mark.parametrize("universe", ["vanilla", "local"])
@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("#!/bin/sh.not \n\nexit 0\n", 0o755, "invalid interpreter (/bin/sh.not) specified on first line of script"),
        ("#!/bin/sh\r\nexit 0\r\n", 0o755, "its lines end as on Windows"),
        ("#!/bin/sh\nexit 0\n", 0o644, "is not executable (chmod +x program)"),
        ("exit 0\n", 0o755, "needs a first line such as #!/bin/sh"),
    ],
    ids=["interpreter", "windows", "mode", "no-line"],
)
def test_a_program_that_cannot_be_executed_is_held_with_the_cause(
    pool: RealPool, home: Path, universe: str, text: str, mode: int, said: str, tmp_path: Path
) -> None:
    where = home / tmp_path.name
    where.mkdir()
    program = where / "program"
    program.write_bytes(text.encode())
    program.chmod(mode)
    cluster = pool.submit(JOB.format(program, universe) + "queue\n", cwd=home)
    [held] = pool.until_status(cluster, 5)
    assert said in held.eval_str("HoldReason", "")
    assert held.eval_int("HoldReasonCode") == 6
    assert said in why(pool, str(cluster))
    pool.tool("condor_rm", str(cluster))


def test_of_a_job_that_no_slot_takes_it_is_never_said_that_one_would(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(JOB.format("/bin/true", "vanilla") + "hold = true\nqueue\n", cwd=home)
    pool.tool("condor_qedit", str(cluster), "RequestCpus=-1.5")
    pool.tool("condor_release", str(cluster))
    pool.until(lambda: "LastRejMatchTime" in pool.jobs(str(cluster))[0], "a match cycle that has no slot for it")
    said = why(pool, str(cluster))
    pool.tool("condor_rm", str(cluster))
    assert "the job's RequestCpus is -1.5" in said
    assert "willing" not in said
    assert "should start" not in said


def test_condor_q_says_of_a_slot_which_jobs_it_takes(pool: RealPool, home: Path) -> None:
    text = JOB.format("/bin/true", "vanilla") + "request_cpus = $(cpus)\nhold = true\nqueue cpus in (1, 64)\n"
    cluster = pool.submit(text, cwd=home)
    slot = pool.tool("condor_status", "-af", "Name").split()[0]
    ask = "condor_q", "-better-analyze:reverse", "-machine", slot
    said = pool.tool(*ask, str(cluster))
    assert f"\n-- Slot: {slot} : Analyzing matches for 2 Jobs in 2 autoclusters\n" in said
    assert "\n    Start && WithinResourceLimits\n\n  START is\n    true\n" in said
    assert "\nStep   Matched  Condition\n----- --------- ---------\n[1]           1  WithinResourceLimits\n" in said
    assert "\n    1 (50.00 %) match both slot and job requirements.\n" in said
    alone = pool.tool(*ask, f"{cluster}.1")
    assert f"\nJob {cluster}.1 has the following attributes:\n\n    TARGET.RequestCpus = 64\n" in alone
    assert "\n[1]           0  WithinResourceLimits\n" in alone
    pool.tool("condor_rm", str(cluster))


def test_without_a_job_all_that_waits_is_explained_in_groups(pool: RealPool, home: Path) -> None:
    assert why(pool) == "No job waits, and none is on hold.\n"
    large = pool.submit(JOB.format("/bin/true", "vanilla") + "request_memory = 64 TB\nqueue 8\n", cwd=home)
    held = pool.submit(JOB.format("/bin/true", "vanilla") + "hold = true\nqueue 2\n", cwd=home)
    lines = why(pool).splitlines()
    pool.tool("condor_rm", str(large), str(held))
    assert lines[0] == f"8 jobs ({', '.join(f'{large}.{proc}' for proc in range(6))}, ...):"
    assert lines[1].startswith("  No slot meets the condition TARGET.Memory >= RequestMemory; the best of Memory is ")
    assert lines[2:] == [
        f"2 jobs ({held}.0, {held}.1):",
        "  On hold: submitted on hold at user's request (code 15, subcode 0).",
        "  When that is mended: condor_release; to give it up: condor_rm.",
    ]


def test_jobs_that_the_access_point_keeps_back_are_told_so() -> None:
    with real_pool(NUM_CPUS=2, MAX_JOBS_RUNNING=1, START_LOCAL_UNIVERSE="false") as pool:
        sleeper = "executable = /bin/sleep\narguments = 600\ntransfer_executable = false\nqueue\n"
        first = pool.submit(sleeper)
        pool.until_status(first, 2)
        second = pool.submit(sleeper)
        assert "MAX_JOBS_RUNNING allows no more" in why(pool, str(second))
        local = pool.submit("executable = /bin/true\nuniverse = local\nqueue\n")
        said = why(pool, str(local))
        assert "START_LOCAL_UNIVERSE" in said
        assert "slot" not in said
        pool.tool("condor_rm", str(first), str(second), str(local))
        pool.until(lambda: not pool.jobs(), "an empty queue")


def test_a_description_of_another_system_queues_nothing_and_is_told_all_that_is_wrong(
    pool: RealPool, home: Path
) -> None:
    text = 'executable: /bin/true\nuniverse = vanila\nrequest_memory = 4 gigs\nrequirements = OpSys = "LINUX"\nque 5\n'
    (home / "wrong.sub").write_text(text)
    before = len(pool.jobs())
    program = str(Path(sys.executable).with_name("condor_submit"))
    done = subprocess.run(
        [program, "wrong.sub"],
        cwd=home,
        env=pool.env(),
        capture_output=True,
        text=True,
        check=False,
        **as_account(pool.user),
    )
    places = [line.partition(" ")[0] for line in done.stderr.splitlines() if "wrong.sub:" in line]
    assert (done.returncode, len(pool.jobs())) == (1, before)
    assert places == ["ERROR:", "wrong.sub:2:12:", "wrong.sub:3:20:", "wrong.sub:4:22:", "wrong.sub:5:1:"]
    for meant in ("`executable = /bin/true`", "'vanilla'", "`4 GB`", '`OpSys == "LINUX"`', "`queue 5`"):
        assert meant in done.stderr
