"""What condor_dagman writes of a graph's course, beside what HTCondor's wrote of the same one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pool.classad.forms.lists import read_text
from pool.dag.files.dot import dot_text
from pool.dag.files.node_status import (
    DONE,
    ERROR,
    FUTILE,
    NOT_READY,
    POSTRUN,
    READY,
    SUBMITTED,
    GraphNow,
    NodeNow,
    node_status_text,
)
from pool.dag.language.reader import read
from pool.dag.model import Dag

REAL: Final = Path(__file__).parents[2] / "cases" / "dag" / "rescue"
ENDED_AT = 1795374362


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone in which the files were recorded."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def graph(name: str = "x.dag") -> Dag:
    return read([name], lambda file: (REAL / file).read_text())


def test_the_status_of_a_graph_that_is_done_is_htcondors() -> None:
    now = GraphNow(("x.dag",), total=4, done=4, note="success")
    text = node_status_text(now, [NodeNow(name, DONE) for name in "ABCD"], ENDED_AT, 1)
    assert text == (REAL / "status.txt").read_text()


def test_a_graph_that_runs_says_when_its_status_is_written_again() -> None:
    now = GraphNow(("x.dag", "y.dag"), total=2, queued=1, unready=1, idle=1)
    nodes = [NodeNow("A", SUBMITTED, "idle", 1, queued=2, held=1), NodeNow("B", NOT_READY)]
    text = node_status_text(now, nodes, ENDED_AT, 60)
    assert '  DagFiles = {\n    "x.dag",\n    "y.dag"\n  };\n' in text
    assert '  DagStatus = 3; /* "STATUS_SUBMITTED ()" */\n' in text
    assert '  StatusDetails = "idle";\n  RetryCount = 1;\n  JobProcsQueued = 2;\n  JobProcsHeld = 1;\n' in text
    assert f'  NextUpdate = {ENDED_AT + 60}; /* "Sun Nov 22 19:07:02 2026" */\n' in text


NODES = [NodeNow("A", SUBMITTED, "not_idle", queued=1), NodeNow("B", POSTRUN), NodeNow("C", FUTILE)]


@pytest.mark.parametrize("note", ["failed", "aborted", "removed"])
def test_what_is_under_way_counts_as_failed_in_a_graph_that_is_given_up(note: str) -> None:
    now = GraphNow(("x.dag",), total=3, queued=1, post=1, futile=1, held=1, idle=1, note=note)
    text = node_status_text(now, NODES, ENDED_AT, 60)
    assert f'  DagStatus = 6; /* "STATUS_ERROR ({note})" */\n' in text
    assert "  NodesQueued = 0;\n  NodesPost = 0;\n" in text
    assert "  NodesFailed = 2;\n  JobProcsHeld = 0;\n  JobProcsIdle = 0; /* includes held */\n" in text
    details = re.findall(r"NodeStatus = (\d).*\n  StatusDetails = (.*);", text)
    assert details == [
        (str(ERROR), '"Was STATUS_SUBMITTED"'),
        (str(ERROR), '"Was STATUS_POSTRUN"'),
        (str(FUTILE), '"Had an ancestor node fail"'),
    ]
    assert '  NextUpdate = 0; /* "none" */\n' in text


def test_a_final_node_that_is_to_come_keeps_a_removed_graph_alive() -> None:
    now = GraphNow(("x.dag",), total=3, queued=1, note="removed", final_to_come=True)
    text = node_status_text(now, NODES[:1], ENDED_AT, 60)
    assert '  DagStatus = 3; /* "STATUS_SUBMITTED (removed)" */\n' in text
    assert '  StatusDetails = "not_idle";\n' in text


def test_the_file_is_made_of_ads() -> None:
    odd = [NodeNow('A"b\\', ERROR, "Job proc (1.0.0) failed\n")]
    text = node_status_text(GraphNow(('x".dag',), total=1, failed=1, note="failed"), odd, ENDED_AT, 60)
    ads = read_text(text)
    assert [ad.eval_str("Type") for ad in ads] == ["DagStatus", "NodeStatus", "StatusEnd"]
    assert ads[1].eval_str("Node") == 'A"b\\'
    assert ads[1].eval_str("StatusDetails") == "Job proc (1.0.0) failed\n"


@pytest.mark.parametrize(("file", "state", "at"), [("x.dot.0", READY, 1795374296), ("x.dot.9", DONE, ENDED_AT)])
def test_the_picture_is_htcondors(file: str, state: int, at: int) -> None:
    assert dot_text(graph(), [state] * 4, at) == (REAL / file).read_text()


def test_a_picture_has_what_its_include_file_says() -> None:
    dag = read(["x.dag"], lambda _: "JOB A a.sub\nDOT x.dot INCLUDE style.txt\n")
    text = dot_text(dag, [ERROR], ENDED_AT, "    rankdir=LR;\n")
    assert text == (
        'digraph DAG {\n    label="DAGMan Job status at Sun Nov 22 19:06:02 2026";\n\n'
        "// Beginning of commands included from style.txt.\n    rankdir=LR;\n"
        "// End of commands included from style.txt.\n\n"
        '    "A" [shape=box label="A (E)"];\n\n}\n'
    )
