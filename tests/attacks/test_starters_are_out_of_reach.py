"""A starter keeps root's rights, and is nobody's to signal: also not of the account that it starts jobs as."""

from __future__ import annotations

import subprocess
import sys

from tests.attacks.actors import ATTACKER, needs_accounts
from tests.whole.real_pool import as_account, real_pool

pytestmark = needs_accounts

SNIPER = """
import os, sys, time
def starters():
    found = {}
    for name in os.listdir("/proc"):
        try:
            if open(f"/proc/{name}/comm").read() == "condor_starter\\n":
                found[int(name)] = int(open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[1])
        except OSError:
            pass
    # No child on its way to its program: in a moment that is the account's, however long it waits for the processor.
    return {pid for pid, parent in found.items() if parent not in found}
print("ready", flush=True)
end, hits, tries = time.monotonic() + 4, 0, 0
while time.monotonic() < end:
    pids = starters()
    time.sleep(0.02)
    pids &= starters()  # one whose parent had ended before that was looked at
    for _ in range(3000):
        for pid in pids:
            tries += 1
            try:
                os.kill(pid, 0)
                hits += 1
            except (PermissionError, ProcessLookupError):
                pass
print(hits, tries)
"""


def test_no_starter_can_be_signalled_by_the_account_of_its_jobs() -> None:
    with real_pool(user=ATTACKER, NUM_CPUS=1) as pool:
        pool.until_done(pool.submit("executable = /bin/true\nqueue\n"))
        with subprocess.Popen(
            [sys.executable, "-c", SNIPER], stdout=subprocess.PIPE, text=True, **as_account(ATTACKER)
        ) as sniper:
            assert sniper.stdout is not None
            assert sniper.stdout.readline() == "ready\n"
            pool.until_done(pool.submit("executable = /bin/true\nqueue 75\n"))
            hits, tries = map(int, sniper.stdout.read().split())
        assert tries > 10_000
        assert hits == 0
