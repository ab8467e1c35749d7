"""Unmodified programs that move (want_checkpoint = criu): two hosts, a real CRIU, and pools that have none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from daemons.host.namespaces import can_isolate
from pool.classad import ClassAd
from tests.whole.hosts import four_hosts
from tests.whole.real_pool import RealPool, real_pool

REAL = pytest.mark.skipif(
    not can_isolate() or shutil.which("criu", path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None,
    reason="takes root's rights and the program criu",
)
COUNT = """
import os, time
into = os.pipe()
os.write(into[1], b"from the first host")
mine = open("counted", "w")
for number in range(1, 1000001):
    if number % 1000 == 0:
        print(number, os.getpid(), file=mine, flush=True)
        time.sleep(0.01)
print(os.read(into[0], 100).decode(), flush=True)
"""
UNTIL_TOLD = """
import os, time
into = os.pipe()
os.write(into[1], b"from the first host")
mine, number = open("counted", "w"), 0
while not os.path.exists("{go}"):
    number += 1
    print(number, os.getpid(), file=mine, flush=True)
    time.sleep(0.01)
print(os.read(into[0], 100).decode(), flush=True)
"""
JOB = """
executable      = /usr/bin/python3
arguments       = count.py
transfer_executable  = false
transfer_input_files = count.py
transfer_output_files = counted
want_checkpoint = criu
requirements    = Machine =!= MY.LeftMachine
output          = out
error           = err
log             = log
queue
"""


@REAL
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_program_counts_to_a_million_and_goes_on_where_it_was_on_another_host() -> None:
    with four_hosts(NUM_CPUS="1", MEMORY="1024") as hosts:
        submit = hosts.submit
        home = submit.place("count")
        (home / "count.py").write_text(COUNT)
        (home / "count.py").chmod(0o644)
        with submit.as_user("nobody"):
            cluster = str(submit.submit(JOB, cwd=home))
            (job,) = submit.until(lambda: submit.jobs(cluster, "-constraint", "JobStatus == 2"), "the job to run")
            first = (job.eval_str("RemoteHost") or "").partition("@")[2]
            submit.tool("condor_qedit", cluster, "LeftMachine", f'"{first}"')
            submit.until(lambda: "\n" in submit.tool("condor_tail", cluster, "counted"), "the program to count")
            submit.tool("condor_vacate_job", cluster)
            (ad,) = submit.until_done(int(cluster))
        assert ad.eval("LastRemoteHost") not in (None, f"slot1@{first}")
        assert first not in str(ad.eval("LastRemoteHost"))
        assert (ad.eval("ExitCode"), ad.eval("NumCkpts"), ad.eval("NumJobStarts")) == (0, 1, 2)
        assert (home / "out").read_text() == "from the first host\n"
        lines = [line.split() for line in (home / "counted").read_text().splitlines()]
        assert [int(number) for number, _ in lines] == list(range(1000, 1000001, 1000))
        assert len({pid for _, pid in lines}) == 1
        events = (home / "log").read_text()
        assert events.count(") Job was checkpointed.") == 1  # of event 004
        assert events.count(" Job was checkpointed.") == 2


@REAL
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_owners_policy_has_checkpoints_made_and_programs_moved() -> None:
    """PERIODIC_CHECKPOINT, a job that the machine likes better (RANK), PREEMPT, condor_hold; no starter rests meanwhile."""
    with real_pool(
        NUM_CPUS=1,
        PERIODIC_CHECKPOINT="time() - LastPeriodicCheckpoint >= 1",
        RANK="TARGET.Loved ?: 0",
        PREEMPT="Wanted =?= true",
        START="Wanted =!= true",
        MAXJOBRETIREMENTTIME=0,
        NEGOTIATOR_INTERVAL=2,
        NEGOTIATOR_MIN_INTERVAL=1,
        POLLING_INTERVAL=1,
        STARTER_REST_AFTER=1,
    ) as pool:
        home = pool.place("moves")
        (home / "count.py").write_text(UNTIL_TOLD.format(go=home / "go"))
        (home / "count.py").chmod(0o644)
        cluster = pool.submit(JOB, cwd=home)

        def ad() -> ClassAd:
            (found,) = pool.jobs(str(cluster))
            return found

        def until_checkpoints(more: int) -> None:
            count = ad().eval_int("NumCkpts", 0) + more
            pool.until_status(cluster, 2)
            pool.until(lambda: ad().eval_int("NumCkpts", 0) >= count, f"{count} checkpoints")

        until_checkpoints(2)
        assert ad().eval_int("NumJobStarts") == 1
        pool.submit("executable = /bin/true\ntransfer_executable = false\n+Loved = 1\nqueue\n", cwd=home)
        pool.until(lambda: lefts(home) == 1, "the job to make room")
        until_checkpoints(1)
        owner(pool, "condor_update_machine_ad", text="Wanted = true\n")
        pool.until(lambda: lefts(home) == 2, "the job to leave for the owner")
        owner(pool, "condor_update_machine_ad", text="Wanted = false\n")
        until_checkpoints(1)
        pool.tool("condor_hold", str(cluster))
        pool.until(lambda: lefts(home) == 3, "the job to leave for its user")
        pool.tool("condor_release", str(cluster))
        until_checkpoints(1)
        (home / "go").touch()
        (done,) = pool.until_done(cluster)
        assert (done.eval("ExitCode"), done.eval("NumJobStarts")) == (0, 4)
        assert "CheckpointFailedReason" not in done
        assert (home / "out").read_text() == "from the first host\n"
        lines = [line.split() for line in (home / "counted").read_text().splitlines()]
        assert [int(number) for number, _ in lines] == list(range(1, len(lines) + 1))
        assert len({pid for _, pid in lines}) == 1
        assert (home / "log").read_text().count(") CPU times") == 0


def owner(pool: RealPool, *argv: str, text: str) -> None:
    """Run a tool as the pool's owner."""
    user, pool.user = pool.user, None
    try:
        pool.tool(*argv, text=text)
    finally:
        pool.user = user


def lefts(home: Path) -> int:
    """How often the job has left with a checkpoint."""
    return (home / "log").read_text().count("\t(1) Job was checkpointed.")


@pytest.mark.slow
def test_where_there_is_no_criu_the_job_says_so_before_it_starts() -> None:
    with real_pool(NUM_CPUS=1, CRIU="/nowhere/criu") as pool:
        home: Path = pool.place("none")
        cluster = pool.submit("executable = /bin/true\nwant_checkpoint = criu\nlog = log\nqueue\n", cwd=home)
        slot = pool.machine()
        assert (slot.eval("HasCriu"), slot.eval("CriuProblem")) == (False, "there is no /nowhere/criu")
        said = pool.until(lambda: _says(pool.tool("pool", "why", str(cluster))), "why it does not run")
        assert "HasCriu" in said


def _says(text: str) -> str:
    return text if "HasCriu" in text else ""
