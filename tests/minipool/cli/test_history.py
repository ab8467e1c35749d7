"""condor_history: files of executions that are removed when read, and the ads of daemons."""

from __future__ import annotations

from pathlib import Path

import pytest

from minipool.cli.entry.main import dispatch
from pool.classad import ClassAd
from pool.jobs.queue.history_file import daemon_banner, own_lines, run_banner


def epochs(directory: Path) -> None:
    for cluster in (1, 2):
        ad = ClassAd({"ClusterId": cluster, "ProcId": 0, "Owner": "ann", "RunInstanceId": 0})
        (directory / f"job.runs.{cluster}.0.ads").write_text(own_lines(ad) + run_banner("EPOCH", ad, 1.0))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration whose directory of executions and daemon's history are in tmp_path."""
    runs = tmp_path / "runs"
    runs.mkdir()
    epochs(runs)
    (tmp_path / "config").write_text(
        f"LOCAL_DIR = {tmp_path}\nJOB_EPOCH_HISTORY_DIR = {runs}\nSCHEDD_DAEMON_HISTORY = {tmp_path}/schedd\n"
    )
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "config"))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = dispatch("history", list(argv))
    out, err = capsys.readouterr()
    return status, out, err


def test_files_of_executions_are_removed_when_they_have_been_read(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "-epochs", "-dir", "-af", "ClusterId") == (0, "2\n1\n", "")
    assert len(list((config / "runs").iterdir())) == 2
    assert said(capsys, "-epochs:d", "-dir", "-forwards", "-af", "ClusterId") == (0, "1\n2\n", "")
    assert list((config / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ("-dir -limit 1", "Error: -epoch:d (delete) cannot be used with -limit or -match.\n"),
        ("-dir -match 1", "Error: -epoch:d (delete) cannot be used with -limit or -match.\n"),
        ("-dir -scanl 1", "Error: -epoch:d (delete) cannot be used with -scanlimit.\n"),
        ("", "say"),
    ],
)
def test_nothing_is_removed_that_was_not_read_whole(
    config: Path, argv: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = said(capsys, "-epochs:d", *argv.split())
    assert (status, out) == (1, "")
    assert why in err
    assert len(list((config / "runs").iterdir())) == 2


def test_the_ads_of_a_daemon_have_a_table(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ad = ClassAd({"Name": "ap1", "TotalRunningJobs": 3, "TotalIdleJobs": 1, "TotalHeldJobs": 0, "RecordWriteDate": 7})
    (config / "schedd").write_text(
        own_lines(ad) + daemon_banner("SCHEDD", 7) + own_lines(ad) + daemon_banner("OTHER", 7)
    )
    assert said(capsys, "-daemon", "-af", "Name", "TotalRunningJobs") == (0, "ap1 3\n", "")
    assert said(capsys, "-daemon")[1].startswith("TIMESTAMP   DUTY_CYCLE RunningJobs   IdleJobs")
    status, _, err = said(capsys, "-daemon:foo")
    assert (status, "FOO_DAEMON_HISTORY undefined" in err) == (1, True)
