"""What condor_dagman is told by knobs and options, each by what comes of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from minipool.dagman.arguments import parse
from minipool.dagman.configured import complaints, course_settings, reading
from minipool.dagman.dagman_out import DagmanOut
from minipool.dagman.files import save_path
from minipool.dagman.main import _around, _files, _rescue
from minipool.dagman.manager import Manager
from minipool.dagman.own_job import OwnJob
from minipool.dagman.submitting import lines_of
from pool.classad import ClassAd
from pool.config import Config, load_config
from pool.dag.language.reader import Options, read
from tests.minipool.dagman.simulated import World, in_world
from tests.pool.dag.course.played import course_of


def configured(**knobs: str) -> Config:
    return load_config([], environ={}, overrides=knobs, subsystem="DAGMAN")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Callable[[int], DagmanOut]]:
    """Makes a log of a level; it is the file of that name in the test's directory."""
    made: list[DagmanOut] = []

    def make(level: int) -> DagmanOut:
        made.append(DagmanOut(str(tmp_path / f"log{level}"), level))
        return made[-1]

    yield make
    for out in made:
        out._file.close()


@pytest.mark.parametrize(
    ("knob", "field", "value"),
    [
        ("DAGMAN_ALWAYS_RUN_POST=true", "always_run_post", True),
        ("DAGMAN_SUBMIT_DEPTH_FIRST=true", "depth_first", True),
        ("DAGMAN_RETRY_NODE_FIRST=true", "retry_node_first", True),
        ("DAGMAN_RETRY_SUBMIT_FIRST=false", "retry_submit_first", False),
        ("DAGMAN_MAX_SUBMIT_ATTEMPTS=2", "submit_attempts", 2),
        ("DAGMAN_MAX_JOB_HOLDS=2", "job_holds_max", 2),
        ("DAGMAN_NODE_JOB_FAILURE_TOLERANCE=2", "tolerance", 2),
        ("DAGMAN_REMOVE_JOB_LIST_ON_FAILURE=false", "remove_job_list", False),
        ("DAGMAN_PUT_FAILED_JOBS_ON_HOLD=true", "hold_failed_jobs", True),
        ("DAGMAN_DEFAULT_PRIORITY=2", "priority", 2),
        ("DAGMAN_REMOVE_JOBS_AFTER_LIMIT_CHANGE=true", "enforce_new_limit", True),
        ("DAGMAN_REMOVE_NODE_JOBS=false", "remove_node_jobs", False),
        ("DAGMAN_MAX_RESCUE_NUM=0", "rescue_files", False),
        ("DAGMAN_MAX_JOBS_SUBMITTED=2", "limits.jobs", 2),
        ("DAGMAN_MAX_JOBS_IDLE=2", "limits.idle", 2),
        ("DAGMAN_MAX_PRE_SCRIPTS=2", "limits.pre", 2),
        ("DAGMAN_MAX_POST_SCRIPTS=2", "limits.post", 2),
        ("DAGMAN_MAX_HOLD_SCRIPTS=2", "limits.hold", 2),
        ("DAGMAN_MAX_SUBMITS_PER_INTERVAL=2", "limits.submits", 2),
        ("-AlwaysRunPost", "always_run_post", True),
        ("DAGMAN_ALWAYS_RUN_POST=true -DontAlwaysRunPost", "always_run_post", False),
        ("DAGMAN_DEFAULT_PRIORITY=2 -Priority 3", "priority", 3),
        ("-MaxJobs 2", "limits.jobs", 2),
        ("-MaxIdle 0", "limits.idle", 0),
        ("-MaxPre 2", "limits.pre", 2),
        ("-MaxPost 2", "limits.post", 2),
        ("-MaxHold 2", "limits.hold", 2),
    ],
)
def test_each_setting_of_the_course_reaches_it(knob: str, field: str, value: object) -> None:
    knobs = dict(word.split("=") for word in knob.split() if "=" in word)
    options = [word for word in knob.split() if "=" not in word]

    def found(knobs: dict[str, str], options: list[str]) -> object:
        settings: Any = course_settings(parse(["x.dag", *options]), configured(**knobs), 7)
        return getattr(settings.limits if "." in field else settings, field.rpartition(".")[2])

    # What an option takes back is as it is without both.
    assert (found(knobs, options), found(knobs, []) == found({}, options)) == (value, False)


