"""The nodes' log: what is written to it here, and what it tells a recovery."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minipool.dagman.nodes_log import NodesLog, Replay, name_of
from pool.dag.course import happenings as it
from pool.dag.course.states import LIMIT_LOWERED
from pool.dag.language.reader import read
from pool.jobs.userlog.reader import EventReader

DAG = "JOB A n.sub\nJOB B n.sub\nJOB C n.sub NOOP\nJOB D n.sub\n"
JOBS = """000 (002.000.000) 2026-11-22 19:00:33 Job submitted from host: <127.0.0.1:9618>
    [ DAGNodeName = "A"; JobBatchName = "x.dag+1" ]
...
000 (002.001.000) 2026-11-22 19:00:33 Job submitted from host: <127.0.0.1:9618>
    [ DAGNodeName = "A"; JobBatchName = "x.dag+1" ]
...
001 (002.000.000) 2026-11-22 19:00:34 Job executing on host: <127.0.0.1:9618>
...
005 (002.000.000) 2026-11-22 19:00:34 Job terminated.
\t(1) Normal termination (return value 3)
...
005 (002.001.000) 2026-11-22 19:00:34 Job terminated.
\t(0) Abnormal termination (signal 9)
\t(0) No core file
...
009 (077.000.000) 2026-11-22 19:00:34 Job was aborted.
...
"""


def replayed(log: NodesLog) -> list[tuple[str, it.Event]]:
    replay = Replay(read(["x.dag"], {"x.dag": DAG}.__getitem__))
    return [(type(one).__name__, one) for logged in log.events() for one in replay.events(logged)]


def test_the_jobs_of_nodes_are_told_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "x.dag.nodes.log"
    path.write_text(JOBS)
    assert replayed(NodesLog(str(path))) == [
        ("Submitted", it.Submitted(0, 2, 1)),
        ("JobMade", it.JobMade(0, 2, 1)),
        ("JobRuns", it.JobRuns(0, 2, 0)),
        ("JobEnded", it.JobEnded(0, 2, 0, 3)),
        ("JobEnded", it.JobEnded(0, 2, 1, None, 9)),
    ]


@pytest.mark.parametrize(
    ("note", "name"),
    [
        ('[ DAGNodeName = "A"; JobBatchName = "x.dag+1" ]', "A"),
        ('[ DAGNodeName = "A" ]', "A"),
        (r'[ DAGNodeName = "A\"B"; JobBatchName = "x" ]', 'A"B'),
        (r'[ Own = "DAGNodeName = \"B\""; DAGNodeName = "A" ]', "A"),
        ("DAG Node: A", "A"),
        ('[ JobBatchName = "x.dag+1" ]', ""),
        ("A", ""),
    ],
)
def test_the_nodes_name_is_found_in_every_form_of_note(note: str, name: str) -> None:
    (logged,) = EventReader().feed(
        f"000 (002.000.000) 2026-11-22 19:00:33 Job submitted from host: <>\n    {note}\n...\n"
    )
    assert name_of(logged) == name


def test_a_job_that_a_lowered_limit_removed_is_known_for_that(tmp_path: Path) -> None:
    path = tmp_path / "x.dag.nodes.log"
    at = "2026-11-22 19:00:35 Job was aborted."
    path.write_text(f"{JOBS}009 (002.002.000) {at}\n\t{LIMIT_LOWERED}\n...\n009 (002.003.000) {at}\n\tOther\n...\n")
    ended = [one for _, one in replayed(NodesLog(str(path)))][-2:]
    assert ended == [it.JobEnded(0, 2, 2, beyond_limit=True), it.JobEnded(0, 2, 3)]


def test_a_post_script_whose_end_stands_before_that_of_its_nodes_jobs_ended_after_them(tmp_path: Path) -> None:
    path = tmp_path / "x.dag.nodes.log"
    first, *others = JOBS.split("005 (")
    path.write_text(first)
    NodesLog(str(path)).post_ended("A", 2, 0)
    with open(path, "a") as file:
        file.write("".join(f"005 ({other}" for other in others))
    assert [one for _, one in replayed(NodesLog(str(path)))][3:] == [
        it.JobEnded(0, 2, 0, 3),
        it.JobEnded(0, 2, 1, None, 9),
        it.ScriptEnded(0, "POST", 0),
    ]


def test_what_is_no_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = NodesLog(str(tmp_path / "x.dag.nodes.log"))
    log.truncate()
    log.skipped("B")
    log.noop("C")
    log.post_ended("D", 12, 4)
    log.post_ended("D", 13, -9)
    assert replayed(log) == [
        ("WasSkipped", it.WasSkipped(1)),
        ("Submitted", it.Submitted(2, 0, 1)),
        ("JobEnded", it.JobEnded(2, 0, 0, 0)),
        ("ScriptEnded", it.ScriptEnded(3, "POST", 4)),
        ("ScriptEnded", it.ScriptEnded(3, "POST", -9)),
    ]


def test_they_look_as_condor_dagman_writes_them(tmp_path: Path) -> None:
    log = NodesLog(str(tmp_path / "x.dag.nodes.log"))
    log.skipped("A")
    log.post_ended("B", 17, 1)
    lines = [re.sub(r"\) 20\S+ \S+ ", ") ", line) for line in Path(log.path).read_text().splitlines()]
    assert lines == [
        "034 (000.2147483647.001) PRE script return value is PRE_SKIP value",
        "    DAG Node: A",
        "...",
        "016 (017.000.000) POST Script terminated.",
        "\t(1) Normal termination (return value 1)",
        "    DAG Node: B",
        "...",
    ]
