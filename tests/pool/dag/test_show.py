"""What became of a graph's nodes, told by the files that HTCondor's own condor_dagman left, and pictures of graphs."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from pool.dag.graph import critical_path
from pool.dag.language.reader import read
from pool.dag.model import Dag
from pool.dag.show.past import NodePast, failed_in, look_back, of_layers
from pool.dag.show.picture import NODES_MAX, svg
from pool.jobs.userlog.requests import events_of
from tests.pool.dag.cases import CASES, reader

RAN = CASES / "ran"


def text(name: str) -> str:
    return (RAN / name).read_text()


def past_of(name: str, *, rescue: bool = True, log: bool = True) -> dict[str, NodePast]:
    after = str(RAN / f"{name}.rescue001")
    dag = read([str(RAN / name)], lambda path: Path(path).read_text(), rescue=after if rescue else "")
    events = list(events_of(text(f"{name}.nodes.log"), year=2026, utc=True)) if log else []
    past = look_back(dag, rescue=text(f"{name}.rescue001") if rescue else "", events=events)
    return {node.name: one for node, one in zip(dag.nodes, past, strict=True)}


def test_a_rescue_file_alone_says_what_is_done_and_what_failed() -> None:
    assert failed_in(text("preskip.dag.rescue001")) == ["B"]
    states = {name: one.state for name, one in past_of("preskip.dag", log=False).items()}
    assert states == {"A": "done", "B": "failed", "C": "done", "D": "done"}


def test_the_log_says_why_and_how_often_and_a_post_script_has_the_last_word() -> None:
    past = past_of("preskip.dag")
    assert past["B"] == NodePast("failed", "POST script: exit code 1", 3, 5.0)


def test_a_nodes_exit_code_is_why_it_failed() -> None:
    past = past_of("final.dag", rescue=False)
    assert (past["B"].state, past["B"].why, past["F"].state) == ("failed", "exit code 4", "done")


def a_dag(lines: str) -> Dag:
    return read(["x.dag"], reader({"x.dag": lines}))


def an_event(kind: int, cluster: int, at: float, proc: int = 0, **attrs: object) -> dict[str, object]:
    return {"type": kind, "cluster": cluster, "proc": proc, "time": at, "subproc": 0, "attrs": attrs}


def submitted(node: str, cluster: int, at: float, proc: int = 0) -> dict[str, object]:
    return an_event(0, cluster, at, proc, LogNotes=f"DAG Node: {node}")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], NodePast("waiting")),
        ([submitted("A", 1, 10)], NodePast("running", runs=1)),
        ([submitted("A", 1, 10), an_event(12, 1, 11, HoldReason="no disk")], NodePast("held", "no disk", 1)),
        ([submitted("A", 1, 10), an_event(12, 1, 11), an_event(13, 1, 12)], NodePast("running", runs=1)),
        ([submitted("A", 1, 10), an_event(9, 1, 14, Reason="via condor_rm")], NodePast("failed", "removed: via condor_rm", 1, 4)),
        (
            [submitted("A", 1, 10), an_event(5, 1, 14, TerminatedNormally=False, TerminatedBySignal=9)],
            NodePast("failed", "signal 9", 1, 4),
        ),
        (
            [submitted("A", 1, 10), submitted("A", 1, 10, 1), an_event(5, 1, 12, ReturnValue=0)],
            NodePast("running", runs=1),
        ),
        (
            [submitted("A", 1, 10), submitted("A", 1, 10, 1), an_event(5, 1, 12), an_event(5, 1, 13, 1)],
            NodePast("done", "", 1, 3),
        ),
        ([submitted("A", 1, 10), an_event(5, 1, 12, ReturnValue=3), submitted("A", 2, 20)], NodePast("running", runs=2)),
        ([submitted("OTHER", 1, 10), an_event(5, 1, 12)], NodePast("waiting")),
    ],
)  # fmt: skip
def test_events_of_a_nodes_jobs(events: list[dict[str, object]], expected: NodePast) -> None:
    assert look_back(a_dag("JOB A a\nRETRY A 1"), events=events) == [expected]


@pytest.mark.parametrize(("code", "state"), [(0, "done"), (2, "failed")])
def test_a_post_script_has_the_last_word_where_its_end_stands_before_its_jobs(code: int, state: str) -> None:
    # condor_dagman writes that of the script, the schedd that of the job.
    script = an_event(16, 1, 12, TerminatedNormally=True, ReturnValue=code)
    events = [submitted("A", 1, 10), script, an_event(5, 1, 12, ReturnValue=0)]
    (past,) = look_back(a_dag("JOB A a\nSCRIPT POST A p"), events=events)
    assert (past.state, past.seconds) == (state, 2)


def test_what_waits_for_a_failed_node_never_runs_unless_the_edge_is_weak() -> None:
    dag = a_dag("JOB A a\nJOB B a\nJOB C a\nJOB D a\nPARENT A CHILD B\nPARENT B CHILD C\nWEAK PARENT A CHILD D")
    past = look_back(dag, status=[{"Node": "A", "NodeStatus": 6, "StatusDetails": "PRE script failed with status 1"}])
    assert past[0] == NodePast("failed", "PRE script failed with status 1")
    assert past[1:] == [NodePast("never", "waits for A"), NodePast("never", "waits for A"), NodePast("waiting")]


def test_special_nodes_stand_outside_of_the_layers() -> None:
    dag = a_dag("SERVICE S a\nJOB A a\nJOB B a\nFINAL F a\nPARENT A CHILD B")
    assert of_layers(dag) == [[1], [2], [0, 3]]


def test_a_picture_shows_each_node_with_what_became_of_it_and_the_longest_way() -> None:
    dag = a_dag("JOB A a\nJOB B<&> a\nJOB C a\nPARENT A CHILD B<&> C")
    past = look_back(dag, rescue="# Nodes that failed: 1\n#   B<&>,<ENDLIST>\n")
    root = ElementTree.fromstring(svg(dag, past, critical_path(dag).nodes))
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["A: waiting", "B<&>: failed", "C: waiting"]
    lines = list(root.iter("{http://www.w3.org/2000/svg}line"))
    assert [line.get("stroke-width") for line in lines] == ["2", None]


def test_a_picture_of_many_nodes_is_one_of_layers() -> None:
    dag = a_dag("\n".join(f"JOB n{number} a" for number in range(NODES_MAX + 1)))
    drawn = svg(dag, [NodePast("done")] * 100 + [NodePast()] * (NODES_MAX - 99), ())
    assert "layer 1: 301 nodes" in drawn
    assert "100 done" in drawn
    assert drawn.count("<rect") == 4