def test_how_files_are_read() -> None:
    knobs = {"DAGMAN_MUNGE_NODE_NAMES": "false", "DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS": "true"}
    found = reading(parse(["x.dag", "-UseDagDir"]), configured(**knobs))
    assert found == Options(munge=False, use_dag_dir=True, any_characters=True, joins=True)
    files = {"x.dag": "JOB A+B n.sub\n", "y.dag": "JOB C n.sub\n"}
    assert [node.name for node in read(list(files), files.__getitem__, found).nodes] == ["A+B", "C"]


def lines(config: Config, *words: str) -> list[str]:
    """The lines that a node's description gets at its second try."""
    course = course_of("JOB A n.sub\n")
    course.retries[0] = 1
    own = OwnJob(None, None, ClassAd())  # type: ignore[arg-type]  # a schedd that nothing is asked of
    around = _around(parse(["x.dag", *words]), config, own, "/d/x.dag.nodes.log", 7)
    before, after = lines_of(course, 0, "", around, on_hold=False)
    return [*before, *after]


def test_jobs_record_what_the_configuration_says() -> None:
    wanted = {"DAGMAN_NODE_RECORD_INFO": "Retry", "DAGMAN_RECORD_MACHINE_ATTRS": "Machine,OpSys"}
    assert set(lines(configured(**wanted))) - set(lines(configured())) == {
        "MY.DAGManNodeRetry=1",
        "job_ad_information_attrs=MachineAttrMachine0,MachineAttrOpSys0,DAGNodeName",
        "job_machine_attrs=Machine,OpSys",
    }
    silent = configured(DAGMAN_SUPPRESS_NOTIFICATION="true")
    assert "notification=NEVER" in lines(silent)
    assert "notification=NEVER" in lines(configured(), "-suppress_notification")
    assert "notification=NEVER" not in lines(silent, "-dont_suppress_notification")


