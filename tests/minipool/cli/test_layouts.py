"""What condor_q, condor_status and condor_history print, to the character: cases in tests/cases/cli/*.layouts.

A case is `=== $ command`, what it prints, `=== end`. The layouts are HTCondor 25.14's; the ads are in *.ads there.
To add a case, write the command and run this file as a program: it fills in what is printed, for you to check.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest

from minipool.cli.entry import context
from minipool.cli.queue_tools import q_show
from tests.minipool.cli.fake_pool import CASES, FakeSession, a_peer, read_ads, run_tool

NOW = 1795217742
_CASE = re.compile(r"=== \$ (condor_\w+)([^\n]*)\n(.*?)=== end\n", re.DOTALL)


def cases() -> Iterator[tuple[str, str, str]]:
    for path in sorted(CASES.glob("*.layouts")):
        for tool, argv, expected in _CASE.findall(path.read_text()):
            yield tool.removeprefix("condor_"), argv.strip(), expected


@pytest.fixture(autouse=True)
def a_fixed_moment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone and time in which the samples were taken, and a user without rights."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(context, "stamp", lambda when=None: "11/20/26 23:35:42")
    monkeypatch.setattr(q_show, "stamp", context.stamp)
    monkeypatch.setattr(time, "time", lambda: float(NOW))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    yield
    monkeypatch.undo()
    time.tzset()


def printed(monkeypatch: pytest.MonkeyPatch, verb: str, argv: str) -> str:
    jobs = read_ads("jobs.ads") if verb != "history" else read_ads("history.ads")
    words = shlex.split(argv)
    user = "alice"
    if words[:2] == ["as", "bob"]:
        words, user = words[2:], "bob"
    session = FakeSession(a_peer(jobs), read_ads("machines.ads"), user)
    status, out, err = run_tool(monkeypatch, verb, words, session)
    assert (status, err) == (0, "")
    return out


@pytest.mark.parametrize(("verb", "argv", "expected"), [pytest.param(*case, id=" ".join(case[:2])) for case in cases()])
def test_the_layout_is_htcondors(monkeypatch: pytest.MonkeyPatch, verb: str, argv: str, expected: str) -> None:
    assert printed(monkeypatch, verb, argv) == expected


def test_there_are_cases() -> None:
    assert len(list(cases())) > 40


def fill() -> None:
    """Write what each case prints now."""
    for path in sorted(CASES.glob("*.layouts")):
        filled = []
        for tool, argv, _ in _CASE.findall(path.read_text()):
            patch = pytest.MonkeyPatch()
            fixture = a_fixed_moment.__wrapped__(patch) if hasattr(a_fixed_moment, "__wrapped__") else iter(())
            next(fixture, None)
            with redirect_stdout(io.StringIO()):
                shown = printed(patch, tool.removeprefix("condor_"), argv.strip())
            next(fixture, None)
            filled.append(f"=== $ {tool}{argv}\n{shown}=== end\n")
        path.write_text("\n".join(filled))


if __name__ == "__main__":
    fill()
