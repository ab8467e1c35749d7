"""The attributes of jobs' ads: every one of the manual's, in real jobs, or the reason why it is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.pool.submit.build import Place, make_workspace
from tests.whole.real_pool import pool_directory, real_pool

CASES = Path(__file__).parents[1] / "cases" / "jobs" / "attributes.cases"
ROWS = [
    [part.strip() for part in line.split(" | ")]
    for line in CASES.read_text().splitlines()
    if line and not line.startswith("#")
]
KINDS = ("done", "held", "running", "removed")
JOB = "executable = /bin/sh\ntransfer_executable = false\nlog = job.log\n"
DONE = """arguments = "-c 'echo x > made; echo said; sleep 1; exit 3'"
should_transfer_files = yes
transfer_input_files = in.txt
transfer_output_files = made
output = out
error = err
max_retries = 1
queue
"""
HELD = """executable = /bin/sleep
arguments = 1000
periodic_hold = JobStatus == 2 && NumJobStarts > 0
periodic_hold_reason = "enough"
periodic_hold_subcode = 7
queue
"""
RUNNING = "arguments = \"-c 'sleep 1000'\"\nqueue 2\n"


@pytest.fixture(scope="module")
def jobs() -> Iterator[dict[str, ClassAd]]:
    """A job of each kind."""
    with pool_directory("nobody") as home, real_pool(NUM_CPUS=4, PERIODIC_EXPR_INTERVAL=1) as pool:
        (home / "in.txt").write_text("input\n")
        done, held, running = (pool.submit(JOB + more, cwd=home) for more in (DONE, HELD, RUNNING))
        pool.until_status(running, 2, count=2)
        pool.until(lambda: all("JobPid" in ad for ad in pool.jobs(str(running))), "the jobs to execute")
        pool.tool("condor_rm", f"{running}.1")
        found = {
            "done": pool.until_done(done)[0],
            "removed": pool.until(lambda: pool.history(f"{running}.1"), "the removed job to be gone")[0],
            "running": pool.jobs(f"{running}.0")[0],
        }
        pool.until_status(held, 5)
        # it is held at once, and its ad is complete when it has left its slot
        pool.until(lambda: "NumVacates" in pool.jobs(str(held))[0], "the held job to leave its slot")
        found["held"] = pool.jobs(str(held))[0]
        pool.tool("condor_rm", "-all")
        pool.until(lambda: not pool.jobs(), "the queue to be empty")
        yield found


def test_every_attribute_has_one_row_and_a_reason_where_it_is_absent() -> None:
    names = [row[0].lower() for row in ROWS]
    assert len(names) == len(set(names)) > 300
    assert all(len(row) == 3 for row in ROWS if row[1] in ("absent", "sometimes", "command"))
    assert {row[1] for row in ROWS} <= {*KINDS, "submit", "command", "sometimes", "absent"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_job_has_what_the_manual_says(jobs: dict[str, ClassAd], kind: str) -> None:
    wanted = [row[2] if len(row) > 2 else row[0] for row in ROWS if row[1] == kind]
    assert [name for name in wanted if name not in jobs[kind]] == []


def test_what_jobs_lack_is_not_there(jobs: dict[str, ClassAd]) -> None:
    absent = [row[0] for row in ROWS if row[1] == "absent"]
    assert [name for name in absent if any(name in ad for ad in jobs.values())] == []


def test_the_counts_of_jobs_agree_with_what_happened(jobs: dict[str, ClassAd]) -> None:
    done, held, removed = jobs["done"], jobs["held"], jobs["removed"]
    assert (done["ExitCode"], done["NumJobStarts"], done["NumJobCompletions"]) == (3, 2, 2)
    assert (done["NumInputTransferStarts"], done["NumOutputTransferStarts"]) == (2, 2)
    assert (held["HoldReason"], held["HoldReasonCode"], held["HoldReasonSubCode"]) == ("enough", 3, 7)
    assert (held["NumHolds"], held["NumVacates"], removed["VacateReasonCode"]) == (1, 1, 1023)


def test_each_command_sets_its_attribute(tmp_path: Path) -> None:
    place = Place(tmp_path, make_workspace(tmp_path))
    for name, kind, *said in ROWS:
        if kind in ("command", "submit"):
            lines = said[0].replace("\\n", "\n") if said else ""
            ad = place.ad(f"executable = job.sh\n{lines}\nqueue\n")
            assert name in ad, (name, lines)
