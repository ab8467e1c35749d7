"""Jobs whose files stay where they are (want_remote_io), by the submit file alone, in a pool of real daemons."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.host.namespaces import can_isolate
from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

pytestmark = pytest.mark.skipif(
    not can_isolate() or not os.path.exists("/dev/fuse"), reason="file systems take root's rights and /dev/fuse"
)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=2) as started:
        yield started


def home(pool: RealPool, case: str) -> Path:
    """A directory of the user's."""
    place = pool.place(case)
    shutil.chown(place, pool.user)
    return place


def submitted(pool: RealPool, here: Path, description: str) -> ClassAd:
    """The last ad of such a job."""
    rest = "want_remote_io = true\noutput = out\nerror = err\nlog = log\nqueue\n"
    cluster = pool.submit(description + rest, cwd=here)
    pool.until(lambda: not pool.jobs(str(cluster)), "the end of the job", deadline_s=900)
    (ad,) = pool.until_done(cluster)
    return ad


@pytest.mark.slow
def test_a_job_finds_its_files_by_the_submit_file_alone(pool: RealPool) -> None:
    here = home(pool, "small")
    (here / "words").write_text("b\na\n")
    (here / "sub").mkdir()
    shutil.chown(here / "sub", pool.user)
    ad = submitted(pool, here, "executable = /usr/bin/sort\narguments = words -o sub/sorted\n")
    assert (ad.eval("ExitCode"), (here / "err").read_text()) == (0, "")
    assert (here / "sub" / "sorted").read_text() == "a\nb\n"
    assert "TARGET.HasRemoteIO" in ad["Requirements"].text
    assert all(slot.eval("HasRemoteIO") is True for slot in pool.slots())
    # remote_initialdir: where it starts, elsewhere at the access point; its output is where it always is.
    other = home(pool, "other")
    (other / "words").write_text("elsewhere\n")
    ad = submitted(pool, here, f"executable = /bin/cat\narguments = words\nremote_initialdir = {other}\n")
    assert (ad.eval("ExitCode"), (here / "out").read_text()) == (0, "elsewhere\n")


@pytest.mark.slow
def test_who_wants_to_see_output_of_a_running_job_is_told_where_it_is(pool: RealPool) -> None:
    here = home(pool, "shown")
    rest = "want_remote_io = true\noutput = out\nlog = log\nqueue\n"
    cluster = pool.submit(
        "executable = /bin/sh\narguments = \"-c 'echo seen; while [ ! -e go ]; do sleep 0.1; done'\"\n" + rest, cwd=here
    )
    # What the job prints is at home while it runs, and what is made there is seen by the job.
    pool.until(lambda: (here / "out").exists() and (here / "out").read_text() == "seen\n", "the output")
    with pytest.raises(AssertionError, match="at the access point"):
        pool.tool("condor_tail", f"{cluster}.0")
    (here / "go").touch()
    pool.until_done(cluster)


@pytest.mark.slow
def test_a_schedd_that_comes_back_finds_the_job_at_work_with_its_files(pool: RealPool) -> None:
    here = home(pool, "restart")
    rest = "want_remote_io = true\nlog = log\nqueue\n"
    script = "n=0; while [ ! -e go ]; do n=$((n+1)); echo $n >> counted; sleep 0.05; done; echo done >> counted"
    cluster = pool.submit(f"executable = /bin/sh\narguments = \"-c '{script}'\"\n" + rest, cwd=here)
    pool.until(lambda: (here / "counted").exists(), "the job at work")
    pool.restart_of("schedd")
    (here / "go").touch()
    (ad,) = pool.until_done(cluster)
    lines = (here / "counted").read_text().split()
    # No line twice and none missing, though some were under way when nobody was there to take them.
    assert lines == [*map(str, range(1, len(lines))), "done"]
    assert ad.eval("NumJobStarts") == 1
