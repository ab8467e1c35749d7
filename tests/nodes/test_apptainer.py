"""Images that Apptainer's own program does not run: what the launcher tells, and how a job is tried again.

The program is the machine's; where it is missing these tests are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.nodes.thin import TEST, thin
from tests.whole.real_pool import RealPool, real_pool

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("apptainer"), reason="apptainer is not installed"),
]
ACCOUNT = "www-data" if os.geteuid() == 0 else None
JOB = """executable = {program}
arguments = "-c 'exit 255'"
transfer_executable = false
container_image = {image}
transfer_container = false
should_transfer_files = yes
log = log
queue
"""


def a_pool(**knobs: str) -> AbstractContextManager[RealPool]:
    """One whose machine has tried the program."""
    return real_pool(user=ACCOUNT, start=False, SINGULARITY_BIND_EXPR='"/usr:/usr:ro"', DOCKER="", **knobs)


def begin(pool: RealPool) -> Path:
    """Have it run; a good image."""
    image = pool.directory / "thin"
    image.mkdir()
    subprocess.run(["tar", "-x", "-C", str(image)], input=thin(), check=True)
    pool.start()
    pool.until(lambda: offers(pool), "apptainer to be tried")
    return image


def offers(pool: RealPool) -> bool:
    return any(ad.eval_bool("HasSandboxImage", False) for ad in pool.slots())


def vacated(pool: RealPool, cluster: int, times: int) -> ClassAd:
    """The job, when it has been sent back so often."""

    def there() -> list[ClassAd]:
        return [ad for ad in pool.jobs(str(cluster)) if (ad.eval_int("NumVacates") or 0) >= times]

    (ad,) = pool.until(there, f"the job to be sent back {times} times")
    return ad


@pytest.fixture(scope="module")
def launching() -> Iterator[tuple[RealPool, Path]]:
    """A pool whose images are not tested, and are told by the launcher's mark."""
    with a_pool(SINGULARITY_USE_LAUNCHER="true", SINGULARITY_RUN_TEST_BEFORE_JOB="false") as pool:
        yield pool, begin(pool)


def test_with_a_launcher_255_of_the_job_is_its_exit_code(launching: tuple[RealPool, Path]) -> None:
    pool, image = launching
    (ad,) = pool.until_done(pool.submit(JOB.format(program="/bin/sh", image=image), cwd=pool.place("home")))
    assert (ad.eval_int("ExitCode"), ad.eval_int("NumVacates") or 0) == (255, 0)


def test_with_a_launcher_255_of_apptainer_is_no_exit_code(launching: tuple[RealPool, Path]) -> None:
    pool, image = launching
    broken = pool.directory / "broken"
    shutil.copytree(image, broken, symlinks=True)
    (broken / "bin").unlink()
    cluster = pool.submit(JOB.format(program="/usr/bin/dash", image=broken), cwd=pool.place("home"))
    ad = vacated(pool, cluster, 1)
    assert "The image did not run" in (ad.eval_str("VacateReason") or ""), ad
    (broken / "bin").symlink_to("usr/bin")
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 255


def test_an_image_that_fails_its_test_is_tried_again_and_again_later_each_time() -> None:
    with a_pool() as pool:
        image = begin(pool)
        test = image / ".singularity.d/actions/test"
        test.unlink()
        home = pool.place("home")
        cluster = pool.submit(JOB.format(program="/bin/sh", image=image), cwd=home)
        ad = vacated(pool, cluster, 4)
        assert ad.eval_int("VacateReasonCode") == 45
        assert "Singularity test failed" in (ad.eval_str("VacateReason") or "")
        events = re.findall(r"^(?:004|0\d\d) \(.*?\) (\S+ \S+) Job was evicted", (home / "log").read_text(), re.M)
        times = [datetime.fromisoformat(text) for text in events]
        waits = [(after - before).total_seconds() for before, after in pairwise(times)]
        assert waits[1] >= 1, waits  # of two seconds and of four, as a log of whole seconds tells them
        assert waits[2] >= 3, waits
        assert offers(pool)  # the images of its own work
        test.write_bytes(TEST)
        test.chmod(0o755)
        (ad,) = pool.until_done(cluster)
        assert ad.eval_int("ExitCode") == 255
