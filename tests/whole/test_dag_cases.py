"""The graphs that HTCondor ran and whose files were kept, run here: the same order, exit codes and files."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.whole.real_pool import RealPool, real_pool

REAL: Final = Path(__file__).parents[1] / "cases" / "dag"
INPUTS: Final = ("x.dag", "inner.dag", "n.sub", "pre.sh", "post.sh")
pytestmark = pytest.mark.slow
RAN: Final = ("diamond", "final", "preskip", "rescue", "splice", "cycle", "bad1")


class Run(NamedTuple):
    """One graph that was run: where, and what came of it."""

    home: Path
    exit_code: int | None
    said: str


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS="4") as pool:
        yield pool


@pytest.fixture(scope="module")
def runs(pool: RealPool) -> dict[str, Run]:
    """All of them, beside one another; then `rescue`, mended, once more, which is `again`."""
    homes = {name: prepared(pool, name) for name in RAN}
    mended = (homes["rescue"] / "x.dag").read_text()
    (homes["rescue"] / "x.dag").write_text(mended.replace('code="0"', 'code="3"'))
    found = finished(pool, {name: (homes[name], submit(pool, homes[name])) for name in RAN})
    (homes["rescue"] / "x.dag").write_text(mended)
    for name in ("jobstate.log", "x.dag.rescue001"):  # what the second run adds to or leaves
        shutil.copy(homes["rescue"] / name, homes["rescue"] / f"first.{name}")
    return found | finished(pool, {"again": (homes["rescue"], submit(pool, homes["rescue"]))})


def prepared(pool: RealPool, name: str) -> Path:
    home = pool.directory / f"case_{name}"
    home.mkdir()
    home.chmod(0o777)
    for file in INPUTS:
        if (REAL / name / file).exists():
            (home / file).write_text((REAL / name / file).read_text().replace("/home/peer/d", str(home)))
            (home / file).chmod(0o755)
    return home


def submit(pool: RealPool, home: Path) -> tuple[int, str]:
    program = Path(sys.executable).with_name("condor_dagman")
    said = pool.tool("condor_submit_dag", "-dagman", str(program), "x.dag", cwd=home)
    (cluster,) = re.findall(r"submitted to cluster (\d+)", said)
    return int(cluster), said


def finished(pool: RealPool, submitted: dict[str, tuple[Path, tuple[int, str]]]) -> dict[str, Run]:
    found = {}
    for name, (home, (cluster, said)) in submitted.items():
        (ad,) = pool.until_done(cluster)
        found[name] = Run(home, ad.eval_int("ExitCode"), said.replace(f"cluster {cluster}", "cluster N"))
    return found


def real_exit_codes(name: str) -> list[int]:
    log = (REAL / name / "x.dag.dagman.log").read_text()
    return [int(code) for code in re.findall(r"\(return value (\d+)\)", log)]


def test_condor_submit_dag_says_what_htcondors_does(runs: dict[str, Run]) -> None:
    for name, file in (("diamond", "../final/submit_dag.txt"), ("again", "../rescue/submit_dag2.txt")):
        real = (REAL / "final" / file).read_text()
        real = re.sub(r"cluster \d+", "cluster N", re.sub(r"To monitor.*\n|exit 0\n", "", real))
        assert runs[name].said == real


@pytest.mark.parametrize("name", RAN)
def test_the_exit_code_is_htcondors(runs: dict[str, Run], name: str) -> None:
    assert runs[name].exit_code == real_exit_codes(name)[0]


def test_a_rescued_graph_ends_as_htcondors(runs: dict[str, Run]) -> None:
    assert runs["again"].exit_code == real_exit_codes("rescue")[1] == 0


@pytest.mark.parametrize("name", ["final", "preskip", "rescue", "splice"])
def test_nodes_ran_as_often_and_in_the_same_order(runs: dict[str, Run], name: str) -> None:
    here, real = ((home / "order").read_text().splitlines() for home in (runs[name].home, REAL / name))
    assert sorted(here) == sorted(real)
    if name != "rescue":  # whose B and C run beside each other
        assert here == real


def test_a_diamond_waits_for_both_of_its_middle_nodes(runs: dict[str, Run]) -> None:
    ran = (runs["diamond"].home / "order").read_text().split()
    assert (ran[0], sorted(ran[1:-1]), ran[-1]) == ("A", ["B", "C", "C"], "D")
    assert (runs["diamond"].home / "pre").exists()


@pytest.mark.parametrize(("name", "file"), [("preskip", "post.txt"), ("final", "final.txt")])
def test_scripts_were_told_the_same(runs: dict[str, Run], name: str, file: str) -> None:
    assert (runs[name].home / file).read_text() == (REAL / name / file).read_text()


@pytest.mark.parametrize("name", ["cycle", "final", "preskip", "rescue"])
def test_the_rescue_file_is_htcondors(runs: dict[str, Run], name: str) -> None:
    here = (runs[name].home / ("first.x.dag.rescue001" if name == "rescue" else "x.dag.rescue001")).read_text()
    real = (REAL / name / "x.dag.rescue001").read_text()
    assert re.sub(r"# Created .* UTC\n", "", here) == re.sub(r"# Created .* UTC\n", "", real)


@pytest.mark.parametrize("name", ["diamond", "splice"])
def test_a_graph_that_succeeds_leaves_no_rescue_file(runs: dict[str, Run], name: str) -> None:
    assert not list(runs[name].home.glob("*.rescue*"))
    assert not (runs[name].home / "x.dag.lock").exists()


@pytest.mark.parametrize("name", ["cycle", "diamond", "final", "preskip", "again", "splice"])
def test_the_metrics_are_htcondors(runs: dict[str, Run], name: str) -> None:
    folder = "rescue" if name == "again" else name
    here, real = (json.loads((home / "x.dag.metrics").read_text()) for home in (runs[name].home, REAL / folder))
    for varies in ("version", "start_time", "end_time", "duration", "dagman_id"):
        assert varies in here
        here.pop(varies), real.pop(varies)
    assert list(here.items()) == list(real.items())


def by_node(path: Path) -> dict[str, list[str]]:
    """What a JOBSTATE_LOG says of each node, without times and ids of jobs."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        _, node, rest = line.split(" ", 2)
        # Which of B and C is first numbered differs from run to run.
        found.setdefault(node, []).append(re.sub(r"(?<=- )[23]$", "N", re.sub(r"\b\d+\.\d+\b", "JOB", rest)))
    return found


