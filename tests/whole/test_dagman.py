"""Graphs of jobs, run by condor_dagman with real daemons."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool

NODE = """executable = /bin/sh
arguments = "-c 'echo $(JOB) >> order; test ! -e fails.$(JOB) || { rm fails.$(JOB); exit 3; }; exec sleep $(s:0)'"
transfer_executable = false
should_transfer_files = NO
log = $(JOB).log
queue
"""
DIAMOND = "".join(f"JOB {name} n.sub\n" for name in "ABCD") + "PARENT A CHILD B C\nPARENT B C CHILD D\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool() as pool:
        yield pool


@pytest.fixture
def home(pool: RealPool, request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own, in which the submitting user may write."""
    home = pool.directory / re.sub(r"\W", "_", request.node.name)
    home.mkdir()
    home.chmod(0o777)
    return home


def dagman(pool: RealPool, home: Path, dag: str, environment: str = "") -> int:
    """A job that runs the graph; its cluster."""
    (home / "n.sub").write_text(NODE)
    (home / "x.dag").write_text(dag)
    program = Path(sys.executable).with_name("condor_dagman")
    return pool.submit(
        f"universe = scheduler\nexecutable = {program}\n"
        'arguments = "-p 0 -f -l . -Lockfile x.dag.lock -AutoRescue 1 -Dag x.dag"\n'
        f'environment = "_CONDOR_DAGMAN_LOG=x.dag.dagman.out POOL_DIR={pool.directory} {environment}"\n'
        "remove_kill_sig = SIGUSR1\nlog = dagman.log\n"
        'My.OtherJobRemoveRequirements = "DAGManJobId =?= $(cluster)"\n'
        "on_exit_remove = ExitSignal =?= 11 || (ExitCode =!= undefined && ExitCode >= 0 && ExitCode <= 2)\nqueue\n",
        cwd=home,
    )


def order(home: Path) -> list[str]:
    return (home / "order").read_text().split()


def test_a_diamond_runs_in_order_with_a_retry_and_its_ad_says_how_it_went(pool: RealPool, home: Path) -> None:
    (home / "fails.C").touch()
    (home / "fails.C").chmod(0o666)
    cluster = dagman(pool, home, f"{DIAMOND}RETRY C 1\n")
    pool.until_done(cluster)
    ran = order(home)
    assert (ran[0], sorted(ran[1:4]), ran[4:]) == ("A", ["B", "C", "C"], ["D"])
    (ad,) = pool.history(str(cluster))
    names = ("ExitCode", "DAG_NodesTotal", "DAG_NodesDone", "DAG_Status", "DAG_JobsSubmitted", "DAG_JobsCompleted")
    assert [ad.eval_int(name) for name in names] == [0, 4, 4, 0, 5, 5]
    log = (home / "x.dag.nodes.log").read_text()
    assert log.count(f'[ DAGNodeName = "C"; JobBatchName = "x.dag+{cluster}" ]') == 2
    assert not (home / "x.dag.lock").exists()


def mine(pool: RealPool, cluster: int) -> list[int]:
    """The jobs of the graph's nodes that are in the queue, by state."""
    ads = pool.jobs("-constraint", f"DAGManJobId == {cluster}")
    return [ad.eval_int("JobStatus", 0) for ad in ads]


def test_a_dagman_that_is_killed_goes_on_and_runs_no_node_twice(pool: RealPool, home: Path) -> None:
    names = [f"N{number}" for number in range(5)]
    text = "".join(f"JOB {name} n.sub\n" for name in names)
    text += "".join(f"PARENT {one} CHILD {other}\n" for one, other in itertools.pairwise(names))
    cluster = dagman(pool, home, text)
    pool.until((home / "order").exists, "the first node")
    (pid,) = re.findall(r"\*\* PID = (\d+) ", (home / "x.dag.dagman.out").read_text())
    with suppress(ProcessLookupError):  # it may be over already: then nothing is to be recovered
        os.kill(int(pid), signal.SIGKILL)
    (ad,) = pool.until_done(cluster)
    assert (order(home), ad.eval_int("ExitCode"), ad.eval_int("DAG_NodesDone")) == (names, 0, 5)


