"""Every tool that submits does it alike: the description knows its cluster's number, and what is odd is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import minipool
from tests.whole.real_pool import DEADLINE_S, RealPool


def ran(here: Path, *argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """A tool, in a directory of the pool."""
    program = [str(Path(sys.executable).with_name(argv[0])), *argv[1:]]
    return subprocess.run(
        program, cwd=here, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


@pytest.mark.parametrize("options", [(), ("-spool",), ("-factory",), ("-verbose",)])
def test_submit_knows_the_cluster_in_every_mode(running: RealPool, here: Path, options: tuple[str, ...]) -> None:
    said = "executable = /bin/true\ntransfer_executable = false\nrequirements = false\narguments = $(Cluster).$(Process)\nqueue 2\n"
    (here / "job.sub").write_text(said)
    done = ran(here, "condor_submit", "-terse", *options, "job.sub")
    assert done.returncode == 0, done.stderr
    cluster = int(done.stdout.partition(".")[0])
    with minipool.connect() as pool:
        running.until(lambda: len(pool.jobs(cluster)) == 2, "the cluster's jobs")
        assert {ad.eval("Args") for ad in pool.jobs(cluster)} == {f"{cluster}.{proc}" for proc in range(2)}
        pool.remove(cluster)


def test_qsub_knows_the_cluster_and_says_what_is_odd(here: Path) -> None:
    done = ran(here, "condor_qsub", "-h", "-N", "n$(Cluster)", "-l", "nodes=1:memory", "-b", "y", "-cwd", "true")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("WARNING: your Requirements expression refers to TARGET.Memory. This is obsolete.")
    cluster = int(done.stdout.split()[2])
    with minipool.connect() as pool:
        [ad] = pool.jobs(cluster)
        assert ad["JobBatchName"] == f"n{cluster}"
        pool.remove(cluster)


@pytest.mark.parametrize("when", ["13010000", "02300000", "2560", "0000.99"])
def test_a_moment_that_never_comes_queues_nothing(here: Path, when: str) -> None:
    done = ran(here, "condor_qsub", "-a", when, "-b", "y", "true")
    assert (done.returncode, done.stderr) == (1, f"-a {when}: there is no such moment\n")


def test_a_wrong_list_of_clusters_to_wait_for_queues_nothing(here: Path) -> None:
    with minipool.connect() as pool:
        before = len(pool.jobs())
        done = ran(here, "condor_qsub", "-hold_jid", "12,x", "-b", "y", "true")
        assert (done.returncode, done.stderr) == (1, "-hold_jid 12,x: x is not the number of a cluster\n")
        assert len(pool.jobs()) == before
