"""Join nodes: where many nodes wait for many, one without a job stands between them."""

from __future__ import annotations

import pytest

from pool.dag.figures import statistics
from pool.dag.language.errors import DagError
from pool.dag.language.reader import Options, read
from pool.dag.model import Dag
from tests.pool.dag.cases import reader

SIX = "".join(f"JOB {name} d\n" for name in "ABCDEF")
JOINS = Options(joins=True)


def edges(dag: Dag, *, weak: bool = False) -> list[str]:
    names = [node.name for node in dag.nodes]
    kept = dag.weak if weak else dag.children
    return [f"{names[parent]}>{names[child]}" for parent, below in enumerate(kept) for child in below]


def a_dag(text: str, options: Options = JOINS, **files: str) -> Dag:
    return read(["x.dag"], reader({"x.dag": text, **{f"{name}.dag": text for name, text in files.items()}}), options)


def test_only_edges_of_many_to_many_are_joined_and_joins_are_numbered_over_all_files() -> None:
    dag = a_dag(f"{SIX}PARENT A B CHILD C D\nPARENT C CHILD E F\nPARENT C D CHILD E\nPARENT C D CHILD E F\n")
    assert edges(dag) == [
        *("A>_condor_join_node0", "B>_condor_join_node0", "C>E", "C>F", "C>_condor_join_node1"),
        *("D>E", "D>_condor_join_node1", "_condor_join_node0>C", "_condor_join_node0>D"),
        *("_condor_join_node1>E", "_condor_join_node1>F"),
    ]
    join = dag.nodes[6]
    assert (join.name, join.kind, join.noop, join.submit, str(join.place)) == (
        *("_condor_join_node0", "JOB", True, "DNE.sub", "x.dag:7"),
    )


def test_without_them_every_child_waits_for_every_parent() -> None:
    assert len(edges(a_dag(f"{SIX}PARENT A B C CHILD D E F\n", Options()))) == 9


def test_a_weak_edge_is_weak_up_to_the_join_node() -> None:
    dag = a_dag(f"{SIX}WEAK PARENT A B CHILD C D\n")
    assert edges(dag, weak=True) == ["A>_condor_join_node0", "B>_condor_join_node0"]
    assert edges(dag) == ["_condor_join_node0>C", "_condor_join_node0>D"]


def test_splices_have_theirs_and_are_joined_as_the_nodes_that_they_stand_for() -> None:
    inner = "".join(f"JOB {name} d\n" for name in "XYZW") + "PARENT X Y CHILD Z W\n"
    dag = a_dag("SPLICE S inner.dag\nSPLICE T inner.dag\nPARENT S CHILD T\n", inner=inner)
    joins = [node.name for node in dag.nodes if node.noop]
    assert joins == ["_condor_join_node2", "S+_condor_join_node0", "T+_condor_join_node1"]
    assert {"S+Z>_condor_join_node2", "_condor_join_node2>T+X"} <= set(edges(dag))


def test_commands_for_all_nodes_are_not_for_them() -> None:
    dag = a_dag(f"{SIX}PARENT A B CHILD C D\nRETRY ALL_NODES 3\nSCRIPT PRE ALL_NODES pre\n")
    assert [node.retry.times for node in dag.nodes] == [3] * 6 + [0]
    assert dag.nodes[6].pre is None


def test_a_rescue_file_that_names_them_is_read_with_and_without_them() -> None:
    files = reader({"x.dag": f"{SIX}PARENT A B CHILD C D\n", "r": "DONE A\nDONE B\nDONE _condor_join_node0\n"})
    assert [node.done for node in read(["x.dag"], files, JOINS, rescue="r").nodes] == [True] * 2 + [False] * 4 + [True]
    assert [node.done for node in read(["x.dag"], files, rescue="r").nodes] == [True] * 2 + [False] * 4


def test_a_node_that_is_called_so_is_in_the_way() -> None:
    with pytest.raises(DagError, match=r"_condor_join_node0 is what a join node of this line is called"):
        a_dag(f"{SIX}JOB _condor_join_node0 d\nPARENT A B CHILD C D\n")


def test_they_are_counted_apart_from_nodes() -> None:
    figures = statistics(a_dag(f"{SIX}PARENT A B C CHILD D E F\n"))
    assert " ".join(f"{name}={figure}" for name, figure in figures.items()) == (
        "GraphHeight=3 GraphWidth=3 NumArcs=6 NumJoinNodes=1 NumNodes=6 TotalNodes=7 WidthByDepth=[3, 1, 3]"
    )
