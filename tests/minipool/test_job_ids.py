"""Numbers and job ids on command lines: each tool says what it wants instead, and none falls over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minipool.client.job_ids import clause, one_job, split
from pool.base.ids import JobId


@pytest.mark.parametrize(
    ("word", "job"),
    [
        ("12", JobId(12, 0)),
        ("12.3", JobId(12, 3)),
        *((word, None) for word in ("", ".", "12.", ".3", "12.3.4", "-1", "12.-1", "ann", "²", "12.²", "1" * 20)),
    ],
)
def test_a_word_is_one_job_or_none(word: str, job: JobId | None) -> None:
    assert one_job(word) == job


def test_words_are_jobs_clusters_or_users() -> None:
    assert split(["12", "ann", "12.3", "²"]) == (["12", "12.3"], ["ann", "²"])
    assert [clause(word) for word in ("12", "12.3", 'a"n')] == [
        "ClusterId == 12",
        "(ClusterId == 12 && ProcId == 3)",
        'Owner == "a\\"n"',
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("now", "²", "1.0"), "Usage: "),
        (("tail", "²"), "Invalid Job ID: ²"),
        (("tail", "-maxbytes", "²", "1.0"), "maxbytes (²) is not valid"),
        (("ssh_to_job", "²"), "Invalid job id: ²"),
        (("ssh_to_job", "1.0.²"), "Invalid job id: 1.0.²"),
        (("transfer_data", "²"), 'unrecognized "²" skipped'),
        (("wait", "job.log", "²"), "'²' is not a job id"),
        (("userlog", "-j", "²", "job.log"), "-j requires a job id, not '²'"),
        (("submit", "-dry-run:cluster=²", "-", "job.sub"), "unknown option cluster=² for -dry-run"),
        (("watch_q", "-exit", "any,done,²"), "-exit any,done,² is not a condition"),
        (("qsub", "-a", "²²²²", "-test", "-b", "y", "true"), "-a ²²²²: this is not"),
        (("qsub", "-hold_jid", "²", "-b", "y", "true"), "² is not the number of a cluster"),
    ],
)
def test_a_digit_that_is_no_number_is_refused_in_a_sentence(argv: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("")
    (tmp_path / "job.sub").write_text("executable = /bin/true\nqueue\n")
    (tmp_path / "config").write_text("LOCAL_DIR = .\n")
    code = f"import sys; from minipool.cli.entry.main import dispatch; sys.exit(dispatch({argv[0]!r}, {argv[1:]!r}))"
    program = [sys.executable, "-c", code]
    environ = {"POOL_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert done.returncode
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
