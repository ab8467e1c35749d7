"""A job that has made namespaces of its own mounts there what it likes: nothing of root's may go there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.actors import ATTACKER, needs_accounts
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

PRECIOUS = "what only root may write\n"
JOB = """
import ctypes, os, sys, time

libc, uid, gid = ctypes.CDLL(None), os.getuid(), os.getgid()
NEWUSER, NEWNS, REC_PRIVATE = 0x10000000, 0x20000, 16384 | 1 << 18
if sys.argv[2] == "own":
    if libc.unshare(NEWUSER | NEWNS) != 0:
        sys.exit(77)  # this machine does not let anybody have user namespaces
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
    open("/proc/self/gid_map", "w").write(f"0 {gid} 1")
    assert libc.mount(b"none", b"/", None, REC_PRIVATE, None) == 0
    assert libc.mount(b"tmpfs", b"/proc", b"tmpfs", 0, None) == 0
    os.mkdir("/proc/self")
    for name in ("oom_score_adj", "status", "environ"):
        os.symlink(sys.argv[1], f"/proc/self/{name}")
open("ready", "w").close()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(user=ATTACKER) as pool:
        yield pool


def _running(pool: RealPool, how: str, target: Path) -> int:
    home = pool.place(how)
    (home / "job.py").write_text(JOB)
    cluster = pool.submit(
        f"executable = /usr/bin/python3\ntransfer_executable = false\narguments = job.py {target} {how}\n"
        f"error = error\nshould_transfer_files = no\nrequest_memory = 64\nqueue\n",
        cwd=home,
    )
    pool.until(lambda: (home / "ready").exists() or not pool.jobs(str(cluster)), "the job's namespaces")
    if not (home / "ready").exists():
        assert pool.history(str(cluster))[0].eval_int("ExitCode") == 77, (home / "error").read_text()
        pytest.skip("this machine does not let anybody have user namespaces")
    return cluster


def test_a_shell_does_not_follow_a_job_into_namespaces_that_it_made(pool: RealPool) -> None:
    precious = pool.directory / "precious"
    precious.write_text(PRECIOUS)
    precious.chmod(0o600)
    cluster = _running(pool, "own", precious)
    said = pool.tool("condor_ssh_to_job", str(cluster), "echo inside", check=False)
    assert precious.read_text() == PRECIOUS
    assert "inside" not in said
    pool.tool("condor_rm", str(cluster))


def test_a_shell_is_opened_where_the_starter_put_the_job(pool: RealPool) -> None:
    cluster = _running(pool, "given", pool.directory)
    said = pool.tool("condor_ssh_to_job", str(cluster), "readlink /proc/self/ns/mnt /proc/$_CONDOR_JOB_PIDS/ns/mnt")
    assert len(set(said.split())) == 1
    pool.tool("condor_rm", str(cluster))
