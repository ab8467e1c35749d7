"""condor_evicted_files: what is kept for a job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minipool.cli.submit_tools.evicted_files import main


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("POOL_DIR", str(tmp_path))
    monkeypatch.setenv("_CONDOR_SPOOL", str(tmp_path / "spool"))
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "spool" / "7" / "0" / "cluster7.proc0.subproc0"
    (kept / "d").mkdir(parents=True)
    (kept / "state").write_text("x")
    return kept


def test_one_jobs_files_are_shown_and_copied(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("evicted_files", ["7.0"]) == 0
    assert main("evicted_files", ["list", "7.0"]) == 0
    assert main("evicted_files", ["get", "7.0"]) == 0
    assert capsys.readouterr().out == f"{spool}\n\td\n\tstate\nCopied to '7.0'.\n"
    assert sorted(os.listdir("7.0")) == ["d", "state"]
    assert main("evicted_files", ["get", "7.0"]) == 1
    assert "exists, not modifying" in capsys.readouterr().out


def test_a_job_that_makes_checkpoints_goes_on_from_its_newest(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        checkpoint = spool / f"_condor_checkpoint_{number:04d}"
        checkpoint.mkdir()
        (checkpoint / "_condor_checkpoint_MANIFEST").write_text("")
        (checkpoint / "state").write_text(f"{number}")
    (spool / ".checkpoint.next").mkdir()
    assert main("evicted_files", ["list", "7.0"]) == 0
    assert main("evicted_files", ["get", "7.0"]) == 0
    assert capsys.readouterr().out == "\td\n\tstate\nCopied to '7.0'.\n"
    assert sorted(os.listdir("7.0")) == ["d", "state"]
    assert Path("7.0/state").read_text() == "2"


def test_of_several_jobs_each_is_named(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("evicted_files", ["DIR", "7.0", "8.1"]) == 0
    assert capsys.readouterr().out == f"7.0 {spool}\n8.1 No directory; job was never evicted.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["burn", "7.0"], "Unknown command 'burn', aborting."),
        (["7"], "'7' is not a job ID, aborting."),
        ([], "No job is named."),
    ],
)
def test_what_is_wrong_is_said(spool: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("evicted_files", words) != 0
    captured = capsys.readouterr()
    assert said in captured.out + captured.err
