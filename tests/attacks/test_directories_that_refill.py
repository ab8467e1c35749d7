"""A directory of a user's that root removes is gone afterwards, though the user keeps putting things into it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemons.host import sandbox
from daemons.host.account import named_account
from tests.attacks.actors import ATTACKER, needs_accounts
from tests.whole.real_pool import as_account, pool_directory, real_pool

pytestmark = needs_accounts

REFILL = """
import os, sys
os.mkdir(sys.argv[1] + "/held")
held, count = os.open(sys.argv[1] + "/held", os.O_RDONLY), 0
for number in range(300):
    os.makedirs(f"{sys.argv[1]}/{number}/inner")
print("held", flush=True)
while True:
    count += 1
    for place in (sys.argv[1], f"/proc/self/fd/{held}", f"{sys.argv[1]}/{count % 300}"):
        try:
            os.makedirs(f"{place}/{count}/inner")
        except OSError:
            pass
"""


@contextmanager
def refilled(directory: Path) -> Iterator[None]:
    """While this lasts the attacker fills his directory with directories."""
    argv = [sys.executable, "-c", REFILL, str(directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **as_account(ATTACKER)) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield
        finally:
            process.kill()


def test_a_sandbox_is_removed_though_its_account_refills_it() -> None:
    with pool_directory() as directory:
        path = directory / "dir_1"
        sandbox.make(str(path), named_account(ATTACKER))
        with refilled(path):
            sandbox.remove(str(path))
            assert not path.exists()


def test_what_a_removed_job_has_in_the_spool_is_removed_though_its_user_refills_it() -> None:
    with real_pool(user=ATTACKER) as pool, pool_directory(ATTACKER) as home:
        (home / "input").write_text("input")
        job = "executable = /bin/true\ntransfer_input_files = input\nrequirements = false\nqueue\n"
        cluster = pool.submit(job, cwd=home, options=["-spool"])
        (spooled,) = (pool.directory / "spool").glob(f"{cluster}/0/cluster*")
        with refilled(spooled):
            pool.tool("condor_rm", str(cluster))
            pool.until(lambda: not spooled.exists(), "the removal of the spooled files")
