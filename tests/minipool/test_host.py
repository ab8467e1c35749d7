"""What `pool up` writes, and what it says of places that jobs cannot reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minipool.client import host
from minipool.client.session import Session


def test_settings_of_the_first_start_stay_and_those_of_a_later_one_are_gone_at_the_next(tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.write_text("FROM_FILE = here\n")
    later = tmp_path / "later"
    later.write_text("FROM_FILE = there\n")

    def config(files: list[Path], settings: dict[str, str]) -> tuple[str | None, str | None]:
        host.prepare(str(tmp_path), [str(file) for file in files], settings)
        found = Session.open(directory=str(tmp_path)).config
        assert found["LOCAL_DIR"] == str(tmp_path)
        return found["NUM_CPUS"], found["FROM_FILE"]

    assert config([extra], {"NUM_CPUS": "3"}) == ("3", "here")
    assert config([], {}) == ("3", "here")
    assert config([later], {"NUM_CPUS": "2"}) == ("2", "there")
    assert config([], {}) == ("3", "here")


def test_what_a_person_added_to_the_configuration_stays_and_wins(tmp_path: Path) -> None:
    host.prepare(str(tmp_path), [], {})
    with open(tmp_path / "config", "a") as file:
        file.write("NUM_CPUS = 7\n")
    host.prepare(str(tmp_path), [], {"NUM_CPUS": "3"})
    assert Session.open(directory=str(tmp_path)).config["NUM_CPUS"] == "7"


def test_a_directory_that_others_cannot_enter_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    inner = closed / "inner"
    inner.mkdir(parents=True)
    closed.chmod(0o700)
    said = [one for one in host.unreachable([str(inner)]) if str(closed) in one or "cannot be reached" in one]
    assert len(said) == 1
    assert "chmod o+x" in said[0]


def test_a_pid_file_that_nobody_holds_names_no_master(tmp_path: Path) -> None:
    (tmp_path / "master.pid").write_text(f"{os.getpid()}\n")
    assert host.master_pid(str(tmp_path)) is None


DEAF = """
import fcntl, os, signal, socket, sys
run = sys.argv[1]
held = open(os.path.join(run, "master.pid"), "w")
fcntl.flock(held, fcntl.LOCK_EX)
held.write(str(os.getpid()))
held.flush()
socket.socket(socket.AF_UNIX).bind(os.path.join(run, "master.sock"))
print("up", flush=True)
signal.pause()
"""
"""A master that holds its directory and answers nobody."""


@pytest.mark.parametrize(("how", "signum"), [("graceful", signal.SIGTERM), ("fast", signal.SIGQUIT)])
def test_a_master_that_does_not_answer_is_stopped_by_a_signal(tmp_path: Path, how: str, signum: int) -> None:
    (tmp_path / "run").mkdir()
    session = Session.open(directory=str(tmp_path))
    command = [sys.executable, "-c", DEAF, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as master:
        try:
            assert master.stdout is not None
            assert master.stdout.readline() == b"up\n"
            assert host.stop(session, how, seconds=30)
            assert master.wait() == -signum
        finally:
            master.kill()


def test_a_pool_that_does_not_run_cannot_be_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from minipool.cli.entry.main import dispatch

    (tmp_path / "run").mkdir()
    assert dispatch("down", ["--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"No pool runs in {tmp_path}.\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["-c", "NUM_CPUS"], "is not a setting (expected KNOB=VALUE)"),
        (["-c", "NUM_CPUS=many"], "NUM_CPUS"),
        (["--config", "/no/such/file"], "/no/such/file cannot be read"),
        (["somewhere"], "a pool's directory is given with --dir"),
        (["--colour"], "Unrecognized option: --colour"),
    ],
)
def test_a_wrong_command_line_starts_nothing(
    tmp_path: Path, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from minipool.cli.entry.main import dispatch

    assert dispatch("up", ["--dir", str(tmp_path / "new"), *argv]) == 1
    assert said in capsys.readouterr().err
    assert host.master_pid(str(tmp_path / "new" / "run")) is None