@pytest.mark.slow
def test_a_limit_that_is_lowered_removes_jobs_if_it_shall_and_their_nodes_run_again(pool: RealPool, home: Path) -> None:
    (home / "own").write_text("DAGMAN_REMOVE_JOBS_AFTER_LIMIT_CHANGE = true\nDAGMAN_PRINT_JOB_TABLE_INTERVAL = 1\n")
    text = "".join(f"JOB {name} n.sub\n" for name in "ABC") + 'VARS ALL_NODES s="600"\n'
    cluster = dagman(pool, home, text, f"_CONDOR_DAGMAN_CONFIG_FILE={home / 'own'}")
    pool.until(lambda: len(mine(pool, cluster)) == 3, "the nodes' jobs")
    log = home / "x.dag.dagman.out"
    pool.until(lambda: "      ===      ===         ===" in log.read_text(), "the table of jobs")
    pool.tool("condor_qedit", str(cluster), "DAGMan_MaxJobs", "1")
    pool.until(lambda: len(mine(pool, cluster)) == 1, "the end of two of them")
    # A condor_dagman that comes later knows that they are owed, too.
    pool.tool("condor_hold", str(cluster))
    pool.until_status(cluster, 5)
    pool.tool("condor_release", str(cluster))
    pool.until(lambda: "done with RECOVERY" in log.read_text(), "the recovery")
    pool.tool("condor_qedit", str(cluster), "DAGMan_MaxJobs", "3")
    pool.until(lambda: len(mine(pool, cluster)) == 3, "the nodes' jobs again")
    assert log.read_text().count("(retry #1 of 1)...") >= 2
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)


def test_a_removed_graph_takes_its_jobs_along_and_leaves_a_rescue_file(pool: RealPool, home: Path) -> None:
    cluster = dagman(pool, home, 'JOB A n.sub\nVARS A s="600"\nJOB B n.sub\nPARENT A CHILD B\n')
    pool.until(lambda: mine(pool, cluster) == [2], "the node's job")
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    pool.until(lambda: mine(pool, cluster) == [], "the end of the node's job")
    assert "# Nodes premarked DONE: 0\n" in (home / "x.dag.rescue001").read_text()


def test_a_held_graph_leaves_its_jobs_which_go_when_it_is_removed(pool: RealPool, home: Path) -> None:
    cluster = dagman(pool, home, 'JOB A n.sub\nVARS A s="600"\n')
    pool.until(lambda: mine(pool, cluster) == [2], "the node's job")
    pool.tool("condor_hold", str(cluster))
    pool.until_status(cluster, 5)
    assert mine(pool, cluster) == [2]
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    pool.until(lambda: mine(pool, cluster) == [], "the end of the node's job")


def test_the_log_says_at_once_that_the_schedd_is_lost_and_when_it_is_there_again(pool: RealPool, home: Path) -> None:
    # Of a graph in the queue the new schedd ends what runs and begins it anew; one on the command line lives on.
    (home / "n.sub").write_text(NODE)
    (home / "x.dag").write_text('JOB A n.sub\nVARS A s="600"\n')
    log = home / "default.dagman.out"
    program = Path(sys.executable).with_name("condor_dagman")
    with subprocess.Popen(
        [program, *["-p", "0", "-f", "-l", ".", "-Lockfile", "x.dag.lock", "-Dag", "x.dag"]],
        cwd=home, env=pool.env(), stdout=subprocess.DEVNULL, **as_account(pool.user),
    ) as process:  # fmt: skip
        pool.until(lambda: log.exists() and "ULOG_EXECUTE" in log.read_text(), "the node's job")
        pool.restart_of("schedd")
        pool.until(lambda: "The schedd is there again, after" in log.read_text(), "the schedd in the graph's log")
        assert re.search(r"Lost the schedd \(.+\); trying until it is there\n", log.read_text())
        process.send_signal(signal.SIGUSR1)
        assert process.wait(DEADLINE_S) == 2
