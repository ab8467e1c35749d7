"""Fault points: named, counted, and fired once per pool."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.base import faults


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[list[str]]:
    """What would have been killed; the points are disarmed afterwards."""
    deaths: list[str] = []
    yield deaths
    faults.arm("", tmp_path)


def test_an_armed_point_fires_once_and_its_marker_outlives_the_process(tmp_path: Path, killed: list[str]) -> None:
    faults.arm("schedd.match_taken, other", tmp_path, kill=lambda: killed.append("x"))
    faults.fault("schedd.claim_granted")
    assert killed == []
    faults.fault("schedd.match_taken")
    faults.fault("schedd.match_taken")
    assert killed == ["x"]
    faults.arm("schedd.match_taken", tmp_path, kill=lambda: killed.append("again"))  # the restarted daemon
    faults.fault("schedd.match_taken")
    assert killed == ["x"]


def test_a_count_waits_for_its_turn(tmp_path: Path, killed: list[str]) -> None:
    faults.arm("starter.job_started:3", tmp_path, kill=lambda: killed.append("x"))
    for expected in (0, 0, 1, 1):
        faults.fault("starter.job_started")
        assert len(killed) == expected


def test_a_point_may_cut_the_connections_of_file_agents_instead(tmp_path: Path, killed: list[str]) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "agent.output_file.do").write_text("cut\n")
    others = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as near:
        listener.bind(str(tmp_path / "agents" / "a.sock"))
        listener.listen()
        near.connect(str(tmp_path / "agents" / "a.sock"))
        far, _ = listener.accept()
        faults.arm("agent.output_file", tmp_path, kill=lambda: killed.append("x"))
        faults.fault("agent.output_file")
        assert (near.recv(1), far.recv(1)) == (b"", b"")
        far.close()
    others[0].send(b"x")
    assert others[1].recv(1) == b"x"
    for end in others:
        end.close()
    assert killed == []
    assert int((tmp_path / "faults" / "agent.output_file").read_text()) == os.getpid()


def test_a_point_may_stop_its_process_instead(tmp_path: Path) -> None:
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "agent.output_file.do").write_text("stop\n")
    child = os.fork()
    if not child:
        faults.arm("agent.output_file", tmp_path)
        faults.fault("agent.output_file")
        os._exit(7)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_without_points_nothing_happens(tmp_path: Path) -> None:
    faults.arm(None, tmp_path)
    faults.fault("schedd.match_taken")
    assert list(tmp_path.iterdir()) == []
