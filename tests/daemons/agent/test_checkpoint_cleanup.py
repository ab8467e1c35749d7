"""Checkpoints at a URL are removed by a program, which has its time for a file and for a job."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from daemons.agent.checkpoint_cleanup import CheckpointRemover
from pool.files.checkpoint import directory_name, manifest_name, write_manifest
from pool.files.checkpoint_cleanup import JOB_AD
from protocol.messages.agent import CleanCheckpoints, CleanupRule

REMOVER = "#!/bin/sh\necho >> $1; exec sleep $2\n"


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What is kept of a job that has left: two checkpoints, of a file each."""
    directory = tmp_path / "left"
    for number in range(2):
        (directory / directory_name(number)).mkdir(parents=True)
        named = directory / directory_name(number) / manifest_name(number)
        named.write_text(write_manifest({"state": "0" * 64}))
    (directory / JOB_AD).write_text('CheckpointDestination = "box://a/"\nGlobalJobId = "ap#7.0#1"\n')
    return directory


def clean(left: Path, sleeps_s: int, limit_s: float, file_limit_s: float) -> tuple[str, int]:
    """What was said, and how often the program was started."""
    log, remover = left.parent / "log", left.parent / "remover"
    remover.write_text(REMOVER)
    remover.chmod(0o755)
    request = CleanCheckpoints(
        directory=str(left),
        rules=[CleanupRule(prefix="box://", command=f"{remover},{log},{sleeps_s}")],
        libexec="",
        limit_s=limit_s,
        file_limit_s=file_limit_s,
    )
    said = trio.run(lambda: CheckpointRemover().clean(None, request))  # type: ignore[arg-type]
    return said.trouble, len(log.read_text())


def test_all_checkpoints_of_a_job_go(left: Path) -> None:
    assert clean(left, 0, 60, 60) == ("", 2)
    assert not left.exists()


def test_a_program_that_takes_too_long_for_a_file_is_ended_and_nothing_is_forgotten(left: Path) -> None:
    assert clean(left, 600, 60, 1) == (f"{left.parent}/remover did not end within 1 s", 1)
    assert len(list(left.iterdir())) == 3


def test_a_job_of_which_too_much_is_to_be_removed_is_gone_on_with_another_time(left: Path) -> None:
    trouble, started = clean(left, 600, 1, 60)
    assert ("did not end within" in trouble, started) == (True, 1)
    assert len(list(left.iterdir())) == 3
