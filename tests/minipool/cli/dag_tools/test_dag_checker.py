"""condor_dag_checker: its words, its figures, and what it looks at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minipool.cli.dag_tools.dag_checker import main

FILES = {
    "x.dag": "JOB A n.sub\nJOB B n.sub\nJOB C n.sub\nJOB D n.sub\nPARENT A CHILD B C\nPARENT B C CHILD D\n",
    "bad.dag": "JOB A n.sub\nPARENT A CHILD B\nJOBB C\nJOB D n.sub\nRETRY D many\n",
    "circle.dag": "JOB A n.sub\nJOB B n.sub\nPARENT A CHILD B\nPARENT B CHILD A\n",
    "big.dag": "JOB A n.sub\nJOB B nosuch.sub\nSUBDAG EXTERNAL S sub.dag\nSCRIPT PRE A nosuch.sh\nFINAL F n.sub\n"
    "SPLICE P y.dag\nPARENT A CHILD B S\nPARENT B S CHILD P\n",
    "y.dag": "JOB Y n.sub\nJOB Z n.sub\n",
    "n.sub": "executable = /bin/true\nqueue\n",
    "wrong.sub": "queue\n",
    "wrong.dag": "JOB A wrong.sub\nJOB B {\nexecutable = $(name)\nqueue\n}\nVARS B name=/bin/true\n",
    "outer.dag": "SUBDAG EXTERNAL S inner.dag DIR d\n",
    "d/inner.dag": "SUBDAG EXTERNAL T ../bad.dag\nSUBDAG EXTERNAL U inner.dag\n",
    "rejected.dag": "JOB A n.sub\nREJECT\n",
    "plus.dag": "JOB A+B n.sub\n",
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with some graphs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONDOR_CONFIG", "ONLY_ENV")
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


def test_a_graph_without_a_fault_is_passed_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["x.dag", "y.dag"]) == 0
    assert capsys.readouterr() == ("", "")


def test_all_faults_are_told_with_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["x.dag", "bad.dag"]) == 1
    first, *issues = capsys.readouterr().out.rstrip("\n").split("\n")
    assert first == "Detected 3 issues in bad.dag:"
    assert sorted(issue.split()[1] for issue in issues) == ["bad.dag:2", "bad.dag:3", "bad.dag:5"]
    assert all(issue.startswith("\t* ") for issue in issues)


def test_a_circle_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["circle.dag"]) == 1
    said = capsys.readouterr().out
    assert said == "Detected 1 issue in circle.dag:\n\t* circle.dag:1 Cycle detected: A -> B -> A\n\n"


def test_the_figures_are_those_of_htcondor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["-stat", "-nojoin", "x.dag", "big.dag"]) == 0
    assert capsys.readouterr().out == (
        "=== x.dag statistics ===\nGraphHeight = 3\nGraphWidth = 2\nNumArcs = 4\nNumNodes = 4\nTotalNodes = 4\n"
        "WidthByDepth = { 1,2,1 }\n\n"
        '=== big.dag statistics ===\nFinalNode = "F"\nGraphHeight = 3\nGraphWidth = 2\nNumArcs = 6\nNumNodes = 4\n'
        "NumSplices = 1\nNumSubDAGs = 1\nTotalNodes = 6\nWidthByDepth = { 1,2,2 }\n\n"
    )


def test_json_has_figures_and_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["-json", "y.dag", "circle.dag"]) == 1
    fine, wrong = json.loads(capsys.readouterr().out)
    assert fine == {
        "DagFile": "y.dag", "GraphHeight": 1, "GraphWidth": 2, "NumNodes": 2, "TotalNodes": 2, "WidthByDepth": [2]
    }  # fmt: skip
    assert wrong["NumErrors"] == 1
    assert wrong["Errors"] == [{"Reason": "Cycle detected: A -> B -> A", "SourceFile": "circle.dag", "SourceLine": 1}]
    assert wrong["IsCyclic"] is True


AROUND = {
    "-checkjdl": [],
    "-checksub": [],
    "-checkscr": ["big.dag:4 the PRE script nosuch.sh of A is not there"],
    "-checkjdl -strict": ["big.dag:2 the description nosuch.sub of B is not there"],
    "-checksub -strict": ["big.dag:3 the nested graph sub.dag of S is not there"],
    "-checkext -strict": [
        "big.dag:4 the PRE script nosuch.sh of A is not there",
        "big.dag:2 the description nosuch.sub of B is not there",
        "big.dag:3 the nested graph sub.dag of S is not there",
    ],
}


@pytest.mark.parametrize("options", AROUND)
def test_files_of_nodes_are_looked_for(capsys: pytest.CaptureFixture[str], options: str) -> None:
    wanted = AROUND[options]
    assert main("dag_checker", [*options.split(), "big.dag"]) == int(bool(wanted))
    said = [line.removeprefix("\t* ") for line in capsys.readouterr().out.split("\n") if line.startswith("\t")]
    assert said == wanted


def test_descriptions_are_read_with_the_variables_of_their_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["-checkjdl", "wrong.dag"]) == 1
    said = capsys.readouterr().out
    assert "Detected 1 issue in wrong.dag:\n\t* wrong.dag:1 condor_submit refuses the description of A: " in said


def test_nested_graphs_are_checked_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["-checksub", "outer.dag"]) == 1
    said = capsys.readouterr().out
    assert said.count("\t* d/../bad.dag:") == 3
    assert "\t* d/inner.dag:2 the nested graph inner.dag of U is within itself\n" in said


def test_each_file_may_be_read_in_its_own_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["-usedag", "-checksub", "-strict", "d/inner.dag"]) == 1
    assert "\t* ../bad.dag:3 " in capsys.readouterr().out


def test_a_graph_that_is_rejected_is_no_good(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["rejected.dag"]) == 1
    assert "\t* rejected.dag:2 REJECT" in capsys.readouterr().out


def test_odd_names_pass_where_they_are_allowed() -> None:
    assert main("dag_checker", ["plus.dag"]) == 1
    assert main("dag_checker", ["-allow", "plus.dag"]) == 0


def test_a_file_that_is_not_there_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", ["nosuch.dag"]) == 1
    assert capsys.readouterr().out.startswith("Detected 1 issue in nosuch.dag:\n\t* nosuch.dag:0 ")


def test_a_wrong_command_line_has_a_status_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag_checker", []) == 2
    assert main("dag_checker", ["-zork", "x.dag"]) == 2
    assert capsys.readouterr().err.startswith("ERROR: No DAG file(s) provided for linting.\n")


def test_join_nodes_are_counted_unless_they_are_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.dag").write_text("".join(f"JOB {name} d\n" for name in "ABCDEF") + "PARENT A B C CHILD D E F\n")
    for options, arcs in (([], 6), (["-NoJoinNodes"], 9), (["-NoJoinNodes", "-JoinNodes"], 6)):
        assert main("dag_checker", ["-stat", *options, "x.dag"]) == 0
        said = capsys.readouterr().out
        assert f"NumArcs = {arcs}\n" in said
        assert ("NumJoinNodes = 1\n" in said) == (arcs == 6)
