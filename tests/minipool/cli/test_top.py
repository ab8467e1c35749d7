"""condor_top between two ads of a daemon."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from minipool.cli.entry.main import dispatch

OLD = """MyType = "Scheduler"
Name = "ap"
DaemonStartTime = 1000
MyCurrentTime = 2000
StatsLifetime = 1000
DCCommands = 100
DCWork = 10
DCWorkRuntime = 5.0
DCSocketRuntime = 1.0
Calls = 4
"""
NEW = """MyType = "Scheduler"
Name = "ap"
DaemonStartTime = 1000
MyCurrentTime = 2100
StatsLifetime = 1100
DCCommands = 300
DCWork = 30
DCWorkRuntime = 9.0
DCWorkRuntimeAvg = 0.3
DCWorkRuntimeMax = 2.0
DCSocketRuntime = 2.0
Calls = 14
"""


def ran(tmp_path: Path, old: str, new: str, *argv: str) -> tuple[int, str, str]:
    for name, text in (("old", old), ("new", new)):
        (tmp_path / name).write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = dispatch("top", [*argv, str(tmp_path / "old"), str(tmp_path / "new")])
    return status, out.getvalue(), err.getvalue()


def test_what_was_done_between_two_ads_is_shown(tmp_path: Path) -> None:
    status, out, err = ran(tmp_path, OLD, NEW, "--attrs=Calls", "-c", "all")
    assert (status, err) == (0, "")
    head, _, heading, rule, work, calls = out.splitlines()
    assert head.endswith("Scheduler ap, up 0.3 h, 2.0 commands/s")
    assert heading.split("  ")[0] == "Item"
    assert set(rule) == {"-"}
    assert work.split() == "Work 4 0.200 9 0.300 2 66.667 20 0.200 30 0.027 733.333".split()  # noqa: SIM905
    assert calls.split() == ["Calls", "10", "0.100", "14", "0.013", "785.714"]


@pytest.mark.parametrize(
    ("old", "argv", "said"),
    [
        (NEW, [], "Error: ClassAds have the same timestamp.\n"),
        (OLD.replace("1000", "1"), [], "Error: Daemon ads have different start times.\n"),
        (OLD, ["-c", "nonsense"], "Error: there is no column set 'nonsense' (default, runtime, count, all)\n"),
        (OLD, ["-history"], "-history is not supported here: the schedd keeps no ads of its past\n"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, old: str, argv: list[str], said: str) -> None:
    assert ran(tmp_path, old, NEW, *argv) == (1, "", said)
