"""What a startd does whose owner has said nothing, value by value."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.classad import ClassAd, expr
from pool.classad.values.environment import ENV
from pool.config import load_config
from pool.slots.policy import DEFAULTS

NOW = 1_000_000
LINES = [
    tuple(line.split())
    for line in (Path(__file__).parents[2] / "cases/slots/defaults.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
CONFIG = load_config([], environ={}, subsystem="STARTD")
SLOT = ClassAd({"EnteredCurrentState": NOW - 100, "EnteredCurrentActivity": NOW - 40})
JOB = ClassAd({"RequestCpus": 3, "RequestMemory": 1000, "RequestDisk": 1025})


@pytest.mark.parametrize(("name", "value"), LINES)
def test_a_default_is_what_the_manual_says(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENV, "clock", lambda: float(NOW))
    text = CONFIG[name] or DEFAULTS[name.upper()]
    asker, asked = (JOB, SLOT) if name.startswith("MODIFY") else (SLOT, JOB)
    assert text == value or expr(text).eval(asker, asked) == expr(value).eval()
