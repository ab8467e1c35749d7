"""condor_dagman's command line."""

from __future__ import annotations

import pytest

from minipool.dagman.arguments import parse
from pool.base.errors import UserError

WRITTEN = "-p 0 -f -l . -Lockfile x.dag.lock -Dag x.dag -Dag y.dag -MaxIdle 4 -DoRecov -AutoRescue 0 -UseDagDir"


def test_what_condor_submit_dag_writes_is_understood() -> None:
    found = parse([*WRITTEN.split(), "-CsdVersion", "$CondorVersion: 25.14.0 $", "-dagman", "/usr/bin/condor_dagman"])
    assert (found.dags, found.primary, found.lock_file) == (["x.dag", "y.dag"], "x.dag", "x.dag.lock")
    assert (found.max_idle, found.max_jobs, found.do_recovery, found.auto_rescue) == (4, None, True, 0)
    assert found.for_nested() == ["-dagman", "/usr/bin/condor_dagman", "-UseDagDir", "-AutoRescue", "0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-f", "No DAG file was specified"),
        ("x.dag -maxidel 3", "-maxidel is not an option of condor_dagman (did you mean -maxidle?)"),
        ("x.dag -MaxPre -1", "-maxpre must be non-negative"),
        ("x.dag -MaxPre", "-MaxPre needs a value"),
        ("x.dag -MaxPre few", "-MaxPre needs a number, not 'few'"),
        ("x.dag -WaitForDebug", "-WaitForDebug is refused: no debugger can be waited for"),
        ("x.dag -SubmitMethod 7", "-SubmitMethod must be 0 or 1"),
    ],
)
def test_what_is_wrong_is_said(words: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse(words.split())
    assert str(error.value) == said


def test_each_option_says_what_it_is_for() -> None:
    assert (parse(["-help"]).asks, parse(["-version"]).asks) == ("help", "version")
    found = parse(["x.dag", "-Batch-Name", "lot", "-AllowVersionMismatch"])
    assert (found.batch_name, found.allow_version_mismatch) == ("lot", True)
