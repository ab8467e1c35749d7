"""A halt file, and a PROVISIONER that says that it is ready: what condor_dagman's log then says, HTCondor's and ours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pool.dag.course import happenings as it
from pool.dag.course.states import DagStatus, ExitCode, Limits, Settings
from pool.dag.files.rescue import rescue_lines
from tests.pool.dag.cases import CASES
from tests.pool.dag.course.played import Played, course_of
from tests.pool.dag.recorded import without_time

LIMITS = Limits(idle=1000, pre=20, post=20, hold=20)
# From the daemon's own life, from its loop, and from what performs the course's effects; a table's lines.
NOT_THE_COURSES = re.compile(
    r"Submitting node|Just submitted|DAG status|Of \d+ nodes|.*===|.*Un-Ready|(\s*\d+){8}$|.*currently held|"
    r"DAGMan Runtime|Currently monitoring|Reassigning|Event: |Number of idle|Initializing user log|Registering|"
    r"Writing Rescue|Removing any/all|Running: /|Wrote metrics|\*\*\*\*|MultiLogFiles"
)


def real(name: str) -> list[str]:
    """What HTCondor's log says from the first line on that the course decides."""
    lines = [line[18:] for line in (CASES / name / "x.dag.dagman.out").read_text().splitlines()]
    begin = next(at for at, line in enumerate(lines) if line.startswith("MultiLogFiles"))
    return [line for line in lines[begin:] if not NOT_THE_COURSES.match(line)]


def played(name: str, events: Sequence[it.Event]) -> Played:
    text = (CASES / name / "x.dag").read_text()
    found = Played(course_of(text, Settings(limits=LIMITS)))
    found.begin()
    for event in events:
        found.happens(event)
    return found


def notes(lines: Sequence[str]) -> set[str]:
    return {line for line in lines if line.startswith("Note: ")}


def others(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not line.startswith("Note: ")]


def test_a_halt_file_lets_what_runs_end_and_what_comes_after_it_wait() -> None:
    a, b, c = range(3)
    found = played(
        "halt",
        [
            *(it.Submitted(a, 9, 1), it.Submitted(c, 10, 1), it.JobRuns(a, 9, 0), it.JobRuns(c, 10, 0), it.Halt()),
            *(it.JobEnded(a, 9, 0, 0), it.JobEnded(c, 10, 0, 1), it.ScriptEnded(a, "POST", 0)),
        ],
    )
    assert found.finished == it.Finish(ExitCode.ERROR, DagStatus.HALTED)
    assert f"PRE {b}" not in found.ran
    said = [line for line in found.said if line != "DAG is halted because halt file exists"]  # HTCondor's is silent
    assert sorted(others(said)) == sorted(others(real("halt")))
    assert notes(said) == notes(real("halt"))
    assert without_time("".join(rescue_lines(found.course, 0))) == without_time(
        (CASES / "halt" / "x.dag.rescue001").read_text()
    )


def test_all_nodes_wait_for_the_provisioners_word() -> None:
    a, p = range(2)
    found = played("prov", [it.Submitted(p, 8, 1), it.JobRuns(p, 8, 0)])
    assert found.ran == ["P"]
    for event in (
        *(it.ProvisionerReady(), it.Submitted(a, 11, 1), it.JobRuns(a, 11, 0), it.JobEnded(a, 11, 0, 0)),
        it.JobEnded(p, 8, 0, 0),
    ):
        found.happens(event)
    assert found.ran == ["P", "A"]
    assert found.finished == it.Finish(ExitCode.OKAY, DagStatus.OK)
    assert found.said == real("prov")
