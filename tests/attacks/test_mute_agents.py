"""A user stops, kills or misuses his own file agent: that is his own loss, and nobody else's."""

from __future__ import annotations

import copy
import itertools
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.actors import LONER, VICTIM, needs_accounts, python_as
from tests.whole.real_pool import RealPool, as_account, real_pool

pytestmark = needs_accounts

TIMEOUT_S = 1.0
"""FILE_AGENT_TIMEOUT of this pool; what takes a few of them is bounded."""
BOUND_S = 30.0
"""Far more than that, for a busy machine; far less than what it took without a bound."""


@pytest.fixture(scope="module")
def victims() -> Iterator[RealPool]:
    with real_pool(user=VICTIM, FILE_AGENT_TIMEOUT=TIMEOUT_S, NUM_CPUS=2) as pool:
        yield pool


@pytest.fixture
def attackers(victims: RealPool) -> Iterator[RealPool]:
    """The same pool, as the attacker has it; at the end none of his agents is stopped."""
    pool = copy.copy(victims)
    pool.user = LONER
    yield pool
    for pid in agents(pool):
        os.kill(pid, signal.SIGCONT)


def agents(pool: RealPool) -> list[int]:
    """The attacker's living file agents."""
    uid, found = pwd.getpwnam(LONER).pw_uid, []
    for pid in pool.processes():
        entry = Path(f"/proc/{pid}")
        try:
            status = (entry / "status").read_text()
            if (entry / "comm").read_text() == "condor_agent\n" and f"\nUid:\t{uid}\t" in status:
                found += [pid] if "\nState:\tZ" not in status else []
        except OSError:
            continue
    return found


def signal_agents(pool: RealPool, number: signal.Signals) -> int:
    """What the attacker does to his agents; how many he reached."""
    code = "import os, sys\nfor pid in sys.argv[2:]: os.kill(int(pid), int(sys.argv[1]))"
    pids = agents(pool)
    python_as(LONER, code, str(int(number)), *map(str, pids))
    return len(pids)


def home_of(pool: RealPool, name: str) -> Path:
    directory = pool.directory / name
    directory.mkdir(exist_ok=True)
    os.chown(directory, pwd.getpwnam(LONER).pw_uid, -1)
    return directory


def test_the_slot_of_a_job_is_free_although_its_users_agent_is_stopped(victims: RealPool, attackers: RealPool) -> None:
    home = home_of(victims, "stopped")
    cluster = attackers.submit(
        f"executable = /bin/sleep\narguments = 1000\nlog = {home}/log\nrequest_cpus = 2\nqueue\n"
    )
    attackers.until_status(cluster, 2)
    assert signal_agents(attackers, signal.SIGSTOP) == 1
    attackers.tool("condor_rm", str(cluster))
    began = time.monotonic()
    victims.until(lambda: not victims.jobs(str(cluster)), "an empty queue")
    mine = victims.submit("executable = /bin/true\nrequest_cpus = 2\nqueue\n")
    victims.until(lambda: not victims.jobs(str(mine)), "the victim's job", deadline_s=BOUND_S)
    assert time.monotonic() - began < BOUND_S
    attackers.until(lambda: "009 (" in (home / "log").read_text(), "the whole log, by another agent")


def test_nobody_elses_condor_q_waits_for_a_stopped_agent(victims: RealPool, attackers: RealPool) -> None:
    home = home_of(victims, "queries")
    attackers.submit(f"executable = /bin/true\nlog = {home}/log\nrequirements = false\nqueue\n")

    def quickest() -> float:
        took = []
        for _ in range(3):
            began = time.monotonic()
            victims.tool("condor_q", "-totals")
            took.append(time.monotonic() - began)
        return min(took)

    quiet_s = quickest()
    assert signal_agents(attackers, signal.SIGSTOP) == 1
    attackers.tool("condor_hold", "-all", check=False)  # its event waits for the agent
    assert quickest() < quiet_s + 0.5


@contextmanager
def everything_stopped_as(account: str) -> Iterator[None]:
    """A process of the account stops all others, as fast as it can."""
    stopper = subprocess.Popen(
        [sys.executable, "-c", "import os\nwhile True:\n try: os.kill(-1, 19)\n except OSError: pass"],
        **as_account(account),
    )
    try:
        yield
    finally:
        stopper.kill()
        stopper.wait()


def submit_raw(pool: RealPool, log: str) -> int:
    """Submit a job with this log, by a client that checks nothing."""
    code = """
import sys
from pool.classad import ClassAd, expr
from protocol.rpc.blocking import connect
from protocol.messages.schedd import SubmitJobs
from protocol.security.credentials import Security
ad = ClassAd({"Cmd": "/bin/true", "JobUniverse": 5, "Iwd": "/", "UserLog": bytes.fromhex(sys.argv[2]).decode()})
ad["Requirements"] = expr("false")
with connect(sys.argv[1], Security()) as peer:
    print(peer.call(SubmitJobs(cluster_ad=ad, procs=[])).cluster)
"""
    return int(python_as(pool.user, code, str(pool.run_dir / "schedd.sock"), log.encode().hex()))


@pytest.mark.parametrize("log", ["fifo", "directory"])
def test_a_log_that_is_no_file_holds_its_job_and_nothing_is_retried(
    victims: RealPool, attackers: RealPool, log: str
) -> None:
    home = home_of(victims, f"log-{log}")
    path = home / log
    if log == "fifo":
        os.mkfifo(path)
        os.chown(path, pwd.getpwnam(LONER).pw_uid, -1)
    if log == "directory":
        path.mkdir()
    cluster = submit_raw(attackers, str(path))
    said = attackers.until(
        lambda: attackers.tool("condor_q", str(cluster), "-constraint", "HoldReasonCode == 22", "-af", "HoldReason"),
        "a job on hold for want of a log",
        deadline_s=BOUND_S,
    )
    assert "cannot write the event log" in said


def test_an_agent_cannot_be_traced_or_read_by_its_user(victims: RealPool, attackers: RealPool) -> None:
    home = home_of(victims, "traced")
    attackers.submit(f"executable = /bin/true\nlog = {home}/log\nrequirements = false\nqueue\n")
    (pid,) = agents(attackers)
    code = """
import ctypes, os, sys
pid, got = int(sys.argv[1]), []
for name in ("mem", "environ", "maps", "fd", "cwd/."):
    try:
        os.listdir(f"/proc/{pid}/fd") if name == "fd" else open(f"/proc/{pid}/{name}", "rb").read(1)
        got.append(name)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, pid, 0, 0) == 0:
    got.append("ptrace")
print(*got)
"""
    assert python_as(LONER, code, str(pid)).split() == []


def test_a_user_whose_agents_fail_again_and_again_has_his_jobs_held(victims: RealPool, attackers: RealPool) -> None:
    """The last one here: the attacker gets no agent for minutes afterwards."""
    home = home_of(victims, "again")
    cluster = attackers.submit(f"executable = /bin/true\nlog = {home}/log\nrequirements = false\nqueue\n")
    root, priorities = copy.copy(victims), itertools.count(1)
    root.user = None

    def held() -> str:
        root.tool("condor_prio", "-p", str(next(priorities)), str(cluster))  # his log is to hear of it
        (ad,) = root.jobs(str(cluster))
        return ad.eval_str("HoldReason", "") if ad.eval_int("HoldReasonCode") == 22 else ""

    with everything_stopped_as(LONER):
        assert "does not answer" in root.until(held, "a job on hold for want of a log", deadline_s=BOUND_S)
    root.tool("condor_rm", str(cluster))
