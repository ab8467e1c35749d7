"""Fault points: named, counted, and fired once per pool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons import faults


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


def test_without_points_nothing_happens(tmp_path: Path) -> None:
    faults.arm(None, tmp_path)
    faults.fault("schedd.match_taken")
    assert list(tmp_path.iterdir()) == []
