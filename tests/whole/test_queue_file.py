"""`pool queue`: the queue of a running pool is written down and looked at, and made again of what was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

HELD = "executable = /bin/true\nhold = true\narguments = $(Process) it's\n"


@pytest.fixture
def pool() -> Iterator[RealPool]:
    with real_pool(DAEMON_LIST="MASTER, COLLECTOR, SCHEDD", user=None) as pool:
        yield pool


def ids(pool: RealPool) -> list[str]:
    return [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in pool.jobs()]


def told_of(pool: RealPool) -> list[str]:
    """All that the queue tells of its jobs, but for the moment at which it was asked."""
    told = pool.jobs()
    for ad in told:
        del ad["ServerTime"]
    return [ad.long() for ad in told]


def test_a_queue_is_made_again_of_what_was_dumped_beside_the_schedd(pool: RealPool) -> None:
    queue, written = pool.directory / "spool" / "job_queue.sqlite", pool.directory / "written"
    kept = pool.submit(HELD + "queue 3\n")
    before = told_of(pool)
    pool.tool("pool", "queue", "dump", str(written))
    assert written.stat().st_mode & 0o777 == 0o600
    assert pool.tool("pool", "queue", "dump") == written.read_text()
    assert pool.tool("pool", "queue", "check") == f"{queue} is sound\n"
    pool.submit(HELD + "queue\n")
    pool.tool("condor_rm", f"{kept}.1")

    with pytest.raises(AssertionError, match="the schedd runs; stop it first"):
        pool.tool("pool", "queue", "load", str(written))
    assert len(ids(pool)) == 3
    pool.stop()
    assert pool.tool("pool", "queue", "load", str(written)).endswith(f" rows are in {queue}\n")
    assert Path(f"{queue}.before").exists()
    pool.start()
    assert ids(pool) == [f"{kept}.0", f"{kept}.1", f"{kept}.2"]
    assert told_of(pool) == before


def test_what_cannot_be_read_changes_no_queue(pool: RealPool) -> None:
    kept = pool.submit(HELD + "queue\n")
    (pool.directory / "nonsense").write_text("nonsense\n")
    pool.stop()
    for source, why in (
        (pool.directory / "none", "No such file or directory"),
        (pool.directory / "nonsense", "the dump cannot be read: line 1"),
    ):
        with pytest.raises(AssertionError, match=why):
            pool.tool("pool", "queue", "load", str(source))
    with pytest.raises(AssertionError, match="there is no queue"):
        pool.tool("pool", "queue", "check", "-file", str(pool.directory / "none"))
    for words in ([], ["load"], ["check", "it"], ["mend"]):
        with pytest.raises(AssertionError, match="Say dump, load FILE or check"):
            pool.tool("pool", "queue", *words)
    pool.start()
    assert ids(pool) == [f"{kept}.0"]
