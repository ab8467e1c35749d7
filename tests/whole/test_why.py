"""Why a job waits, or was held: what users are told by hold reasons and by `pool why`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

JOB = "executable = {}\ntransfer_executable = false\nshould_transfer_files = no\nuniverse = {}\nlog = log\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=2, NEGOTIATOR_INTERVAL=1, NEGOTIATOR_CYCLE_DELAY=1, START_LOCAL_UNIVERSE="true") as pool:
        yield pool


@pytest.fixture(scope="module")
def home(pool: RealPool) -> Path:
    home = pool.directory / "home"
    home.mkdir()
    home.chmod(0o777)
    return home


def why(pool: RealPool, *words: str) -> str:
    """What `pool why` says."""
    return pool.tool("pool", "why", *words)


@pytest.mark.parametrize("universe", ["vanilla", "local"])
@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("#!/bin/sh.not \n\nexit 0\n", 0o755, "invalid interpreter (/bin/sh.not) specified on first line of script"),
        ("#!/bin/sh\r\nexit 0\r\n", 0o755, "its lines end as on Windows"),
        ("#!/bin/sh\nexit 0\n", 0o644, "is not executable (chmod +x program)"),
        ("exit 0\n", 0o755, "needs a first line such as #!/bin/sh"),
    ],
    ids=["interpreter", "windows", "mode", "no-line"],
)
def test_a_program_that_cannot_be_executed_is_held_with_the_cause(
    pool: RealPool, home: Path, universe: str, text: str, mode: int, said: str, tmp_path: Path
) -> None:
    where = home / tmp_path.name
    where.mkdir()
    program = where / "program"
    program.write_bytes(text.encode())
    program.chmod(mode)
    cluster = pool.submit(JOB.format(program, universe) + "queue\n", cwd=home)
    [held] = pool.until_status(cluster, 5)
    assert said in held.eval_str("HoldReason", "")
    assert held.eval_int("HoldReasonCode") == 6
    assert said in why(pool, str(cluster))
    pool.tool("condor_rm", str(cluster))
