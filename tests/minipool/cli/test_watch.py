"""condor_watch_q ends when the jobs are done, or when a condition of -exit is met, with its exit status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minipool.cli.log_tools import watch
from minipool.cli.log_tools.watch_exit import read, status_of
from minipool.client import progress
from minipool.client.progress import Batch, Progress
from pool.base.errors import UserError
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, run_tool

IDLE, MIXED, DONE = Batch("b", 3, 3, 0, 0, 0, 0), Batch("b", 3, 0, 1, 1, 1, 0), Batch("b", 3, 0, 0, 0, 3, 0)


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("all,idle", "IDLE"),
        ("any,held,7", "MIXED"),
        ("any,done", "MIXED DONE"),
        ("all,done,0", "DONE"),
        ("none,active", "DONE"),
        ("any,active", "IDLE MIXED"),
        ("none,held", "IDLE DONE"),
    ],
)
def test_a_condition_is_about_how_many_jobs_are_in_a_state(text: str, met: str) -> None:
    batches = {"IDLE": IDLE, "MIXED": MIXED, "DONE": DONE}
    assert [name for name, batch in batches.items() if read(text).is_met([batch])] == met.split()
    assert not read(text).is_met([])


def test_the_first_condition_that_is_met_gives_the_exit_status() -> None:
    conditions = [read("all,done,0"), read("any,held,7"), read("any,done,9")]
    assert [status_of(conditions, [batch]) for batch in (IDLE, MIXED, DONE)] == [None, 7, 0]


@pytest.mark.parametrize("text", ["", "all", "some,done", "all,dead", "all,done,x", "all,done,256"])
def test_a_condition_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="GROUPER,JOB_STATUS"):
        read(text)


class Steps:
    """Stands for a schedd's stream of changes."""

    def __init__(self, *batches: Batch) -> None:
        self.batches = batches
        self.selected: Any = None

    def __call__(self, _: object, select: Any, *, name: str | None = None) -> Iterator[Progress]:
        self.selected = select
        for batch in self.batches:
            step = Progress()
            step.synced, step.ads = True, {"1.0": None}  # type: ignore[dict-item]  # only counted
            step.left = dict(step.ads) if batch.over else {}
            step.batches = lambda batch=batch: [batch]  # type: ignore[method-assign,misc]
            yield step


def ran(monkeypatch: pytest.MonkeyPatch, steps: Steps, *argv: str) -> tuple[int, str, str]:
    session = FakeSession(FakePeer([], {}))
    monkeypatch.setattr(watch, "open_session", lambda _: session)
    monkeypatch.setattr(progress, "follow", steps)
    return run_tool(monkeypatch, "watch_q", argv, session)


def test_it_ends_with_the_jobs_or_with_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = ran(monkeypatch, Steps(IDLE, MIXED, DONE))
    assert (status, out.splitlines()[-1]) == (0, "b: 3 of 3 done, 0 running, 0 idle")
    status, out, _ = ran(monkeypatch, Steps(IDLE, MIXED, DONE), "-exit", "all,done,0", "-exit", "any,held,7")
    assert (status, len(out.splitlines())) == (7, 2)


def test_batches_that_are_over_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "3 of 3" not in ran(monkeypatch, Steps(IDLE, DONE), "-no-display-exited")[1]


def test_clusters_from_one_on_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(DONE)
    ran(monkeypatch, steps, "-larger", "7", "-batches", "x")
    assert steps.selected.constraint == '(JobBatchName == "x") && (ClusterId >= 7)'
