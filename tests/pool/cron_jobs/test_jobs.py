"""What a configuration says about cron jobs, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pool.config import load_config
from pool.cron_jobs.jobs import BENCHMARKS, SCHEDD, STARTD, CronMode, CronTable, Metric, read_table

MANUAL = """
MODULES = /opt/modules
STARTD_CRON_CONFIG_VAL = $(RELEASE_DIR)/bin/condor_config_val
STARTD_CRON_MAX_JOB_LOAD = 0.2
STARTD_CRON_JOBLIST =
STARTD_CRON_LOG_NON_ZERO_EXIT = true
STARTD_CRON_JOBLIST = $(STARTD_CRON_JOBLIST) test
STARTD_CRON_TEST_MODE = OneShot
STARTD_CRON_TEST_RECONFIG_RERUN = True
STARTD_CRON_TEST_PREFIX = test_
STARTD_CRON_TEST_EXECUTABLE = $(MODULES)/test
STARTD_CRON_TEST_KILL = True
STARTD_CRON_TEST_ARGS = abc 123
STARTD_CRON_TEST_SLOTS = 1
STARTD_CRON_TEST_JOB_LOAD = 0.01
STARTD_CRON_JOBLIST = $(STARTD_CRON_JOBLIST) date
STARTD_CRON_DATE_MODE = Periodic
STARTD_CRON_DATE_EXECUTABLE = $(MODULES)/date
STARTD_CRON_DATE_PERIOD = 15s
STARTD_CRON_DATE_JOB_LOAD = 0.01
STARTD_CRON_JOBLIST = $(STARTD_CRON_JOBLIST) foo
STARTD_CRON_FOO_EXECUTABLE = $(MODULES)/foo
STARTD_CRON_FOO_PREFIX = Foo
STARTD_CRON_FOO_MODE = Periodic
STARTD_CRON_FOO_PERIOD = 10m
STARTD_CRON_FOO_JOB_LOAD = 0.2
BENCHMARKS_JOBLIST = mips kflops
BENCHMARKS_MIPS_EXECUTABLE = /opt/libexec/condor_mips
BENCHMARKS_MIPS_JOB_LOAD = 1.0
BENCHMARKS_KFLOPS_EXECUTABLE = /opt/libexec/condor_kflops
BENCHMARKS_KFLOPS_JOB_LOAD = 1.0
SCHEDD_CRON_CONFIG_VAL = $(RELEASE_DIR)/bin/condor_config_val
SCHEDD_CRON_JOBLIST =
SCHEDD_CRON_JOBLIST = $(SCHEDD_CRON_JOBLIST) test
SCHEDD_CRON_TEST_MODE = OneShot
SCHEDD_CRON_TEST_RECONFIG_RERUN = True
SCHEDD_CRON_TEST_PREFIX = test_
SCHEDD_CRON_TEST_EXECUTABLE = $(MODULES)/test
SCHEDD_CRON_TEST_PERIOD = 5m
SCHEDD_CRON_TEST_KILL = True
SCHEDD_CRON_TEST_ARGS = abc 123
"""


def table(knobs: Mapping[str, str], manager: str = STARTD) -> CronTable:
    return read_table(load_config([], overrides=knobs, environ={}), manager)


def test_the_complete_example_of_the_manual(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(MANUAL)
    config = load_config([str(file)], environ={})
    startd = read_table(config, STARTD)
    assert startd.problems == ()
    assert (startd.max_load, startd.logs_failures) == (0.2, True)
    test, date, foo = startd.jobs.values()
    assert (test.mode, test.prefix, test.arguments, test.slots) == (
        CronMode.ONE_SHOT,
        "test_",
        ("abc", "123"),
        frozenset({1}),
    )
    assert test.kills
    assert test.runs_at_reconfiguration
    assert test.executable == "/opt/modules/test"
    assert test.environment["STARTD_CRON_CONFIG_VAL"].endswith("bin/condor_config_val")
    assert (date.mode, date.period_s, date.load, date.prefix) == (CronMode.PERIODIC, 15, 0.01, "")
    assert (foo.period_s, foo.prefix, foo.load) == (600, "Foo", 0.2)
    benchmarks = read_table(config, BENCHMARKS)
    assert benchmarks.max_load == 1.0
    assert {name: (job.mode, job.load) for name, job in benchmarks.jobs.items()} == {
        "mips": (CronMode.ON_DEMAND, 1.0),
        "kflops": (CronMode.ON_DEMAND, 1.0),
    }
    schedd = read_table(config, SCHEDD)
    assert schedd.jobs["test"].mode is CronMode.ONE_SHOT
    assert schedd.problems == ()


@pytest.mark.parametrize(("said", "seconds"), [("90", 90), ("15s", 15), ("10m", 600), ("2H", 7200), (" 5 m ", 300)])
def test_periods_have_units(said: str, seconds: int) -> None:
    knobs = {"STARTD_CRON_JOBLIST": "a", "STARTD_CRON_a_EXECUTABLE": "/bin/a", "STARTD_CRON_a_PERIOD": said}
    assert table(knobs).jobs["a"].period_s == seconds


@pytest.mark.parametrize(
    ("knob", "value", "why"),
    [
        ("EXECUTABLE", "", "EXECUTABLE is not set"),
        ("PERIOD", "", "PERIOD is not set, and a Periodic job needs it"),
        ("PERIOD", "0", "too short"),
        ("PERIOD", "5d", "is not a period (expected 15s, 10m or 1h)"),
        ("PERIOD", "soon", "is not a period"),
        ("MODE", "Sometimes", "is not a mode (expected Periodic, WaitForExit, OneShot, OnDemand)"),
        ("PREFIX", "a-b", "more than letters, digits and underscores"),
        ("SLOTS", "1, two", "is not a list of slot numbers"),
        ("SLOTS", "1, ²", "is not a list of slot numbers"),
        ("METRICS", "MEAN:SQUIDs", "is not a metric (expected SUM:NAME or PEAK:NAME)"),
        ("ARGS", '"unclosed', "Unterminated"),
        ("ENV", "A", "Missing '='"),
        ("CONDITION", "1 +", "is not an expression"),
        ("JOB_LOAD", "much", "much"),
    ],
)
def test_a_job_that_is_described_badly_is_left_out_with_the_reason(knob: str, value: str, why: str) -> None:
    knobs = {
        "STARTD_CRON_JOBLIST": "good bad",
        "STARTD_CRON_good_EXECUTABLE": "/bin/good",
        "STARTD_CRON_good_PERIOD": "1m",
        "STARTD_CRON_bad_EXECUTABLE": "/bin/bad",
        "STARTD_CRON_bad_PERIOD": "1m",
        f"STARTD_CRON_bad_{knob}": value,
    }
    found = table(knobs)
    assert list(found.jobs) == ["good"]
    (problem,) = found.problems
    assert problem.startswith("STARTD_CRON job bad does not run: ")
    assert why in problem


def test_a_job_that_is_too_much_for_the_machine_is_reported() -> None:
    knobs = {
        "STARTD_CRON_JOBLIST": "a",
        "STARTD_CRON_a_EXECUTABLE": "/bin/a",
        "STARTD_CRON_a_PERIOD": "1m",
        "STARTD_CRON_a_JOB_LOAD": "0.5",
    }
    assert table(knobs).problems == ("STARTD_CRON job a never runs: JOB_LOAD 0.5 is above MAX_JOB_LOAD 0.1",)


def test_arguments_and_environment_in_both_styles() -> None:
    knobs = {
        "STARTD_CRON_JOBLIST": "old new",
        "STARTD_CRON_old_EXECUTABLE": "/bin/a",
        "STARTD_CRON_old_MODE": "oneshot",
        "STARTD_CRON_old_ARGS": "-x  two",
        "STARTD_CRON_old_ENV": "A=1;B=two words",
        "STARTD_CRON_new_EXECUTABLE": "/bin/a",
        "STARTD_CRON_new_MODE": "OneShot",
        "STARTD_CRON_new_ARGS": "\"one 'two words'\"",
        "STARTD_CRON_new_ENV": "\"A='1 2' B=3\"",
    }
    jobs = table(knobs).jobs
    assert jobs["old"].arguments == ("-x", "two")
    assert jobs["new"].arguments == ("one", "two words")
    told = {"STARTD_CRON_INTERFACE_VERSION": "1", "STARTD_CRON_NAME": "STARTD_CRON"}
    assert jobs["old"].environment == {**told, "A": "1", "B": "two words"}
    assert jobs["new"].environment == {**told, "A": "1 2", "B": "3"}


def test_metrics_name_the_attributes_that_carry_them() -> None:
    knobs = {
        "STARTD_CRON_JOBLIST": "m",
        "STARTD_CRON_m_EXECUTABLE": "/bin/a",
        "STARTD_CRON_m_PERIOD": "10",
        "STARTD_CRON_m_METRICS": "SUM:SQUIDs, PEAK:SQUIDsMemory",
    }
    assert table(knobs).jobs["m"].metrics == {
        "uptimesquidsseconds": Metric.SUM,
        "uptimesquidsmemorypeakusage": Metric.PEAK,
    }


def test_the_benchmarks_of_every_machine_are_programs_of_libexec() -> None:
    found = table({"LIBEXEC": "/x"}, BENCHMARKS)
    programs = {name: job.executable for name, job in found.jobs.items()}
    assert (programs, found.problems) == ({"mips": "/x/condor_mips", "kflops": "/x/condor_kflops"}, ())


@pytest.mark.parametrize(
    ("feature", "mode"),
    [
        ("StartdCronOneShot(tag, /bin/a, x)", CronMode.ONE_SHOT),
        ("StartdCronPeriodic(tag, 30, /bin/a, x)", CronMode.PERIODIC),
        ("StartdCronContinuous(tag, /bin/a, x)", CronMode.WAIT_FOR_EXIT),
    ],
)
def test_templates_describe_whole_jobs(tmp_path: Path, feature: str, mode: CronMode) -> None:
    file = tmp_path / "config"
    file.write_text(f"use FEATURE : {feature}\n")
    found = read_table(load_config([str(file)], environ={}), STARTD)
    assert found.problems == ()
    assert (found.jobs["tag"].mode, found.jobs["tag"].arguments) == (mode, ("x",))
