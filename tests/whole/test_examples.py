"""Every example of tests/cases/examples against real daemons, for every pairing of a pool's owner with its user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, as_account, real_pool

EXAMPLES = Path(__file__).parent.parent / "cases" / "examples"
NAMES = ["hello", "sweep", "wordcount", "quoting", "stdin", "exits", "tree", "many", "idle", "held", "leftovers", "env"]
SETTINGS = {
    "roots_pool_used_by_root": (None, None),
    "roots_pool_used_by_an_account": (None, "www-data"),
    "an_accounts_own_pool": ("www-data", "www-data"),
}
WAIT_S = 240


@pytest.fixture(scope="module", params=list(SETTINGS))
def pool(request: pytest.FixtureRequest) -> Iterator[RealPool]:
    owner, user = SETTINGS[request.param]
    if os.geteuid() != 0 and request.param != "an_accounts_own_pool":
        pytest.skip("only root has root's pool")
    with real_pool(owner=owner, user=user, NUM_CPUS=16) as pool:
        yield pool


def test_there_is_a_check_for_every_example() -> None:
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/check.sh")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_example(pool: RealPool, name: str) -> None:
    identity = as_account(pool.user)
    work = Path(tempfile.mkdtemp(prefix="examples-", dir="/tmp"))
    try:
        work.chmod(0o755)
        if identity:
            os.chown(work, identity["user"], identity["group"])
        tools = Path(sys.executable).parent
        done = subprocess.run(
            [str(EXAMPLES / "run_all.sh"), name],
            env={**pool.env(), "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(work), "WAIT": str(WAIT_S)},
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S + 50,
            **identity,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{pool.logs()}"
        assert done.stdout == f"PASS {name}\n"
    finally:
        shutil.rmtree(work, ignore_errors=True)
