"""What condor_dagman makes of its configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from minipool.dagman.arguments import parse
from minipool.dagman.configured import SHOWN, bounds, complaints, configuration, paths, settings_text
from minipool.dagman.cycle_times import Statistics
from minipool.dagman.dagman_out import DagmanOut
from minipool.dagman.main import _refused
from minipool.dagman.own_job import OwnJob
from pool.base.errors import ConfigError
from pool.classad import ClassAd, parse_ad
from pool.config import load_config
from pool.config.knobs import find
from pool.dag.course.course import Course, S
from pool.dag.course.happenings import NewLimits
from pool.dag.course.states import JobFigures, Limits
from pool.dag.files.metrics import RunFacts, metrics_text
from pool.dag.language.reader import read
from pool.dag.model import Dag
from tests.pool.dag.cases import CASES, reader


def a_dag(text: str) -> Dag:
    return read(["x.dag"], reader({"x.dag": text}))


def test_a_limit_is_no_higher_than_its_bound_and_no_limit_is_the_highest() -> None:
    most = Limits(jobs=0, idle=1000, pre=20, post=20, hold=20)
    assert Limits(5000, 5000, 7, 0, 20).within(most) == Limits(5000, 1000, 7, 20, 20)


def test_a_graphs_own_configuration_cannot_raise_what_the_administrators_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host").write_text("DAGMAN_MAX_JOBS_IDLE = 10\n")
    (tmp_path / "own").write_text("DAGMAN_MAX_JOBS_IDLE = 50\nDAGMAN_MAX_JOBS_SUBMITTED = 5\n")
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "host"))
    monkeypatch.setenv("_CONDOR_DAGMAN_CONFIG_FILE", str(tmp_path / "own"))
    config = configuration()
    assert config.int("DAGMAN_MAX_JOBS_IDLE") == 50
    assert bounds(config)[:2] == (0, 10)
    (tmp_path / "host").write_text("DAGMAN_MAX_JOBS_IDLE = 10\nDAGMAN_DISABLE_ADMIN_THROTTLE_LIMITING = true\n")
    assert bounds(configuration()) == Limits()


def test_a_limit_that_is_edited_while_the_graph_runs_is_bound_as_well() -> None:
    job = OwnJob(None, None, ClassAd())  # type: ignore[arg-type]  # a schedd that nothing is asked of
    job.bounds = Limits(jobs=8)
    assert job.told(ClassAd({"DAGMan_MaxJobs": 50}), Limits(jobs=3)) == [NewLimits(Limits(jobs=8))]
    assert job.told(ClassAd({"DAGMan_MaxJobs": 50}), Limits(jobs=8)) == []
    assert job.told(ClassAd({"DAGMan_MaxJobs": -1}), Limits(jobs=8)) == []


def test_a_limit_that_is_edited_is_told_and_a_value_that_is_none_is_too_but_once() -> None:
    job = OwnJob(None, None, ClassAd(), Limits(jobs=8))  # type: ignore[arg-type]  # a schedd that nothing is asked of
    now = Limits(jobs=3, idle=5)
    ad = ClassAd({"DAGMan_MaxJobs": 50, "DAGMan_MaxIdle": "many", "DAGMan_MaxPreScripts": -1})
    assert list(job.told_lines(ad, now)) == [
        "DAGMan_MaxJobs is 8 now, and was 3",
        'Warning: DAGMan_MaxIdle stays 5: "many" is not a limit (expected a whole number from 0 up)',
        "Warning: DAGMan_MaxPreScripts stays 0: -1 is not a limit (expected a whole number from 0 up)",
    ]
    assert job.told(ad, now) == [NewLimits(Limits(jobs=8, idle=5))]
    assert list(job.told_lines(ad, Limits(jobs=8, idle=5))) == []


def test_the_log_has_a_line_for_each_knob_as_htcondors_has() -> None:
    lines = list(settings_text(load_config([], environ={})))
    assert lines[:2] == ["DAGMAN_USE_STRICT setting: 1", "DAGMAN_VERBOSITY setting: 3"]
    assert "DAGMAN_MAX_JOBS_IDLE setting: 1000" in lines
    assert "DAGMAN_USE_JOIN_NODES setting: True" in lines
    assert "DAGMAN_DEFAULT_NODE_LOG setting: @(DAG_DIR)/@(DAG_FILE).nodes.log" in lines
    assert all((knob := find(name)) is not None and knob.has_effect for name in SHOWN)


@pytest.mark.parametrize(
    ("setting", "text", "said"),
    [
        ("DAGMAN_USE_STRICT = 3", "JOB A a\nPRIORITY A 1\nPRIORITY A 2\n", "Warning is fatal error because of"),
        ("DAGMAN_USE_STRICT = 2", "JOB A a\nPRIORITY A 1\nPRIORITY A 2\n", "x.dag:3: A has a priority already"),
        ("DAGMAN_USE_STRICT = 1", "JOB A a\nPRIORITY A 1\nPRIORITY A 2\n", None),
        ("DAGMAN_USE_STRICT = 2", "JOB A a\nCATEGORY A c\n", "x.dag:2: category c has no effect without MAXJOBS"),
        ("DAGMAN_USE_STRICT = 2", "JOB A a\nMAXJOBS c 2\n", "x.dag:2: MAXJOBS c has no effect"),
        ("DAGMAN_USE_STRICT = 2", "JOB A a\nCATEGORY A c\nMAXJOBS c 2\n", None),
        ("DAGMAN_USE_STRICT = 2", 'JOB A a\nVARS A a="1"\nVARS A a="2"\n', None),
        ("DAGMAN_USE_STRICT = 3", 'JOB A a\nVARS A a="1"\nVARS A a="2"\n', "x.dag:3: VARS a is defined already"),
        ("DAGMAN_USE_STRICT = 3", "JOB A a\n", None),
        ("DAGMAN_STARTUP_CYCLE_DETECT = true", "JOB A a\nJOB B b\nPARENT A CHILD B\nPARENT B CHILD A\n", "A -> B -> A"),
        ("", "JOB A a\nJOB B b\nPARENT A CHILD B\nPARENT B CHILD A\n", None),
    ],
)
def test_a_graph_may_be_refused_for_what_is_only_odd(setting: str, text: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(setting + "\n")
    found = _refused(load_config([str(tmp_path / "config")], environ={}), a_dag(text))
    assert found is None if said is None else said in (found or "")


def test_the_metrics_have_the_graphs_figures_if_asked_for() -> None:
    course = Course(a_dag("JOB A a\nJOB B b\nJOB C c\nPARENT A CHILD B C\n"))
    facts = RunFacts(1.0, 2.0, 0, "7", "", 0)
    assert metrics_text(course, facts, of_graph=True).splitlines()[-6:] == [
        '    "graph_height":2,',
        '    "graph_width":2,',
        '    "graph_num_edges":2,',
        '    "graph_num_vertices":3,',
        '    "DagStatus":0',
        "}",
    ]
    assert "graph_" not in metrics_text(course, facts)


def test_metrics_of_the_first_version_call_nodes_jobs_and_leave_out_what_came_later() -> None:
    course = Course(a_dag("JOB A a DONE\nSUBDAG EXTERNAL B b\nSERVICE S s\nPARENT A CHILD B\n"))
    found = json.loads(metrics_text(course, RunFacts(1.0, 2.5, 0, "7", "", 3), version=1))
    assert list(found) == [
        *("client", "version", "type", "start_time", "end_time", "duration", "exitcode", "dagman_id"),
        *("parent_dagman_id", "rescue_dag_number", "jobs", "jobs_failed", "jobs_succeeded", "dag_jobs"),
        *("dag_jobs_failed", "dag_jobs_succeeded", "total_jobs", "total_jobs_run", "DagStatus"),
    ]
    assert [found[name] for name in ("jobs", "jobs_succeeded", "dag_jobs", "total_jobs", "total_jobs_run")] == [
        *(1, 1, 1, 2, 1),
    ]


def test_service_nodes_count_among_all_nodes_in_the_second_version_alone() -> None:
    course = Course(a_dag("JOB A a DONE\nSERVICE S s\nSERVICE T t\n"))
    course.states[1] = S.DONE
    names = ("total_nodes", "total_nodes_run", "service_nodes", "service_nodes_succeeded")
    found = json.loads(metrics_text(course, RunFacts(1.0, 2.5, 0, "7", "", 3)))
    assert [found[name] for name in names] == [3, 2, 2, 1]
    first = json.loads(metrics_text(course, RunFacts(1.0, 2.5, 0, "7", "", 3), version=1))
    assert (first["total_jobs"], first["total_jobs_run"]) == (1, 1)


def test_the_table_of_jobs_is_htcondors(tmp_path: Path) -> None:
    out = DagmanOut(str(tmp_path / "out"))
    out.jobs_table(JobFigures(12, 3, 1, 4, 2, 2))
    out._file.close()
    assert [line[18:] for line in (tmp_path / "out").read_text().splitlines()] == [
        "Total jobs placed to AP: 12",
        "     Idle     Held     Running     Successful     Failed",
        "      ===      ===         ===            ===        ===",
        "        3        1           4              2          2",
    ]


def test_the_statistics_are_named_and_ordered_as_htcondors() -> None:
    real = (CASES / "rescue" / "x.dag.dagman.out").read_text()
    lines = [line[18:] for line in real.splitlines() if "Runtime Statistics" in line]
    statistics = Statistics()
    assert statistics.line() == lines[0]
    for probe in (statistics.event, statistics.sleep, statistics.submit, statistics.log):
        probe.add(1.0)
    assert re.sub(r"=[\d.]+", "", statistics.line()) == re.sub(r"=[\d.]+", "", lines[-1])
    ad = parse_ad(statistics.ad_text())
    assert [ad.eval_float(f"SleepCycleTime{name}") for name in ("Avg", "Std", "Count")] == [1.0, 1.0, 1.0]
    statistics.sleep.add(3.0)
    assert "SleepCycleTimeAvg=2.000; SleepCycleTimeMax=3.000; SleepCycleTimeMin=1.000; SleepCycleTimeStd=1.414; " in (
        statistics.line()
    )


def test_what_a_graphs_own_file_says_in_vain_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.write_text("DAGMAN_MAX_JOB_IDLE = 5\nDAGMAN_ALLOW_EVENTS = 5\nDAGMAN_MAX_JOBS_IDLE = 5\n")
    monkeypatch.setenv("CONDOR_CONFIG", "/dev/null")
    monkeypatch.setenv("_CONDOR_DAGMAN_CONFIG_FILE", str(own))
    assert complaints(configuration()) == [
        f'{own}:1: warning: unknown knob "DAGMAN_MAX_JOB_IDLE" (did you mean "DAGMAN_MAX_JOBS_IDLE"?)',
        f'{own}:2: warning: "DAGMAN_ALLOW_EVENTS" is a knob of HTCondor\'s that has no effect here',
    ]


def test_the_log_of_nodes_has_no_macro_left() -> None:
    config = load_config([], environ={}, overrides={"DAGMAN_DEFAULT_NODE_LOG": "@(DAG_DIR)/@(DAGDIR).log"})
    with pytest.raises(ConfigError, match="it has no such macro"):
        paths(parse(["x.dag"]), config, {})


def test_the_log_of_nodes_is_where_the_configuration_says() -> None:
    wanted = {"DAGMAN_DEFAULT_NODE_LOG": "/logs/@(OWNER)/@(CLUSTER)-@(DAG_FILE)-@(NODE_NAME)"}
    facts = {"CLUSTER": "7", "OWNER": "ann", "NODE_NAME": "A"}
    found = paths(parse(["-Dag", "d/x.dag"]), load_config([], environ={}, overrides=wanted), facts)
    assert (found.nodes_log, found.lock) == ("/logs/ann/7-x.dag-A", "d/x.dag.lock")
