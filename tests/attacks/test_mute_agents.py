"""A user stops, kills or misuses his own file agent: that is his own loss, and nobody else's."""

from __future__ import annotations

import copy
import itertools
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.attacks.actors import LONER, VICTIM, needs_accounts, python_as
from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool

pytestmark = needs_accounts

HELD = 5
TIMEOUT_S = 1.0
"""FILE_AGENT_TIMEOUT of this pool: a few of them are soon over, where waiting without a bound would never end."""
FOR_GOOD_S = 3600.0
"""That of a pool in which a stopped agent is waited for as long as any test lasts."""


@pytest.fixture(scope="module")
def victims() -> Iterator[RealPool]:
    with real_pool(user=VICTIM, FILE_AGENT_TIMEOUT=TIMEOUT_S, NUM_CPUS=2) as pool:
        yield pool


@pytest.fixture
def attackers(victims: RealPool) -> Iterator[RealPool]:
    """The same pool, as the attacker has it; at the end none of his agents is stopped."""
    with as_attacker(victims) as pool:
        yield pool


@contextmanager
def as_attacker(victims: RealPool) -> Iterator[RealPool]:
    pool = copy.copy(victims)
    pool.user = LONER
    try:
        yield pool
    finally:
        for pid in agents(pool):
            with suppress(ProcessLookupError):
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


def the_agent(pool: RealPool) -> int:
    """The attacker's only one, as soon as it is that: one that was slow is replaced, and ends then."""
    return pool.until(lambda: found[0] if len(found := agents(pool)) == 1 else 0, "one file agent")


def signal_agent(pool: RealPool, number: signal.Signals) -> None:
    """What the attacker does to his agent."""
    code = "import os, sys\nos.kill(int(sys.argv[2]), int(sys.argv[1]))"
    python_as(LONER, code, str(int(number)), str(the_agent(pool)))


def home_of(pool: RealPool, name: str) -> Path:
    directory = pool.place(name)
    os.chown(directory, pwd.getpwnam(LONER).pw_uid, -1)
    return directory


def test_the_slot_of_a_job_is_free_although_its_users_agent_is_stopped(victims: RealPool, attackers: RealPool) -> None:
    home = home_of(victims, "stopped")
    cluster = attackers.submit(
        f"executable = /bin/sleep\narguments = 1000\nlog = {home}/log\nrequest_cpus = 2\nqueue\n"
    )
    attackers.until_status(cluster, 2)
    signal_agent(attackers, signal.SIGSTOP)
    attackers.tool("condor_rm", str(cluster))
    victims.until(lambda: not victims.jobs(str(cluster)), "an empty queue")
    mine = victims.submit("executable = /bin/true\nrequest_cpus = 2\nqueue\n")
    victims.until(lambda: not victims.jobs(str(mine)), "the victim's job")
    attackers.until(lambda: "009 (" in (home / "log").read_text(), "the whole log, by another agent")


def test_nobody_elses_condor_q_waits_for_a_stopped_agent() -> None:
    """Nor does a victim's submit, though the attacker's event waits all the while."""
    with real_pool(user=VICTIM, FILE_AGENT_TIMEOUT=FOR_GOOD_S) as victims, as_attacker(victims) as attackers:
        log = home_of(victims, "queries") / "log"
        cluster = attackers.submit(f"executable = /bin/true\nlog = {log}\nrequirements = false\nqueue\n")
        signal_agent(attackers, signal.SIGSTOP)
        with background(attackers, "condor_hold", str(cluster)) as holding:
            victims.until_status(cluster, HELD)
            victims.tool("condor_q", "-totals")
            victims.submit(f"executable = /bin/true\nlog = {victims.place('mine')}/log\nrequirements = false\nqueue\n")
            assert "012 (" not in log.read_text()
            signal_agent(attackers, signal.SIGCONT)
            victims.until(lambda: "012 (" in log.read_text(), "the event of the attacker's job")
            assert holding.wait(DEADLINE_S) == 0


@contextmanager
def background(pool: RealPool, program: str, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A tool that may have to wait."""
    tool = subprocess.Popen(
        [Path(sys.executable).with_name(program), *argv],
        cwd=pool.directory,
        env=pool.env(),
        stdout=subprocess.DEVNULL,
        **as_account(pool.user),
    )
    try:
        yield tool
    finally:
        tool.kill()
        tool.wait()


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
from protocol.messages.submit import SubmitJobs
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
    )
    assert "cannot write the event log" in said


def test_an_agent_cannot_be_traced_or_read_by_its_user(victims: RealPool, attackers: RealPool) -> None:
    home = home_of(victims, "traced")
    attackers.submit(f"executable = /bin/true\nlog = {home}/log\nrequirements = false\nqueue\n")
    pid = the_agent(attackers)
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
    home = home_of(victims, "again")
    cluster = attackers.submit(f"executable = /bin/true\nlog = {home}/log\nrequirements = false\nqueue\n")
    root, priorities = copy.copy(victims), itertools.count(1)
    root.user = None

    def held() -> str:
        root.tool("condor_prio", "-p", str(next(priorities)), str(cluster))  # his log is to hear of it
        (ad,) = root.jobs(str(cluster))
        return ad.eval_str("HoldReason", "") if ad.eval_int("HoldReasonCode") == 22 else ""

    with everything_stopped_as(LONER):
        assert "does not answer" in root.until(held, "a job on hold for want of a log")
    root.tool("condor_rm", str(cluster))
    victims.restart_of("schedd")  # another one gives the attacker an agent before minutes have passed
