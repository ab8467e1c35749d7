"""What a job does to the process beside it, or its starter suffers, does not keep it in the queue."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.actors import ATTACKER, VICTIM, needs_accounts, run_as
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(user=ATTACKER, KILLING_TIMEOUT=1, START_SCHEDULER_UNIVERSE=True, NUM_CPUS=1) as pool:
        yield pool


def remove(pool: RealPool, cluster: int) -> None:
    """Ask for it, and wait for it: without a bound of the pool's own, the job would stay until somebody helps."""
    pool.tool("condor_rm", str(cluster))
    pool.until(lambda: not pool.jobs(str(cluster)), "an empty queue")


@pytest.mark.parametrize("universe", ["local", "scheduler"])
def test_a_local_job_that_stops_the_process_beside_it_is_removed(pool: RealPool, universe: str) -> None:
    """`kill -STOP $PPID`: that process is the job's owner's."""
    cluster = pool.submit(
        f"universe = {universe}\nexecutable = /bin/sh\n"
        "arguments = \"-c 'kill -STOP $PPID; exec sleep 1000'\"\nkill_sig_timeout = 1\njob_max_vacate_time = 1\nqueue\n"
    )
    pool.until(lambda: stopped(pool, "condor_local"), "a stopped process")
    remove(pool, cluster)
    pool.until(lambda: not stopped(pool, "condor_local"), "its end")


def test_the_schedd_survives_the_death_of_the_process_beside_a_job(pool: RealPool) -> None:
    """Killed before it has read what it was told, that process resets the connection instead of closing it."""
    before = pool.pid_of("schedd")
    cluster = pool.submit(
        "universe = local\nexecutable = /bin/sh\narguments = \"-c 'kill -STOP $PPID; sleep 1000'\"\n"
        "kill_sig_timeout = 0\njob_max_vacate_time = 0\nqueue\n"
    )
    (pid,) = pool.until(lambda: stopped(pool, "condor_local"), "a stopped process")
    pool.tool("condor_rm", str(cluster))
    run_as(ATTACKER, "/bin/kill", "-KILL", str(pid))
    pool.until(lambda: not pool.jobs(str(cluster)), "an empty queue")
    assert pool.pid_of("schedd") == before


def test_a_local_job_whose_input_is_a_pipe_that_nobody_writes_is_removed(pool: RealPool) -> None:
    pipe = pool.place("pipe") / "pipe"
    os.mkfifo(pipe, 0o666)
    pipe.chmod(0o666)
    cluster = pool.submit(
        f"universe = local\nexecutable = /bin/true\ninput = {pipe}\nkill_sig_timeout = 1\njob_max_vacate_time = 1\nqueue\n"
    )
    pool.until(lambda: processes(pool, "condor_local"), "the process beside it")
    remove(pool, cluster)


def test_a_stopped_starter_and_a_stopped_job_cost_their_slot_a_bounded_time(pool: RealPool) -> None:
    cluster = pool.submit("executable = /bin/sleep\narguments = 1000\njob_max_vacate_time = 1\nqueue\n")
    pool.until_status(cluster, 2)
    job = pool.until(lambda: [ad.eval_int("JobPid", 0) for ad in pool.jobs(str(cluster)) if "JobPid" in ad], "its pid")
    starter = parent_of(job[0])
    for pid in (job[0], starter):
        os.kill(pid, signal.SIGSTOP)
    remove(pool, cluster)
    pool.user = VICTIM
    pool.until_done(pool.submit("executable = /bin/true\nqueue\n"))
    pool.user = ATTACKER


def processes(pool: RealPool, name: str, state: str = "") -> list[int]:
    """Those of that name, in this state."""
    found = []
    for pid in pool.processes():
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if status.startswith(f"Name:\t{name}\n") and f"\nState:\t{state}" in status:
            found.append(pid)
    return found


def stopped(pool: RealPool, name: str) -> list[int]:
    return processes(pool, name, "T")


def parent_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("\nPPid:\t")[2].partition("\n")[0])
