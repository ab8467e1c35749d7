"""Graphs from Python: what is written is what HTCondor's own htcondor.dags writes, and reads as was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minipool import Submit
from minipool import dag as dags
from pool.dag.language.reader import read
from pool.dag.model import Dag
from tests.pool.dag.cases import load


def everything() -> dags.DAG:
    dag = dags.DAG(
        jobstate_log="jobs.log",
        node_status_file=dags.NodeStatusFile("status", 30, True),
        dot_config=dags.DotConfig("x.dot", update=True, include_file="head"),
        dagman_job_attributes={"Note": 17},
        dagman_config={"DAGMAN_MAX_JOBS_IDLE": 10},
    )
    split = dag.layer(
        name="split",
        submit_description=Submit(executable="split.sh"),
        retries=2,
        retry_unless_exit=3,
        pre=dags.Script("pre.sh", ["$NODE", 4], retry=True, retry_status=7, retry_delay=30),
        post=dags.Script("post.sh"),
        pre_skip_exit_code=9,
    )
    work = split.child_layer(
        name="work",
        submit_description={"executable": "w"},
        vars=[{"n": str(n), "quote": 'a "b" \\'} for n in range(4)],
        noop={2: True},
        done={3: True},
        priority=5,
        category="big",
        dir="deep",
        abort=dags.DAGAbortCondition(3, 1),
    )
    work.child_layer(name="collect", vars=[{"k": "1"}, {"k": "2"}])
    dag.final(name="last", submit_description="executable = f\nqueue 1", post=dags.Script("done.sh", ["$DAG_STATUS"]))
    return dag


def two_layers(edge: dags.BaseEdge, parents: int, children: int) -> dags.DAG:
    dag = dags.DAG()
    dag.layer(name="a", vars=[{}] * parents).child_layer(edge=edge, name="b", vars=[{}] * children)
    return dag


def with_a_subdag() -> dags.DAG:
    dag = dags.DAG()
    dag.subdag(name="inner", dag_file="inner.dag", dir="there").child_layer(name="after")
    return dag


MADE = {
    "all": everything,
    "one": lambda: two_layers(dags.OneToOne(), 3, 3),
    "group": lambda: two_layers(dags.Grouper(2, 1), 4, 2),
    "slice": lambda: two_layers(dags.Slicer(slice(1, None, 2), slice(None, 2)), 6, 3),
    "many": lambda: two_layers(dags.ManyToMany(), 2, 3),
    "sub": with_a_subdag,
}
WRITTEN = {case.name: case.expected for case in load("written.cases")}


def test_every_sample_is_compared() -> None:
    assert MADE.keys() == WRITTEN.keys()


@pytest.mark.parametrize("name", MADE)
def test_what_is_written_is_what_htcondors_own_writes(name: str, tmp_path: Path) -> None:
    file = dags.write_dag(MADE[name](), tmp_path)
    assert file == tmp_path / "dagfile.dag"
    assert file.read_text().strip() == WRITTEN[name]


def read_back(dag: dags.DAG, directory: Path) -> Dag:
    return read([str(dags.write_dag(dag, directory))], lambda path: Path(path).read_text())


def test_what_is_written_is_read_as_was_meant(tmp_path: Path) -> None:
    dag = read_back(everything(), tmp_path)
    work = next(node for node in dag.nodes if node.name == "work:1")
    assert [variable[:2] for variable in work.variables] == [("n", "1"), ("quote", 'a "b" \\')]
    assert (work.priority, work.category, work.directory, work.abort_on) == (5, "big", "deep", (3, 1))
    (warning,) = dag.warnings
    assert warning.text.endswith("category big has no effect without MAXJOBS")


def test_what_was_added_to_a_submit_file_comes_before_its_queue(tmp_path: Path) -> None:
    (tmp_path / "job.sub").write_text("executable = x\nqueue 2\n")
    dag = dags.DAG()
    dag.layer(name="a", submit_description=Submit.read(str(tmp_path / "job.sub"), priority=3))
    dag.layer(name="b", submit_description=Submit(executable="y", queue=5))
    dags.write_dag(dag, tmp_path)
    assert (tmp_path / "a.sub").read_text() == "executable = x\npriority = 3\nqueue 2\n"
    assert (tmp_path / "b.sub").read_text() == "executable = y\nqueue 5\n"


def test_the_files_beside_it(tmp_path: Path) -> None:
    dags.write_dag(everything(), tmp_path)
    assert (tmp_path / "split.sub").read_text() == "executable = split.sh\nqueue\n"
    assert (tmp_path / "last.sub").read_text() == "executable = f\nqueue 1\n"
    assert (tmp_path / "dagman.config").read_text() == "DAGMAN_MAX_JOBS_IDLE = 10"
    assert (tmp_path / "__JOIN__.sub").read_text() == ""


def test_paths_with_blanks_limits_hold_scripts_and_weak_edges_are_read_back(tmp_path: Path) -> None:
    dag = dags.DAG(max_jobs_by_category={"big": 2})
    first = dag.layer(
        name="a", submit_description=tmp_path / "my job.sub", dir="some dir", hold=dags.Script("held.sh"), noop=True,
        vars=[{}, {}],
    )  # fmt: skip
    first.child_layer(edge=dags.OneToOne(weak=True), name="b", vars=[{}, {}])
    found = read_back(dag, tmp_path)
    node = found.nodes[1]
    assert (node.submit, node.directory, node.noop) == (str(tmp_path / "my job.sub"), "some dir", True)
    assert node.hold is not None
    assert node.hold.executable == "held.sh"
    assert found.categories == (("big", 2),)
    assert (found.children[0], found.weak[0]) == ((), (2,))


def test_globs_and_walks() -> None:
    dag = dags.DAG()
    fits = [dag.layer(name=f"fit_{n}") for n in range(3)]
    plot = dag.layer(name="plot")
    dag.glob("fit_*").add_children(plot)
    tail = plot.child_layer(name="tail")
    fits[0].remove_children(plot)
    assert (plot.parents, plot.children) == (dags.Nodes(fits[1], fits[2]), dags.Nodes(tail))
    assert (dag.roots, dag.leaves) == (dags.Nodes(*fits), dags.Nodes(fits[0], tail))
    assert [node.name for node in dag.walk(dags.WalkOrder.BREADTH_FIRST)] == ["fit_0", "fit_1", "fit_2", "plot", "tail"]
    assert [node.name for node in dag.walk()][:3] == ["fit_2", "plot", "tail"]
    assert {node.name for node in tail.walk_ancestors()} == {"fit_1", "fit_2", "plot"}
    assert [node.name for node in fits[1].walk_descendants()] == ["plot", "tail"]
    assert plot in dag
    assert "fit_1" in dag
    assert "fit_1[ManyToMany], fit_2[ManyToMany]" in dag.describe()


def test_a_rescue_file_says_which_nodes_are_done(tmp_path: Path) -> None:
    dag = two_layers(dags.OneToOne(), 3, 3)
    with pytest.raises(dags.exceptions.NoRescueFileFound):
        dags.find_rescue_file(tmp_path)
    (tmp_path / "dagfile.dag.rescue001").write_text("DONE a:0\n")
    (tmp_path / "dagfile.dag.rescue002").write_text("# a comment\n\nDONE a:0\nDONE a:2\nRETRY b:1 2\n")
    dags.rescue(dag, dags.find_rescue_file(tmp_path))
    assert [node.name for node in read_back(dag, tmp_path).nodes if node.done] == ["a:0", "a:2"]


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        (lambda d: (d.layer(name="a"), d.layer(name="a")), "DuplicateNodeName", "the DAG has a node named a already"),
        (lambda d: d.layer(name="a:b"), "LayerNameContainsSeparator", "a:b holds the separator :"),
        (
            lambda d: d.layer(name="a").child_layer(dags.OneToOne(), name="b", vars=[{}, {}]),
            "OneToOneEdgeNeedsSameNumberOfVars",
            "a) has 1 nodes and NodeLayer(name = b) 2",
        ),
        (
            lambda d: d.layer(name="a", vars=[{}] * 3).child_layer(dags.Grouper(2), name="b"),
            "IncompatibleGrouper",
            "expected a multiple of 2",
        ),
        (
            lambda d: d.layer(name="a", vars=[{}] * 4).child_layer(dags.Grouper(2), name="b"),
            "IncompatibleGrouper",
            "has 2 groups and",
        ),
        (lambda d: [*d.walk("sideways")], "UnrecognizedWalkOrder", "sideways is not an order"),
    ],
)
def test_what_cannot_be_is_refused(what: Any, error: str, said: str, tmp_path: Path) -> None:
    dag = dags.DAG()

    def make() -> None:
        what(dag)
        dags.write_dag(dag, tmp_path)

    with pytest.raises(getattr(dags.exceptions, error)) as caught:
        make()
    assert said in str(caught.value)


def test_a_node_name_that_does_not_tell_its_number_is_refused() -> None:
    with pytest.raises(dags.exceptions.CannotInvertFormat):
        dags.SimpleFormatter(index_format="{:d}x").generate("a", 1)
    assert dags.SimpleFormatter("-", "{:03d}", offset=1).generate("a", 1) == "a-002"
