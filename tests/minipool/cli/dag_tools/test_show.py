"""pool dag show: what is printed and written, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minipool.cli.dag_tools.dag import main
from tests.pool.dag.cases import CASES


def test_the_layers_the_longest_way_and_what_failed_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CASES / "ran")
    assert main("dag", ["show", "preskip.dag"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "preskip.dag: 4 nodes in 2 layers",
        "Longest way: A -> B (5 s)",
        "",
        "LAYER  NODES     DONE  FAILED  NAMES",
        "    1      2        2          A D",
        "    2      2        1       1  B C",
        "",
        "Failed:",
        "    B (preskip.dag:4): POST script: exit code 1; run 3 of 3",
    ]


def test_json_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CASES / "ran")
    assert main("dag", ["show", "final.dag", "-json", "-svg", str(tmp_path / "x.svg")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(node["name"], node["state"], node["why"]) for node in told["nodes"]] == [
        ("A", "done", ""),
        ("B", "failed", "exit code 4"),
        ("F", "done", ""),
    ]
    assert told["critical_path"] == ["A", "B"]
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


def test_the_newest_rescue_file_counts_and_the_status_file_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.dag").write_text("JOB A a\nJOB B b\nPARENT A CHILD B\nNODE_STATUS_FILE status\nFINAL F f\n")
    Path("x.dag.rescue001").write_text("DONE B\n")
    Path("x.dag.rescue002").write_text("# Nodes that failed: 1\n#   A,<ENDLIST>\n")
    Path("status").write_text('[ Type = "NodeStatus"; Node = "A"; NodeStatus = 6; StatusDetails = "PRE failed"; ]\n')
    assert main("dag", ["show", "x.dag"]) == 0
    said = capsys.readouterr().out
    assert "    A (x.dag:1): PRE failed; 1 node will not run" in said
    assert "    -      1                        1  F (FINAL)" in said


def test_why_a_node_could_not_be_submitted_is_read_from_the_last_list_of_dagmans_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.dag").write_text("JOB A a\nJOB B b\nJOB C c\n")
    Path("x.dag.rescue001").write_text("# Nodes that failed: 2\n#   A,B,<ENDLIST>\n")

    def shown(**errors: str) -> str:
        lines = ["ERROR: the following job(s) failed:"]
        for name, error in errors.items():
            lines += [
                "------ Node ------",
                f"      Node Name: {name}",
                f"          Error: {error}",
                "PARENTS:  CHILDREN: ",
            ]
        return "".join(f"11/29/26 07:21:33 {line}\n" for line in lines)

    Path("x.dag.dagman.out").write_text(shown(A="old", C="of an earlier run") + shown(A="Failed to open a", B="Other"))
    assert main("dag", ["show", "x.dag"]) == 0
    said = capsys.readouterr().out
    assert "    A (x.dag:1): Failed to open a\n    B (x.dag:2): Other\n" in said
    assert "earlier run" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("JOB A a\nPARENT A CHILD A\n", "x.dag:2: these nodes wait for one another: A -> A"),
        ("JOBS A a\n", "x.dag:1:1: JOBS is not a command of DAG files (did you mean JOB?)"),
    ],
)
def test_what_is_wrong_with_a_graph_is_told(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.dag").write_text(text)
    assert main("dag", ["show", "x.dag"]) == 1
    assert said in capsys.readouterr().err


def test_files_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main("dag", ["show", "x.dag"]) == 1
    assert "x.dag cannot be read: No such file or directory" in capsys.readouterr().err
    Path("x.dag").write_text("JOB A a\n")
    assert main("dag", ["show", "x.dag", "-log", "none"]) == 1
    assert "none cannot be read" in capsys.readouterr().err
    assert main("dag", ["show"]) == 1
    assert "Give the DAG file" in capsys.readouterr().err


def test_its_verbs_are_listed_and_others_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("dag", []) == 0
    assert "show" in capsys.readouterr().out
    assert main("dag", ["shwo"]) == 1
    assert "shwo is not one of its verbs" in capsys.readouterr().err
