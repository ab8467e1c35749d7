"""How much more memory the daemons have after another three thousand jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

DAEMONS = ("collector", "negotiator", "schedd", "startd")
WARM_UP, JOBS = 4200, 3000
TRUE = "executable = /bin/true\nshould_transfer_files = NO\nqueue {count}\n"
GROWTH_MAX = 500
"""In bytes for each job. The first thousands of jobs fill the heaps, at up to 800 for each; then there are some 150."""


def own_bytes(pid: int) -> int:
    """The memory of a process that is no file's."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def run(pool: RealPool, count: int) -> dict[str, int]:
    """Run so many jobs; what each daemon has then."""
    cluster = pool.submit(TRUE.format(count=count))
    pool.until(lambda: not pool.jobs(str(cluster)), "the end of the jobs", deadline_s=600)
    return {daemon: own_bytes(pool.pid_of(daemon)) for daemon in DAEMONS}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_daemon_grows_with_the_jobs_that_it_has_seen() -> None:
    with real_pool(NUM_CPUS=4) as pool:
        before, after = run(pool, WARM_UP), run(pool, JOBS)
    grown = {daemon: (after[daemon] - before[daemon]) / JOBS for daemon in DAEMONS}
    assert max(grown.values()) < GROWTH_MAX, grown
