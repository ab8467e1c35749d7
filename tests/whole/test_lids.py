"""A machine that is put to sleep by somebody else, in the middle of what it does for the pool: its lid is closed.

It is a virtual machine that sleeps in earnest (S3), as in `test_real_sleep`; its startd would never sleep by itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.test_real_sleep import BOOTS_S, Pool, a_pool

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
BUSYBOX = "executable = /bin/busybox\ntransfer_executable = false\nrequest_disk = 100MB\nlog = log\noutput = out\n"
INPUT_BYTES = 48 << 20


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with a_pool(HIBERNATE='"NONE"') as made:
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


def test_with_a_claim_that_waits_for_the_next_job(pool: Pool, place: Path) -> None:
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
