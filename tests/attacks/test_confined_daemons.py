"""Whoever has taken over the collector or the negotiator of root's pool has not got root's rights."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.daemon_core import landlock
from tests.attacks.actors import VICTIM, needs_accounts, run_as
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

DAEMONS = ("collector", "negotiator")
TAKEN_OVER = """
import os, subprocess, sys
from daemons.daemon_core.confine import confine
from daemons.base.log import Log
from pool.config import load_config

directory, victims_file, others_file, victim, other = sys.argv[1:]
config = load_config([], overrides={"LOCAL_DIR": directory}, environ={}, subsystem="COLLECTOR")
confine(config, "COLLECTOR", Log(None, level=""))

def attempt(what, act, *arguments):
    try:
        act(*arguments)
    except OSError:
        return
    print(what)

def regain():
    program = "import os; os.setuid(1)"
    if subprocess.run([sys.executable, "-c", program], capture_output=True).returncode:
        raise OSError("refused")

attempt("became another account", os.seteuid, 1)
attempt("read a file of another account", lambda: open(victims_file).read())
attempt("wrote a file of another account", lambda: open(victims_file, "a"))
attempt("gave a file away", os.chown, directory + "/log", 1, 1)
attempt("signalled a process of another account", os.kill, int(victim), 0)
attempt("wrote a file of root's", lambda: open(others_file, "a"))
attempt("made a file of root's", lambda: open(others_file + ".new", "w"))
attempt("removed a file of root's", os.unlink, others_file)
attempt("signalled a process of root's", os.kill, int(other), 0)
attempt("regained rights", regain)
open(directory + "/log/CollectorLog", "a").close()
os.rename(directory + "/log/CollectorLog", directory + "/log/CollectorLog.old")
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool() as pool:
        yield pool


@pytest.mark.parametrize("daemon", DAEMONS)
def test_it_has_no_capability_and_can_get_none(pool: RealPool, daemon: str) -> None:
    status = Path(f"/proc/{pool.pid_of(daemon)}/status").read_text()
    found = dict(re.findall(r"^(Cap\w+|NoNewPrivs):\s+(\w+)$", status, re.MULTILINE))
    assert {name: int(value, 16) for name, value in found.items()} == {
        "CapInh": 0,
        "CapPrm": 0,
        "CapEff": 0,
        "CapBnd": 0,
        "CapAmb": 0,
        "NoNewPrivs": 1,
    }


def test_the_pool_reconfigures_rotates_logs_and_works_all_the_same(pool: RealPool) -> None:
    (pool.directory / "config").write_text("MAX_COLLECTOR_LOG = 10000\n")
    pool.user = None
    try:
        pool.tool("condor_reconfig", "-all")
        pool.tool("condor_userprio", "-setfactor", f"nobody@{os.uname().nodename}", "7")
    finally:
        pool.user = "nobody"
    (done,) = pool.until_done(pool.submit("executable = /bin/true\nqueue\n"))
    assert done["ExitCode"] == 0


def test_what_it_gave_up_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "victim"
    home.mkdir()
    secret = home / "secret"
    secret.write_text("secret")
    user = pwd.getpwnam(VICTIM)
    for path, mode in ((home, 0o700), (secret, 0o600)):
        os.chown(path, user.pw_uid, user.pw_gid)
        path.chmod(mode)
    roots = tmp_path / "roots"
    roots.write_text("root's")
    directory = tmp_path / "pool"
    for name in ("log", "run", "spool", "keys"):
        (directory / name).mkdir(parents=True)
    victim = subprocess.Popen(["sleep", "600"], user=VICTIM, group=user.pw_gid, extra_groups=[])
    try:
        arguments = (str(directory), str(secret), str(roots), str(victim.pid), str(os.getpid()))
        done = run_as(None, sys.executable, "-c", TAKEN_OVER, *arguments)
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    assert done.stderr == ""
    assert set(done.stdout.splitlines()) <= allowed_by_this_kernel()
    assert (directory / "log" / "CollectorLog.old").exists()


def allowed_by_this_kernel() -> set[str]:
    """What uid 0 can do without a capability, where Landlock does not forbid it."""
    version = landlock.version()
    files = {"wrote a file of root's", "made a file of root's", "removed a file of root's"}
    return (set() if version else files) | (
        set() if version >= landlock.SCOPES_SINCE else {"signalled a process of root's"}
    )
