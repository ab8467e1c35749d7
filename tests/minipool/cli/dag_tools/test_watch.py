"""pool dag watch: the lines and the screen of a graph, by what its files and the ads of its jobs say."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from minipool.cli.dag_tools import watch
from minipool.cli.dag_tools.dag import main
from minipool.cli.dag_tools.following import Change, Followed, Nodes
from minipool.cli.dag_tools.watch_view import change, screen_of
from minipool.client import core
from minipool.client.model import JobState, Status
from pool.base.ids import JobId
from pool.classad import ClassAd
from tests.minipool.cli.fake_pool import FakePeer, FakeSession
from tests.pool.dag.cases import CASES

DAG = "JOB A a\nJOB B a\nJOB C a\nPARENT A CHILD B\nPARENT B CHILD C\nRETRY B 1\n"
ENDED = "\t(1) Normal termination (return value {})"


def event(number: int, cluster: int, second: int, *lines: str) -> str:
    return f"{number:03} ({cluster:03}.000.000) 2026-11-22 19:00:{second:02} {chr(10).join(lines)}\n...\n"


def submitted(name: str, cluster: int, second: int) -> str:
    return event(0, cluster, second, "Job submitted from host: <127.0.0.1:1>", f"    DAG Node: {name}")


def ended(cluster: int, second: int, code: int) -> str:
    return event(5, cluster, second, "Job terminated.", ENDED.format(code))


def dagman(directory: Path, dag: str, **attributes: object) -> ClassAd:
    own = {"ClusterId": 9, "ProcId": 0, "JobStatus": 2, "DAG_Status": 0, "Iwd": str(directory)}
    return ClassAd({**own, "Args": f"-p 0 -f -l . -Lockfile {dag}.lock -AutoRescue 1 -Dag {dag}", **attributes})


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir("/")  # what the tool changes is put back
    (tmp_path / "x.dag").write_text(DAG)
    return tmp_path


def lines_of(nodes: Nodes) -> list[str]:
    return [change(nodes.past, one).split(" ", 1)[1] for one in nodes.read_on()]


def test_each_change_is_a_line_as_the_log_grows(directory: Path) -> None:
    nodes = Nodes(FakeSession(FakePeer([], {})).config, dagman(directory, "x.dag"))
    assert lines_of(nodes) == []  # the log is not there yet
    log = directory / "x.dag.nodes.log"
    log.write_text(submitted("A", 10, 1) + ended(10, 2, 0)[:40])
    assert lines_of(nodes) == ["[0/3] A: submitted, cluster 10"]
    log.write_text(submitted("A", 10, 1) + ended(10, 2, 0) + submitted("B", 11, 3) + ended(11, 5, 4))
    assert lines_of(nodes) == [
        "[1/3] A: done in 0:00:01",
        "[1/3] B: submitted, cluster 11",
        "[1/3] B: failed: exit code 4, run 1 of 2",
    ]


def held(cluster: int, second: int, why: str) -> str:
    return event(12, cluster, second, "Job was held.", f"\t{why}", "\tCode 3 Subcode 0")


def test_a_node_that_is_held_is_a_line_and_so_is_its_release(directory: Path) -> None:
    nodes = Nodes(FakeSession(FakePeer([], {})).config, dagman(directory, "x.dag"))
    released = event(13, 10, 3, "Job was released.", "\tvia condor_release")
    (directory / "x.dag.nodes.log").write_text(submitted("A", 10, 1) + held(10, 2, "its memory") + released)
    assert lines_of(nodes) == ["[0/3] A: submitted, cluster 10", "[0/3] A: held: its memory", "[0/3] A: released"]


def test_the_line_of_a_held_node_comes_though_the_log_is_behind_the_schedd(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing may happen for hours then that would have the log read once more."""
    log = directory / "x.dag.nodes.log"
    log.write_text(submitted("A", 10, 1))
    told = [
        JobState(JobId(9, 0), Status.RUNNING, dagman(directory, "x.dag")),
        JobState(JobId(10, 0), Status.HELD, ClassAd({"DAGNodeName": "A", "JobStatus": 5})),
    ]

    def follow(select: object, attempts: object, take: core.Take, **_: object) -> list[object]:
        return list(take(told, complete=True))

    def later(_: float) -> None:
        log.write_text(submitted("A", 10, 1) + held(10, 2, "its memory"))

    class OneLine:
        def __init__(self, *_: object) -> None: ...

        def stream(self, steps: list[object]) -> list[object]:
            return steps

        def close(self) -> None: ...

    monkeypatch.setattr(core, "follow", follow)
    monkeypatch.setattr("minipool.cli.dag_tools.following.Lines", OneLine)
    monkeypatch.setattr("minipool.cli.dag_tools.following.time.sleep", later)
    followed = Followed(FakeSession(FakePeer([], {})), 9)  # type: ignore[arg-type]  # asked for nothing but its configuration
    assert followed.nodes is None
    changes = next(followed.steps())
    assert followed.nodes is not None
    lines = [change(followed.nodes.past, one).split(" ", 1)[1] for one in changes]
    assert lines == ["[0/3] A: submitted, cluster 10", "[0/3] A: held: its memory"]


