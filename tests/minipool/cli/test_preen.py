"""condor_preen on directories of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minipool.cli.admin_tools.preen import main
from tests.whole.real_pool import pool_directory


@pytest.fixture
def mailbox() -> Iterator[Path]:
    """A directory with a program for mail, which any account can run, and which leaves a `box` there."""
    with pool_directory() as directory:
        directory.chmod(0o1777)
        program = directory / "mail"
        program.write_text(f'#!/bin/sh\n{{ echo "$@"; cat; }} > {directory}/box\n')
        program.chmod(0o755)
        yield directory


@pytest.fixture
def host(tmp_path: Path, mailbox: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's directories, with something in each that does not belong there."""
    for name in ("log", "spool", "execute"):
        (tmp_path / name).mkdir()
    (tmp_path / "log" / "core").touch()
    (tmp_path / "log" / "StartLog").touch()
    (tmp_path / "spool" / "junk").mkdir()
    (tmp_path / "spool" / "junk" / "inside").touch()
    (tmp_path / "spool" / "job_queue.sqlite").touch()
    (tmp_path / "execute" / "dir_999999999").mkdir()
    (tmp_path / "execute" / f"dir_{os.getpid()}").mkdir()
    (tmp_path / "config").write_text(
        f"LOCAL_DIR = {tmp_path}\nLOG = {tmp_path}/log\nSPOOL = {tmp_path}/spool\nEXECUTE = {tmp_path}/execute\n"
        f"PREEN_ADMIN = root@here\nSENDMAIL =\nMAIL = {mailbox}/mail\n"
    )
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "config"))
    return tmp_path


BAD = ("log/core", "spool/junk", "execute/dir_999999999")


def test_it_shows_what_does_not_belong_there(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("preen", ["-log", str(host / "notes")]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{host}/{name} - Not removed" for name in BAD]
    assert all((host / name).exists() for name in BAD)
    assert f"{host}/log/StartLog: in its place\n" in (host / "notes").read_text()


def test_it_removes_that_and_nothing_else(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("preen", ["-remove", "-verbose"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert {f"{host}/{name} - Removed" for name in BAD} < set(out)
    assert f"{host}/spool/job_queue.sqlite - OK" in out
    assert not any((host / name).exists() for name in BAD)
    assert (host / "execute" / f"dir_{os.getpid()}").exists()


def test_it_tells_the_administrator_by_mail_or_that_it_cannot(
    host: Path, mailbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("preen", ["-m", "-r"]) == 0
    box = (mailbox / "box").read_text()
    assert "root@here" in box.splitlines()[0]
    assert f"{host}/spool/junk - Removed" in box
    (host / "spool" / "more").touch()
    (mailbox / "mail").write_text("#!/bin/sh\nexit 9\n")
    assert main("preen", ["-m", "-r"]) == 2
    assert "ended with status 9" in capsys.readouterr().err


def test_a_sandbox_that_is_mounted_is_in_use_whatever_its_path(
    host: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = host / "the scratch"
    (execute / "dir_999999998").mkdir(parents=True)
    (host / "config").write_text((host / "config").read_text() + f"EXECUTE = {execute}\n")
    mounts = host / "mounts"
    written = str(execute / "dir_999999998").replace(" ", "\\040")
    mounts.write_text(f"proc /proc proc rw 0 0\ntmpfs {written} tmpfs rw 0 0\n")
    monkeypatch.setattr("minipool.cli.admin_tools.preen.MOUNTS", str(mounts))
    assert main("preen", []) == 0
    assert "dir_999999998" not in capsys.readouterr().out
