"""What holds jobs in a pool, and what a user then reads: moments that have passed, limits of releases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING, COMPLETED, HELD = 1, 2, 4, 5


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(PERIODIC_EXPR_INTERVAL=1, SYSTEM_MAX_RELEASES=1) as pool:
        home = pool.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        yield pool


@pytest.fixture
def home(pool: RealPool) -> Path:
    """A directory in which the submitting user may write."""
    return pool.directory / "home"


def test_a_job_whose_moment_has_passed_goes_on_hold(pool: RealPool, home: Path) -> None:
    text = f"executable = /bin/true\ndeferral_time = {int(time.time()) - 100}\nqueue\n"
    (ad,) = pool.until_status(pool.submit(text, cwd=home), HELD)
    assert (ad["HoldReasonCode"], ad["HoldReason"]) == (20, "Job missed deferred execution time")


def test_a_user_releases_a_job_no_more_often_than_the_site_lets_him(pool: RealPool, home: Path) -> None:
    cluster = pool.submit("executable = /bin/true\nrequirements = false\nqueue\n", cwd=home)
    for status in (IDLE, HELD):
        pool.tool("condor_hold", str(cluster))
        pool.tool("condor_release", f"{cluster}.0", check=False)
        (ad,) = pool.jobs(str(cluster))
        assert ad["JobStatus"] == status