def test_the_jobstate_log_is_htcondors_node_by_node(runs: dict[str, Run]) -> None:
    here, real = by_node(runs["again"].home / "jobstate.log"), by_node(REAL / "rescue" / "jobstate.log")
    assert {node: sorted(lines) for node, lines in here.items()} == {
        node: sorted(lines) for node, lines in real.items()
    }


def test_the_status_file_is_htcondors(runs: dict[str, Run]) -> None:
    here, real = (
        re.sub(r'= \d{10}; /\* ".*" \*/', "= NOW;", (home / "status.txt").read_text())
        for home in (runs["again"].home, REAL / "rescue")
    )
    assert here == real


def test_the_pictures_begin_and_end_as_htcondors(runs: dict[str, Run]) -> None:
    pictures = sorted(runs["again"].home.glob("x.dot.*"), key=lambda path: int(path.suffix[1:]))
    drawn = [re.sub(r" at .*\"", ' at NOW"', path.read_text()) for path in pictures]
    first, last = (
        re.sub(r" at .*\"", ' at NOW"', (REAL / "rescue" / name).read_text()) for name in ("x.dot.0", "x.dot.9")
    )
    assert (drawn[0], drawn[-1]) == (first, last)


HTCONDORS_LINES: Final = (
    # Its sockets, configuration and library.
    *(
        "Daemon",
        "Using config source",
        "config Macros",
        "CLASSAD_CACHING",
        "WARNING: Condor is running",
        "of this machine,",
    ),
    *("Can't open directory", "Warning: failed to get attribute DAGNodeName", r"DAGMAN_\w+ setting", "allow_events"),
    # The cycles of its loop, in which it reads the nodes' log.
    *("Currently monitoring", "Registering condor_event_timer", "Just submitted", "Reassigning the id of job"),
    "Initializing user log writer",
    # The tools that it runs.
    "Running: /P",
    # How it reads DAG files, line by line: what is wrong with one is told here with place and caret.
    *("DAGMAN will adjust edges", "Adjusting edges", "Parsing Splice", "Disabling log line cache", "Failed to parse"),
    *(
        r"DAG status: N \(DAG_STATUS_OK\)",
        "Processing error at",
        "ERROR: Unknown child node",
        "ERROR: Node X not found",
        "Submit warning",
    ),
)
"""What lines of HTCondor's log begin with that ours has not, as nothing of what they are about is here."""
OURS_LINES: Final = ("Warning: node X", "Writing .dot file")
"""And of ours that HTCondor's has not."""


def kind(line: str) -> str:
    """A line of the log, without its time and what differs from run to run."""
    line = re.sub(r"\(-?\d+\.-?\d+\.-?\d+\)", "(J)", re.sub(r"\{.*\}", "{}", line[18:]))
    line = re.sub(r"\$Condor.*\$", "$", line)
    line = re.sub(r"(?<![\w+])/[\w./-]+", "/P", re.sub(r"<.*?>", "<>", re.sub(r"\[.*\]", "[]", line)))
    line = re.sub(r"\b(node|Node Name:|job|PARENTS:|CHILDREN:) [A-Z][\w+]*([ ,][A-Z]\b)*", r"\1 X", line, flags=re.I)
    return re.sub(r"-?\d+(\.\d+)*", "N", line).strip()


def kinds(log: Path) -> set[str]:
    return {kind(line) for line in log.read_text().splitlines()}


@pytest.mark.parametrize("name", RAN)
def test_the_log_has_each_kind_of_line_that_htcondors_has(runs: dict[str, Run], name: str) -> None:
    here, real = (kinds(home / "x.dag.dagman.out") for home in (runs[name].home, REAL / name))
    every = set().union(*(kinds(path) for path in REAL.glob("*/x.dag.dagman.out")))
    missing = sorted(line for line in real - here if not re.match("|".join(HTCONDORS_LINES), line))
    # What is wrong with a file is told in words of our own.
    more = [] if name == "bad1" else sorted(line for line in here - every if not re.match("|".join(OURS_LINES), line))
    assert "\n".join(["missing:", *missing, "more:", *more]) == "missing:\nmore:"
