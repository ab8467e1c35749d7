"""In which order the jobs of one user start, with real daemons and one partitionable slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=1, MEMORY=4000) as pool:
        yield pool


def _submit(pool: RealPool, place: Path, name: str, more: str = "", count: int = 1) -> int:
    """Jobs that note their name, and end when they are told that they may."""
    script = f"echo {name} >> {place}/order; while [ ! -e {place}/go ]; do sleep 0.05; done"
    text = f"executable = /bin/sh\narguments = \"-c '{script}'\"\n{more}\nqueue {count}\n"
    return pool.submit(text)


def test_a_job_of_higher_priority_starts_before_those_that_wait_longer(pool: RealPool) -> None:
    place = pool.place("order")
    clusters = [_submit(pool, place, "low", "request_memory = 100", 6)]
    pool.until((place / "order").exists, "the first job's start")
    clusters += [
        _submit(pool, place, "high", "request_memory = 50\npriority = 10"),
        _submit(pool, place, "huge", "request_memory = 3000\npriority = 20"),
        _submit(pool, place, "dag", "request_memory = 60\n+PreJobPrio1 = 1"),
        _submit(pool, place, "late", "request_memory = 70\n+PostJobPrio1 = 1"),
    ]
    (place / "go").touch()
    for cluster in clusters:
        pool.until_gone(cluster)
    order = (place / "order").read_text().split()
    # What does not fit the slot that was cut out for the first job waits until the claim is given back.
    assert order == ["low", "dag", "high", "late", *["low"] * 5, "huge"]
