"""What a tool writes: terminals are shown no control characters, files and pipes get every byte, and a full disk is told."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from minipool.cli.entry.console import plain

BIN = Path(sys.executable).parent
HOSTILE = b'MyType = "Job"\nClusterId = 1\nProcId = 0\nOwner = "al\x1b[31mice\x07"\nQDate = 9\nJobStatus = 1\nCmd = "x\xff\x08"\n'
UTF8 = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
"""As in a locale of a language, where Python refuses what is not UTF-8 (it does not in the locale C)."""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs"
    path.write_bytes(HOSTILE)
    return path


def on_a_terminal(argv: list[str | Path]) -> bytes:
    """What a program writes to a terminal, both streams together."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=UTF8)
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:  # the terminal's other end is closed
            pass
        done.wait()
        return said.replace(b"\r\n", b"\n")
    finally:
        os.close(ours)


@pytest.mark.parametrize("form", [["-nobatch"], ["-long"], ["-json"], ["-af", "Owner", "Cmd"], []])
def test_a_terminal_is_shown_no_control_characters_of_an_ad(jobs: Path, form: list[str]) -> None:
    said = on_a_terminal([BIN / "condor_q", "-jobads", jobs, *form])
    assert b"ice" in said
    assert not [byte for byte in said.decode() if byte != "\n" and not byte.isprintable()]


def test_a_terminal_is_shown_no_control_characters_in_an_error() -> None:
    said = on_a_terminal([BIN / "condor_history", "-file", "/no\x1b[2Jsuch"])
    assert b"/no?[2Jsuch" in said


@pytest.mark.parametrize("env", [UTF8, {**os.environ, "LC_ALL": "C"}])
def test_a_pipe_gets_every_byte(jobs: Path, env: dict[str, str]) -> None:
    argv = [BIN / "condor_q", "-jobads", jobs, "-af", "Owner", "Cmd"]
    assert subprocess.check_output(argv, env=env) == b"al\x1b[31mice\x07 x\xff\x08\n"


def test_plain_text_is_left_alone() -> None:
    assert plain("Grüße\t10 € 漢字\n") == "Grüße\t10 € 漢字\n"
    assert plain("a\x1b\x9b\x7f\r\u202eb\udcff") == "a?????b?"


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BIN / "condor_version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("program", "argv"),
    [
        ("condor_gather_info", []),
        ("condor_preen", ["-log", "condor-profile.txt"]),
        ("pool", ["queue", "-file", "queue.sqlite", "dump", "nosuch/dump"]),
        ("condor_manifest", ["createManifestFor", "nosuch"]),
        ("condor_token_create", ["-token", "x"]),
    ],
)
def test_what_the_system_refuses_is_said_in_a_sentence(tmp_path: Path, program: str, argv: list[str]) -> None:
    (tmp_path / "condor-profile.txt").mkdir()
    from pool.jobs.queue.store import open_queue

    open_queue(tmp_path / "queue.sqlite").close()
    env = {**os.environ, "HOME": "/dev/null", "POOL_DIR": str(tmp_path)}
    (tmp_path / "config").write_text(f"LOCAL_DIR = {tmp_path}\n")
    done = subprocess.run([BIN / program, *argv], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr
