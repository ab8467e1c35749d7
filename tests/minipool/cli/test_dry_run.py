"""`condor_submit -dry-run`, from the description to what is printed: what HTCondor's own test of it expects."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "cases" / "submit" / "dry_run.cases"
_PARTS = FILE.read_text().split("\n== ")[1:]
CASES = [(name, *rest.split("\n--\n")) for name, rest in (part.split("\n", 1) for part in _PARTS)]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with a pool's configuration, and a program."""
    (tmp_path / "config").touch()
    (tmp_path / "prog").write_text("#!/bin/sh\n")
    (tmp_path / "prog").chmod(0o755)
    return tmp_path


def dry_run(here: Path, description: str) -> subprocess.CompletedProcess[str]:
    (here / "job.sub").write_text(f"{description}\n")
    submit = Path(sys.executable).with_name("condor_submit")
    return subprocess.run(
        [submit, "-dry-run:cluster=7", "-", "job.sub"],
        cwd=here,
        env={**os.environ, "POOL_DIR": str(here)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ads(printed: str) -> list[dict[str, str]]:
    """Each job's attributes: the first one's are the cluster's too, later ones have what differs."""
    found: list[dict[str, str]] = []
    for text in re.split(r"^\.$", printed, flags=re.MULTILINE)[:-1]:
        own = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
        found.append({**(found[0] if found else {}), **own})
    return found


@pytest.mark.parametrize(("name", "description", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_dry_run_prints_what_htcondors_does(here: Path, name: str, description: str, expected: str) -> None:
    done = dry_run(here, description)
    lines = expected.strip("\n").split("\n")
    if lines[0].startswith("!"):
        assert done.returncode == 1
        assert lines[0][1:].strip() in done.stderr
        return
    assert done.returncode == 0, done.stderr
    jobs = ads(done.stdout)
    wanted = expected.strip("\n").split("\n.\n")
    assert len(jobs) == len(wanted)
    for job, text in zip(jobs, wanted, strict=True):
        for line in text.split("\n"):
            found = re.match(r"(\w+)([=~])(.*)", line)
            assert found, line
            attribute, how, value = found.groups()
            got = job.get(attribute, "undefined")
            assert (got == value) if how == "=" else re.search(value, got), (attribute, got)


def test_random_macros_differ_from_job_to_job_and_from_submission_to_submission(here: Path) -> None:
    text = "executable = prog\narguments = $RANDOM_INTEGER(1,1000000000000)\nqueue 2"
    drawn = [job["Args"] for done in (dry_run(here, text), dry_run(here, text)) for job in ads(done.stdout)]
    assert len(set(drawn)) == len(drawn) >= 3
