"""`make bench`: suites that drive the product's classes by hand keep up with them, and one that fails costs no other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as bench
from benchmarks.measure import Figure

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["classad", "collector", "gang", "messages", "queue", "rpc", "startd", "why"])
def test_a_suite_gives_its_figures(suite: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", suite], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["figures"]
    assert found["failed"] == []


@pytest.fixture
def _sigterm_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_sigterm_as_before")
def test_a_suite_that_fails_costs_its_own_figures_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Iterator[Figure]:
        yield Figure("before", 1.0, "s", "")
        raise AttributeError("what it drives has changed")

    suites = {"bad": fails, "good": lambda: iter([Figure("after", 2.0, "s", "")])}
    for name, figures in suites.items():
        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", SimpleNamespace(figures=figures))
    monkeypatch.setattr(bench, "SUITES", tuple(suites))
    assert bench.main([]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [figure["name"] for figure in found["figures"]] == ["before", "after"]
    assert found["failed"] == ["bad"]
    assert "what it drives has changed" in said.err