def test_what_a_run_has_done_is_told_also_when_its_rescue_file_is_there_already(directory: Path) -> None:
    (directory / "x.dag.rescue001").write_text("# Nodes that failed: 1\n#   C,<ENDLIST>\n\nDONE A\nDONE B\n")
    (directory / "x.dag.nodes.log").write_text(submitted("B", 11, 3) + ended(11, 5, 0))
    nodes = Nodes(FakeSession(FakePeer([], {})).config, dagman(directory, "x.dag"))
    assert lines_of(nodes) == ["[1/3] B: submitted, cluster 11", "[2/3] B: done in 0:00:02"]
    (failed,) = nodes.without_a_word()  # its PRE script, say, which no log of jobs has
    assert change(nodes.past, failed).endswith("[2/3] C: failed: see x.dag.dagman.out")


def test_a_run_of_htcondors_own_is_followed(directory: Path) -> None:
    for file in (CASES / "ran").glob("preskip.*"):
        shutil.copy(file, directory)
    nodes = Nodes(FakeSession(FakePeer([], {})).config, dagman(directory, "preskip.dag"))
    lines = lines_of(nodes)
    assert lines[:3] == ["[2/4] A: skipped", "[2/4] C: begins; it has no job", "[3/4] C: done in 0:00:00"]
    assert lines[-1].endswith("B: failed: POST script: exit code 1, run 3 of 3")
    assert {one.state for one in nodes.past.nodes} == {"done", "failed"}


def test_the_screen_has_figures_what_runs_and_how_long_it_takes_yet(directory: Path) -> None:
    followed = Followed(FakeSession(FakePeer([], {})), 9)  # type: ignore[arg-type]  # asked for nothing but its configuration
    figures = {"DAG_NodesTotal": 3, "DAG_NodesDone": 1, "DAG_NodesQueued": 1, "DAG_NodesUnready": 1}
    followed.dagman = dagman(directory, "x.dag", **figures)
    (directory / "x.dag.nodes.log").write_text(submitted("A", 10, 0) + ended(10, 8, 0) + submitted("B", 11, 10))
    followed.nodes = Nodes(followed.session.config, followed.dagman)
    changes = list(followed.nodes.read_on())
    followed.jobs[JobId(11, 0)] = ClassAd(
        {"DAGNodeName": "B", "JobStatus": 2, "RemoteHost": "slot1_1@there", "JobCurrentStartDate": int(changes[-1].at)}
    )
    now = changes[-1].at + 3
    assert "\n".join(screen_of(followed, now)).splitlines() == [
        "x.dag (9): 1 of 3 nodes done",
        "[====================--------------------                    ]",
        "",
        "      Done       Pre    Queued      Post     Ready  Un-Ready    Failed    Futile",
        "         1         0         1         0         0         1         0         0",
        "",
        "At least 0:00:13 more: B -> C",  # A took 8 seconds, and B has run for 3
        "",
        "Running:",
        "    B (11.0) on slot1_1@there for 0:00:03",
    ]


def test_a_graph_that_stands_still_says_why(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = [
        {"JobStatus": 1},
        {"JobStatus": 2, "DAG_Status": 6},
        {"JobStatus": 5, "HoldReason": "full", "DAG_Status": 0},
        {"JobStatus": 4, "ExitCode": 2, "DAG_Status": 0},
    ]

    def steps(self: Followed) -> Iterator[list[Change]]:
        for state in states:
            self.dagman = ClassAd(state)
            if "DAG_Status" in state:
                self.nodes = self.nodes or Nodes(self.session.config, dagman(directory, "x.dag"))
            self.over = state["JobStatus"] == 4
            yield []
            yield []  # nothing new: nothing more to say

    monkeypatch.setattr(Followed, "steps", steps)
    monkeypatch.setattr(watch, "open_session", lambda _: FakeSession(FakePeer([], {})))
    assert main("dag", ["watch", "9"]) == 1
    assert list(dict.fromkeys(capsys.readouterr().out.splitlines())) == [
        "x.dag (9): halted",
        "x.dag (9): DAGMan is held: full",
        "x.dag (9): DAGMan has ended with exit code 2",
    ]


@pytest.mark.parametrize(
    ("argv", "log", "said"),
    [
        ([], None, "Give the DAG file, or the cluster of DAGMan's job."),
        (["x.dag"], None, "x.dag.dagman.log cannot be read: No such file or directory (expected a graph that"),
        (["x.dag"], "", "x.dag.dagman.log tells of no job (expected"),
    ],
)
def test_what_is_no_graph_that_was_submitted_is_refused(
    argv: list[str],
    log: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(watch, "open_session", lambda _: FakeSession(FakePeer([], {})))
    if log is not None:
        Path("x.dag.dagman.log").write_text(log)
    assert main("dag", ["watch", *argv]) == 1
    assert said in capsys.readouterr().err