def test_nodes_are_submitted_one_after_another_with_a_pause_between_if_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    with in_world(world, "\n".join(f"JOB N{number} n.sub" for number in range(4)), monkeypatch):
        assert world.run(configured(DAGMAN_SUBMIT_DELAY="5")) == 0
    assert 20 <= world.now < 21


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_the_description_of_a_nested_graph_is_written_unless_that_is_not_wanted(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_process(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        (tmp_path / "asked").write_text(" ".join(words))
        return subprocess.CompletedProcess(words, 0, b"", b"")

    monkeypatch.setattr(trio, "run_process", run_process)
    world = World(tmp_path)
    with in_world(world, "SUBDAG EXTERNAL A inner.dag\n", monkeypatch):
        assert world.run(configured(DAGMAN_GENERATE_SUBDAG_SUBMITS=wanted)) == 0
    assert world.ran == {"A": 1}
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else None
    words = "condor_submit_dag -no_submit -update_submit -AutoRescue 1 inner.dag"
    assert asked == (words if wanted == "true" else None)


def test_a_graph_may_be_drawn_or_pretended_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    with in_world(world, "JOB A n.sub\nDOT x.dot OVERWRITE\n", monkeypatch):
        assert world.run(configured(), "-Dot") == 0
        assert ((tmp_path / "x.dot").exists(), (tmp_path / "x.dag.metrics").exists()) == (True, False)
        assert world.run(configured(), "-DryRun") == 0
        assert (tmp_path / "x.dag.metrics").exists()
    assert world.ran == {}


@pytest.mark.parametrize(
    ("words", "knobs", "expected"),
    [
        ("", {}, ("x.dag.rescue003", 3)),
        ("", {"DAGMAN_AUTO_RESCUE": "false"}, ("", 0)),
        ("", {"DAGMAN_MAX_RESCUE_NUM": "2"}, ("x.dag.rescue001", 1)),
        ("", {"DAGMAN_MAX_RESCUE_NUM": "0"}, ("", 0)),
        ("-AutoRescue 0", {}, ("", 0)),
        ("-AutoRescue 1", {"DAGMAN_AUTO_RESCUE": "false"}, ("x.dag.rescue003", 3)),
        ("-DoRescueFrom 1", {}, ("x.dag.rescue001", 1)),
        ("-RescueFile other.rescue", {}, ("other.rescue", 0)),
    ],
)
def test_which_rescue_file_a_graph_goes_on_from(
    words: str,
    knobs: dict[str, str],
    expected: tuple[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log: Callable[[int], DagmanOut],
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 3):
        (tmp_path / f"x.dag.rescue{number:03d}").touch()
    options, config, out = parse(["x.dag", *words.split()]), configured(**knobs), log(3)
    files = _files(options, config, "x.dag.metrics", out)
    assert (_rescue(options, config, files, out), files.rescue_number) == expected
    # Newer ones than the one that was asked for would be gone on from next time.
    assert (tmp_path / "x.dag.rescue003.old").exists() == ("-DoRescueFrom" in words or "-RescueFile" in words)


def test_a_save_file_lies_beside_the_graph_unless_it_is_named_with_a_directory() -> None:
    assert save_path("d/x.dag", "b.save") == "d/save_files/b.save"
    assert save_path("d/x.dag", "./b.save") == "./b.save"


def test_the_log_says_as_much_as_it_shall(tmp_path: Path, log: Callable[[int], DagmanOut]) -> None:
    for level, said in ((0, ["worst"]), (2, ["worst", "usual"]), (3, ["worst", "usual", "more"])):
        out = log(level)
        for line, at in (("worst", 0), ("usual", 2), ("more", 3)):
            out.say(line, level=at)
        assert [line[18:] for line in (tmp_path / f"log{level}").read_text().splitlines()] == said


async def test_what_is_reported_now_and_then(
    tmp_path: Path, autojump_clock: MockClock, log: Callable[[int], DagmanOut]
) -> None:
    out = log(3)
    course = course_of("JOB A n.sub\n")
    course.begin()
    course.submit_ready()
    config = configured(DAGMAN_PENDING_REPORT_INTERVAL="20", DAGMAN_PRINT_JOB_TABLE_INTERVAL="50")
    manager: Any = SimpleNamespace(course=course, config=config, out=out, say=out.say, _last_event=trio.current_time())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Manager._report_pending, manager)
        nursery.start_soon(Manager._report_jobs, manager)
        await trio.sleep(59)
        nursery.cancel_scope.cancel()
    said = (tmp_path / "log3").read_text()
    assert [said.count(line) for line in ("20 seconds since", "40 seconds since", "Total jobs placed to AP: 0")] == [
        *(1, 1, 1),
    ]
    manager.config = configured(DAGMAN_PENDING_REPORT_INTERVAL="0", DAGMAN_PRINT_JOB_TABLE_INTERVAL="0")
    await Manager._report_pending(manager)
    await Manager._report_jobs(manager)


def test_the_log_says_which_knobs_of_logs_do_nothing() -> None:
    found = complaints(configured(DAGMAN_DEBUG="D_FULLDEBUG", MAX_DAGMAN_LOG="1 Mb"))
    assert [line.rpartition(":")[0] for line in found] == [
        "Warning: DAGMAN_DEBUG has no effect here",
        "Warning: MAX_DAGMAN_LOG has no effect here",
    ]
    assert complaints(configured(MAX_DAGMAN_LOG="0")) == []
