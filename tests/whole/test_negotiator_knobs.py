"""Which jobs a negotiator serves and what it says of its matches, with real daemons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING = 1, 2


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        NUM_CPUS=2,
        MEMORY=4000,
        NEGOTIATOR_JOB_CONSTRAINT='MY.Kind isnt "day"',
        NEGOTIATOR_MATCH_EXPRS="PoolMark",
        PoolMark='strcat("bl", "ue")',
    ) as pool:
        yield pool


def test_jobs_that_differ_only_in_what_the_negotiator_reads_are_not_alike(pool: RealPool) -> None:
    job = "executable = /bin/sleep\narguments = 1000\nrequest_memory = 10\n"
    day, night = (pool.submit(f'{job}+Kind = "{kind}"\nqueue\n') for kind in ("day", "night"))
    pool.until_status(night, RUNNING)
    pool.until(lambda: "LastRejMatchReason" in pool.jobs(str(day))[0], "a job that is left out")
    (ad,) = pool.jobs(str(day))
    assert ad.eval_str("LastRejMatchReason") == "the negotiator's NEGOTIATOR_JOB_CONSTRAINT leaves the job out"
    assert ad.eval_int("JobStatus") == IDLE
    pool.tool("condor_rm", str(day), str(night))


def test_jobs_know_by_whose_word_they_run_one_after_another_in_a_slot(pool: RealPool) -> None:
    place = pool.place("marks")
    script = f"cp $_CONDOR_JOB_AD {place}/$(Process)"
    cluster = pool.submit(
        f"executable = /bin/sh\narguments = \"-c '{script}'\"\nshould_transfer_files = NO\nrequest_cpus = 2\nqueue 2\n"
    )
    pool.until_done(cluster)
    for number in range(2):
        assert 'NegotiatorMatchExprPoolMark = strcat("bl","ue")' in (place / str(number)).read_text()
