"""Who plays in an attack: two ordinary accounts of this machine, and programs that run as one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.whole.real_pool import DEADLINE_S, as_account

VICTIM: Final = "www-data"
ATTACKER: Final = "games"
LONER: Final = "irc"
"""An account of which nothing else runs on this machine: for an attacker who signals all that is his."""

needs_accounts = pytest.mark.skipif(os.geteuid() != 0, reason="needs two ordinary accounts beside root")


def run_as(
    account: str | None, *argv: str, text: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as that account (None: as this process); its output, whatever its status."""
    return subprocess.run(
        argv,
        cwd="/",
        env=env,
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        **as_account(account),
    )


def python_as(account: str | None, code: str, *argv: str, env: dict[str, str] | None = None) -> str:
    """Run Python code as that account, with this project importable; what it printed. It must end with status 0."""
    done = run_as(account, sys.executable, "-c", code, *argv, env=env)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout
