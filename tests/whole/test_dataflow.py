"""A job with skip_if_dataflow is skipped where its output is newer than its input, and runs otherwise. Real daemons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

DAY_NS = 86_400 * 10**9
INPUT, OUTPUT = DAY_NS, DAY_NS + 1
"""When files were changed last: the least that makes output newer than input."""
JOB = """\
executable = run.sh
input = typed
log = log
transfer_input_files = in1, in2, http://example.invalid/in3
transfer_output_files = out1, out2
should_transfer_files = YES
skip_if_dataflow = true
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool() as pool:
        yield pool


@pytest.fixture
def here(pool: RealPool, request: pytest.FixtureRequest) -> Path:
    """A directory of the user's with a job's program, its input, and its output from before."""
    directory = pool.directory / f"jobs{len(list(pool.directory.glob('jobs*')))}"
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "run.sh").write_text("#!/bin/sh\necho new > out1\necho new > out2\n")
    (directory / "run.sh").chmod(0o755)
    for name in ("run.sh", "typed", "in1", "in2"):
        (directory / name).touch()
        changed(directory / name, INPUT)
    for name in ("out1", "out2"):
        (directory / name).write_text("old\n")
        (directory / name).chmod(0o666)
        changed(directory / name, OUTPUT)
    return directory


def changed(path: Path, at_ns: int) -> None:
    os.utime(path, ns=(at_ns, at_ns))


def done(pool: RealPool, here: Path, *, job: str = JOB) -> ClassAd:
    (ad,) = pool.until_done(pool.submit(f"{job}queue\n", cwd=here))
    return ad


def test_a_job_whose_output_is_newer_than_its_input_is_skipped(pool: RealPool, here: Path) -> None:
    ad = done(pool, here)
    assert (here / "out1").read_text() == "old\n"
    assert (ad.eval_bool("DataflowJobSkipped"), ad.eval_int("JobStatus"), ad.eval_int("ExitCode")) == (True, 4, 0)
    assert ad.eval_int("NumJobStarts") == 0
    events = [line[:3] for line in (here / "log").read_text().splitlines() if line[:3].isdigit()]
    assert events == ["000", "046", "005"]
    assert "Dataflow job was skipped." in (here / "log").read_text()


ONE_NEW = {"in2": OUTPUT, "typed": OUTPUT, "run.sh": OUTPUT, "out1": INPUT}
"""What makes the job run: no output may be as old as any of the input."""


@pytest.mark.parametrize("name", ONE_NEW)
def test_it_runs_where_a_single_file_says_so(pool: RealPool, here: Path, name: str) -> None:
    changed(here / name, ONE_NEW[name])
    ad = done(pool, here, job=JOB.replace(", http://example.invalid/in3", ""))
    assert (ad.eval_bool("DataflowJobSkipped"), ad.eval_int("NumJobStarts")) == (False, 1)
    assert (here / "out1").read_text() == "new\n"


def test_it_runs_where_output_is_missing_or_goes_elsewhere(pool: RealPool, here: Path) -> None:
    plain = JOB.replace(", http://example.invalid/in3", "")
    ad = done(pool, here, job=f'{plain}transfer_output_remaps = "out1 = there"\n')
    assert (ad.eval_bool("DataflowJobSkipped"), (here / "there").read_text()) == (False, "new\n")
    changed(here / "out2", OUTPUT)
    (here / "out1").unlink()
    ad = done(pool, here, job=plain)
    assert (ad.eval_bool("DataflowJobSkipped"), (here / "out1").read_text()) == (False, "new\n")


def test_others_run_whatever_the_ages(pool: RealPool, here: Path) -> None:
    plain = JOB.replace(", http://example.invalid/in3", "").replace("skip_if_dataflow = true", "")
    ad = done(pool, here, job=plain)
    assert ("DataflowJobSkipped" in ad, (here / "out1").read_text()) == (False, "new\n")


def test_a_skipped_job_that_would_be_run_again_is_held(pool: RealPool, here: Path) -> None:
    cluster = pool.submit(f"{JOB}on_exit_remove = false\nqueue\n", cwd=here)
    (ad,) = pool.until_status(cluster, 5)
    assert "A job whose output is newer than its input shall be run again" in ad.eval_str("HoldReason", "")
    pool.tool("condor_rm", str(cluster))
