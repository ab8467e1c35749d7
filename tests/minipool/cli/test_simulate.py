"""pool simulate: what is written for two policies, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minipool.cli.pool_tools.simulate import main
from tests.pool.simulate.test_simulate import a_job, a_machine


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "config").write_text("")
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    Path("history").write_text("".join(a_job(number, "ann", AccountingGroup='"physics.ann"') for number in (1, 2)))
    Path("machines").write_text(a_machine("a", 2))
    return ["--history", "history", "--machines", "machines"]


def test_two_policies_are_compared(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    second = ["-against", "-c", "GROUP_NAMES=physics", "-c", "GROUP_QUOTA_physics=1", "-c", "CLAIM_WORKLIFE=0"]
    assert main("simulate", [*files, *second, "--json", "-svg", "both.svg"]) == 0
    usual, bounded = json.loads(capsys.readouterr().out)
    assert (usual["policy"], usual["waits"]["max"]) == ("as configured", 0)
    assert bounded["waits"] == {"mean": 50, "p50": 0, "p90": 100, "max": 100}
    assert Path("both.svg").read_text().count("<polyline") == 2


def test_the_text_has_a_line_for_each_user(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main("simulate", files) == 0
    said = capsys.readouterr().out
    assert "physics.ann@here                   2  100.0%" in said
    assert "Left out" not in said


def test_the_text_says_how_many_jobs_are_left_out(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with open("history", "a") as history:
        history.write(a_job(3, "ann", runs=0, JobStatus=3) + a_job(4, "ann", JobUniverse=7))
    assert main("simulate", files) == 0
    assert "\nLeft out: 1 that never ran, 1 that take no slot.\n" in capsys.readouterr().out


def test_preemption_that_is_configured_is_told_to_be_passed_over(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_CONDOR_PREEMPTION_REQUIREMENTS", "true")
    assert main("simulate", [*files, "-against", "-c", "PRIORITY_HALFLIFE=60"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "PREEMPTION_REQUIREMENTS" in line] == [
        "<Environment>: PREEMPTION_REQUIREMENTS is passed over: jobs that run are not moved aside in a simulation"
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-c", "NO_SUCH_KNOB=1"], "-c NO_SUCH_KNOB=1: there is no knob NO_SUCH_KNOB"),
        (["-c", "PRIORITY_HALFLIFE"], "-c PRIORITY_HALFLIFE is no assignment"),
        (["-c", "PREEMPTION_REQUIREMENTS=true"], "jobs that run are not moved aside in a simulation"),
        (["-svg", "x.png"], "x.png: pictures are SVG, not PNG"),
        (["-machines", "nowhere"], "cannot read nowhere: No such file"),
        (["-against", "-against"], "-against can be given once"),
    ],
)
def test_what_makes_no_sense_is_refused(
    files: list[str], capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert main("simulate", [*files, *more]) == 1
    assert said in capsys.readouterr().err
