"""kill -9 of whoever charges and saves accounts, at random moments: what was saved is there, whole, and goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemons.negotiator.store import AccountStore

LIVES = 4
STEP_S = 0.5
SLOTS = {"alice@p": 3, "bob@p": 1}

LIFE = f"""
import sys
from daemons.negotiator.store import AccountStore
from pool.accounting import Accountant, SubmitterUse
store = AccountStore(sys.argv[1])
accounts, updated_at = store.load()
accountant = Accountant(accounts=accounts, updated_at=updated_at)
use = {{name: SubmitterUse(slots, float(slots)) for name, slots in {SLOTS}.items()}}
while True:
    accountant.charge(use, now=(accountant.updated_at or 1000.0) + {STEP_S})
    store.save(accountant.accounts.values(), accountant.updated_at)
    print(accountant.updated_at, flush=True)
"""


def killed(path: Path, after: int) -> float:
    """A life that is killed some time after it has said that so many charges are saved; the last of which it said so."""
    with subprocess.Popen([sys.executable, "-c", LIFE, str(path)], stdout=subprocess.PIPE, text=True) as life:
        assert life.stdout is not None
        said = [life.stdout.readline() for _ in range(after)]
        os.kill(life.pid, signal.SIGKILL)
        said += life.stdout.read().split("\n")  # what it had said before it died
        assert life.wait() == -signal.SIGKILL
    return float([line for line in said if line.endswith("\n") or line][-1])


@pytest.mark.parametrize("seed", [1, 2])
def test_accounts_are_whole_and_miss_at_most_the_last_charge(tmp_path: Path, seed: int) -> None:
    rng, path, began = random.Random(seed), tmp_path / "accounts.db", 0.0
    for _ in range(LIVES):
        saved = killed(path, rng.randrange(1, 40))
        store = AccountStore(path)
        accounts, updated_at = store.load()
        store.close()
        began = began or accounts["bob@p"].began_at
        assert saved <= updated_at <= saved + STEP_S
        for name, slots in SLOTS.items():
            assert accounts[name].usage_s == pytest.approx(slots * (updated_at - began))
            assert accounts[name].began_at == began
