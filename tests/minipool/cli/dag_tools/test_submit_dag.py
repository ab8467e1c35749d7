"""condor_submit_dag: the description that it writes, what it prints, and what it refuses."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from minipool.cli.dag_tools.submit_dag import main
from minipool.cli.submit_tools import submit
from pool.base.argv import join_new
from pool.base.version import CONDOR_VERSION

CASES: Final = Path(__file__).parents[3] / "cases" / "dag"
DAG = "JOB A n.sub\nJOB B n.sub\nPARENT A CHILD B\n"
ENV_DAG = """\
JOB A n.sub
ENV GET A, B  C
ENV SET x=1;y=2 3
env set "z=4 w=5"
SET_JOB_ATTR Foo = "bar baz"
set-job-attr Goo=3
CONFIG "cc"
"""
PLAIN = ["-dagman", "/usr/bin/condor_dagman"]
HEADER = """\
-----------------------------------------------------------------------
File for submitting this DAG to HTCondor           : x.dag.condor.sub
Log of DAGMan debugging messages                   : x.dag.dagman.out
Log of HTCondor library output                     : x.dag.lib.out
Log of HTCondor library error messages             : x.dag.lib.err
Log of the life of condor_dagman itself            : x.dag.dagman.log

"""
RULE = "-" * 71 + "\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a few DAG files, in which the tool runs with little of an environment."""
    here = tmp_path.resolve()
    monkeypatch.chdir(here)
    for name, text in {"x.dag": DAG, "y.dag": "", "env.dag": ENV_DAG, "lines.sub": "foo = 1\n# c\n  bar = 2\n"}.items():
        Path(name).write_text(text)
    Path("cc").write_text(f"LOCAL_DIR = {here}\n")
    environ = {"HOME": "/root", "OLDPWD": "/", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PWD": str(here), "SHLVL": "1"}
    environ |= {"CONDOR_CONFIG": f"{here}/cc", "_": "/usr/bin/condor_submit_dag"}
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return here


def descriptions() -> Iterator[tuple[str, list[str]]]:
    """What was recorded: the options, and the lines that the plain description does not have."""
    text = (CASES / "submit" / "condor_sub.txt").read_text()
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, *lines = part.strip("\n").split("\n")
        yield command, [re.sub(r" _CONDOR_SCHEDD_(ADDRESS|DAEMON_AD)_FILE=\S+\.schedd_\w+", "", line) for line in lines]


RECORDED = dict(descriptions())


@pytest.mark.parametrize("command", RECORDED)
def test_the_description_is_htcondors_to_the_line(place: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    words = shlex.split(command)
    given = words if "-dagman" in words else [*PLAIN, *words]
    assert main("submit_dag", ["-no_submit", *given]) == 0
    primary = next(word for word in words if word.endswith(".dag"))
    first, *lines = Path(f"{primary}.condor.sub").read_text().splitlines()
    assert first == f"# Filename: {primary}.condor.sub"
    version = join_new([CONDOR_VERSION])
    plain = RECORDED["x.dag"]
    wanted = [line.replace("VERSION", version).replace("/tmp/dagt", str(place)) for line in RECORDED[command]]
    if command == "x.dag":
        assert lines == wanted
    else:
        known = {line.replace("VERSION", version) for line in plain}
        assert [line for line in lines if line not in known] == wanted


def test_what_is_said_of_a_description_that_is_not_submitted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("submit_dag", ["-no_submit", *PLAIN, "x.dag"]) == 0
    said = f'{HEADER}-no_submit given, not submitting DAG to HTCondor. You can do this with:\n"condor_submit x.dag'
    assert capsys.readouterr() == (f'{said}.condor.sub"\n{RULE}', "")


def test_condor_submit_speaks_first_where_nobody_reads_along(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def submitted(verb: str, words: list[str]) -> int:
        print(verb, *words)
        return 0

    monkeypatch.setattr(submit, "main", submitted)
    assert main("submit_dag", [*PLAIN, "-r", "ap1", "x.dag"]) == 0
    assert capsys.readouterr().out == f"submit -name ap1 x.dag.condor.sub\n{HEADER}{RULE}"


def test_a_submission_that_fails_is_the_tools_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "main", lambda *_: 1)
    assert main("submit_dag", [*PLAIN, "-terse", "x.dag"]) == 1
    assert capsys.readouterr() == ("", "ERROR: condor_submit failed; aborting.\n")


def test_files_of_an_earlier_run_are_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("condor.sub", "lib.out", "lib.err", "dagman.log", "dagman.out", "nodes.log"):
        Path(f"x.dag.{name}").touch()
    assert main("submit_dag", ["-no_submit", *PLAIN, "x.dag"]) == 1
    assert capsys.readouterr() == ("", (CASES / "submit" / "in_the_way.txt").read_text())
    assert Path("x.dag.condor.sub").read_text() == ""


def test_force_replaces_them_and_puts_rescue_files_aside(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("condor.sub", "lib.out", "dagman.log", "dagman.out", "rescue001", "rescue002"):
        Path(f"x.dag.{name}").touch()
    assert main("submit_dag", ["-no_submit", "-f", *PLAIN, "x.dag"]) == 0
    said = capsys.readouterr().err
    assert said == "Renaming rescue DAGs newer than number 0\nRenaming x.dag.rescue001\nRenaming x.dag.rescue002\n"
    left = {path.name for path in Path().glob("x.dag.*")}
    assert left == {"x.dag.condor.sub", "x.dag.dagman.out", "x.dag.rescue001.old", "x.dag.rescue002.old"}


def test_with_a_rescue_file_nothing_is_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("condor.sub", "lib.out", "halt", "rescue002"):
        Path(f"x.dag.{name}").touch()
    assert main("submit_dag", ["-no_submit", *PLAIN, "x.dag"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "Warning: Found rescue DAG number 2, but not rescue DAG number 1\nRunning rescue DAG 2\n" + HEADER
    )
    assert not Path("x.dag.halt").exists()


def test_the_rescue_files_of_several_graphs_have_a_name_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.dag_multi.rescue001").touch()
    assert main("submit_dag", ["-no_submit", "-dorescuefrom", "1", *PLAIN, "x.dag", "y.dag"]) == 0
    assert main("submit_dag", ["-no_submit", "-dorescuefrom", "1", *PLAIN, "x.dag"]) == 1
    missing = "ERROR: -dorescuefrom 1 specified, but rescue DAG file x.dag.rescue001 does not exist!\n"
    assert capsys.readouterr().err == missing


def test_a_rescue_file_of_old_times_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.dag.rescue").touch()
    assert main("submit_dag", ["-no_submit", "-autorescue", "0", *PLAIN, "x.dag"]) == 1
    assert capsys.readouterr().err.startswith('ERROR: "x.dag.rescue" already exists.\n\tYou may want to resubmit')


def test_a_description_that_is_updated_keeps_its_limits() -> None:
    assert main("submit_dag", ["-no_submit", *PLAIN, "-maxidle", "3", "-maxjobs", "4", "x.dag"]) == 0
    assert main("submit_dag", ["-no_submit", *PLAIN, "-update", "-maxjobs", "9", "-maxpre", "1", "x.dag"]) == 0
    assert " -MaxIdle 3 -MaxJobs 4 -MaxPre 1 -CsdVersion " in Path("x.dag.condor.sub").read_text()


def test_the_configuration_of_the_graph_holds_for_its_own_job(place: Path) -> None:
    more = f"DAGMAN_ON_EXIT_REMOVE = ExitCode =?= 0\nDAGMAN_INSERT_SUB_FILE = {place}/lines.sub\n"
    Path("cc").write_text(f"LOCAL_DIR = {place}\nDAGMAN_MANAGER_JOB_APPEND_GETENV = MORE*\n")
    Path("dag.conf").write_text(more)
    Path("conf.dag").write_text("JOB A n.sub\nCONFIG dag.conf\n")
    assert main("submit_dag", ["-no_submit", *PLAIN, "conf.dag"]) == 0
    text = Path("conf.dag.condor.sub").read_text()
    assert "\non_exit_remove = ExitCode =?= 0\n" in text
    assert "BEARER_TOKEN_FILE,MORE*\n" in text
    assert text.endswith("foo = 1\n# c\nbar = 2\nqueue\n")


def test_limits_and_lock_file_that_htcondors_tool_loses_reach_dagman() -> None:
    assert main("submit_dag", ["-no_submit", *PLAIN, "-maxhold", "7", "-lockfile", "mine", "x.dag"]) == 0
    assert "-l . -Lockfile mine -Dag x.dag -MaxHold 7 -CsdVersion" in Path("x.dag.condor.sub").read_text()


def test_nested_graphs_are_described_first_each_in_its_nodes_directory(capsys: pytest.CaptureFixture[str]) -> None:
    Path("top.dag").write_text("SUBDAG EXTERNAL S inner.dag DIR sub\nSUBDAG EXTERNAL T y.dag\n")
    Path("sub").mkdir()
    Path("sub/inner.dag").write_text("JOB I n.sub\n")
    assert main("submit_dag", ["-no_submit", *PLAIN, "-do_recurse", "-maxjobs", "2", "top.dag"]) == 0
    said = capsys.readouterr().out
    options = "-dagman /usr/bin/condor_dagman -AutoRescue 1 -do_recurse"
    assert f"Recursive submit command: <condor_submit_dag -no_submit -update_submit {options} inner.dag>\n" in said
    inner = Path("sub/inner.dag.condor.sub").read_text()
    assert "-Dag inner.dag -CsdVersion" in inner  # the limits are the outer graph's alone
    assert Path("y.dag.condor.sub").exists()
    assert Path("top.dag.condor.sub").exists()


def test_a_nested_graph_that_fails_stops_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("top.dag").write_text("SUBDAG EXTERNAL S nosuch.dag\n")
    assert main("submit_dag", ["-no_submit", *PLAIN, "-do_recurse", "top.dag"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: nosuch.dag: Provided file path does not exist\n"
        "ERROR: condor_submit_dag -no_submit failed on DAG file nosuch.dag.\n"
        "Recursive submit(s) failed; exiting without attempting top-level submit\n"
    )
    assert not Path("top.dag.condor.sub").exists()


WRONG = {
    "nosuch.dag": "ERROR: nosuch.dag: Provided file path does not exist",
    "sub": "ERROR: sub: Provided file path is not a file",
    "": "ERROR: no dag file specified; aborting.",
    "x.dag -force": "ERROR: no arguments allowed after DAG file name(s)",
    "-maxidle foo x.dag": "Error: -maxidle (-maxidle) additional argument required to be a integer",
    "-dorescuefrom -2 x.dag": "-DoRescueFrom value must be non-negative; aborting.",
    "-load_save a -dorescuefrom 1 x.dag": "Error: -dorescuefrom can not be used with the following flag: -load_save",
    "-do_recurse -no_recurse x.dag": "Error: -do_recurse can not be used with the following flag: -no_recurse",
    "-config nosuch x.dag": "ERROR: Can't read DAGMan config file: {}/nosuch",
    "-config lines.sub env.dag": "ERROR: Conflicting DAGMan config files specified: {0}/cc and {0}/lines.sub",
    "-insert_sub_file nosuch x.dag": "ERROR: Unable to read submit append file nosuch",
    "-insert_env x x.dag": "ERROR: Failed to add x to DAGMan manager jobs environment because ERROR: Missing '='",
    "-batch-name '' x.dag": "Error: -batch-name additional argument was empty",
    "-debug 8 x.dag": "Error: -debug 8: from 0 to 7",
    "-valgrind x.dag": "-valgrind is not supported here: ",
    "-zork x.dag": "Error: Unknown flag '-zork' provided",
}


@pytest.mark.parametrize("command", WRONG)
def test_what_is_wrong_is_said(place: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    Path("sub").mkdir()
    assert main("submit_dag", ["-no_submit", *PLAIN, *shlex.split(command)]) == 1
    assert capsys.readouterr().err.startswith(WRONG[command].format(place))
    assert not list(Path().glob("*.condor.sub"))


def test_verbose_shows_the_line_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.dag").write_text("JOB A n.sub\nJOBB B  n.sub\n")
    assert main("submit_dag", ["-no_submit", *PLAIN, "-v", "bad.dag"]) == 1
    assert capsys.readouterr().err == "ERROR: bad.dag:2 'JOBB' is not a valid DAG command\n    JOBB B  n.sub\n"
