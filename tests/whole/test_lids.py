"""A machine that is put to sleep by somebody else, in the middle of what it does for the pool: its lid is closed.

It is a virtual machine that sleeps in earnest (S3), as in `test_real_sleep`; its startd would never sleep by itself.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.test_real_sleep import BOOTS_S, Pool, a_pool, startd_log

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
BUSYBOX = "executable = /bin/busybox\ntransfer_executable = false\nrequest_disk = 100MB\nlog = log\noutput = out\n"
INPUT_BYTES = 48 << 20


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with a_pool(HIBERNATE='"NONE"', NUM_CPUS="2") as made:
        made.home.until(made.home.slots, "the machine", deadline_s=BOOTS_S)
        yield made


@pytest.fixture
def place(pool: Pool) -> Iterator[Path]:
    with pool.home.as_user("nobody"):
        yield pool.home.place("job")


def close_lid(pool: Pool) -> None:
    pool.guest.lid_is_closed()
    pool.home.until(pool.guest.sleeps, "the machine to sleep")


def told(place: Path, event: str) -> int:
    """How often the job's log has that event."""
    return (place / "log").read_text().count(f"\n{event} (") + (place / "log").read_text().startswith(f"{event} (")


def test_in_the_middle_of_a_transfer_that_goes_on_afterwards(pool: Pool, place: Path) -> None:
    data = os.urandom(INPUT_BYTES)
    (place / "data").write_bytes(data)
    (place / "data").chmod(0o644)
    cluster = pool.home.submit(f"{BUSYBOX}arguments = sha256sum data\ntransfer_input_files = data\nqueue\n", cwd=place)
    pool.home.until(lambda: told(place, "040") > 0, "files to move")
    close_lid(pool)
    assert told(place, "001") == 0, "it sleeps while they move"
    pool.guest.wake()
    pool.home.until(lambda: told(place, "005"), "the end of the job", deadline_s=BOOTS_S)
    (job,) = pool.home.until_done(cluster)
    assert job["ExitCode"] == 0
    assert (place / "out").read_text().split()[0] == hashlib.sha256(data).hexdigest()


def test_longer_than_the_jobs_lease_with_another_run_that_is_the_only_one_that_counts(pool: Pool, place: Path) -> None:
    """The schedd gives up what it does not hear of. The job is the kind that cannot have ended before it is stopped."""
    text = f"{BUSYBOX}arguments = sleep 40\njob_lease_duration = 40\nqueue\n"
    cluster = pool.home.submit(text, cwd=place)
    pool.home.until(lambda: told(place, "001"), "the job to run")
    close_lid(pool)
    pool.home.until(lambda: told(place, "024"), "the schedd to give up", deadline_s=BOOTS_S)
    assert told(place, "001") == 1
    pool.guest.wake()
    pool.home.until(lambda: told(place, "005"), "the end of the job", deadline_s=BOOTS_S)
    (job,) = pool.home.until_done(cluster)
    print((place / "log").read_text())  # shown where the test fails
    assert (job["ExitCode"], job["NumJobStarts"]) == (0, 2)
    assert [told(place, event) for event in ("001", "005", "012")] == [2, 1, 0]
    pool.home.user = None  # logs are root's to fetch
    assert "This machine has slept for" in startd_log(pool)


def test_with_jobs_that_wait_for_their_moment(pool: Pool, place: Path) -> None:
    """One of them may start two days late, the other not at all."""
    moment = int(time.time()) + 60 * 60
    text = f"{BUSYBOX}arguments = date +%s\ndeferral_time = {moment}\ndeferral_prep_time = 7200\njob_lease_duration = 86400\n"
    late = pool.home.submit(f"{text}deferral_window = 172800\nqueue\n", cwd=place)
    never = pool.home.submit(f"{text}log = never\nqueue\n", cwd=place)
    for cluster in (late, never):
        pool.home.until_status(cluster, 2)
    close_lid(pool)
    pool.guest.clock_goes_on(hours=2)
    pool.guest.wake()
    pool.home.until(lambda: told(place, "005"), "the end of the job", deadline_s=BOOTS_S)
    (job,) = pool.home.until_done(late)
    assert (job["ExitCode"], job["NumJobStarts"]) == (0, 1)
    assert int((place / "out").read_text()) >= moment
    (job,) = pool.home.until_status(never, 5)
    assert (job["HoldReasonCode"], job["HoldReason"]) == (20, "Job missed deferred execution time")


def test_with_a_claim_that_waits_for_the_next_job(pool: Pool, place: Path) -> None:
    # The last test: the claim stays, and a job that took it would have its lease.
    text = f"{BUSYBOX}arguments = true\nkeep_claim_idle = 600\nqueue\n"
    pool.home.until_done(pool.home.submit(text, cwd=place))
    claimed = "Claimed", "Idle"
    pool.home.until(
        lambda: claimed in [(ad["State"], ad["Activity"]) for ad in pool.home.slots()], "a claim that waits"
    )
    close_lid(pool)
    pool.guest.wake()
    (job,) = pool.home.until_done(pool.home.submit(text, cwd=place))
    assert (job["ExitCode"], job["NumJobStarts"]) == (0, 1)
