"""Open MPI over two hosts that are containers, by the script that comes with the pool: a ring, and a sum of all ranks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.nodes.image import MPI_BASE, ROOT

if TYPE_CHECKING:
    from tests.nodes.cluster import Cluster

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(900)]

HOME, ALICE = "/home/alice", 1000
CPUS, NODES = 2, 2
RANKS = CPUS * NODES
JOB = f"""universe = parallel
executable = {{script}}
arguments = ring
transfer_input_files = ring
should_transfer_files = yes
machine_count = {NODES}
request_cpus = {CPUS}
request_memory = 64
output = {{script}}.out.$(Node)
error = {{script}}.err.$(Node)
log = log
queue
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An access point, and two execute nodes for its parallel jobs; no user has a key for ssh."""
    from tests.nodes.cluster import new_cluster  # the container engine's client is for these tests alone

    docker = shutil.which("docker") or "docker"
    if subprocess.run([docker, "image", "inspect", MPI_BASE], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no image {MPI_BASE}: deploy/containers/engine mpi makes it")
    with new_cluster(MPI_BASE) as cluster:
        knobs = {"NUM_CPUS": str(CPUS), "MEMORY": "1024", "DedicatedScheduler": '"DedicatedScheduler@submit"'}
        cluster.start(execute=NODES, knobs=knobs)
        yield cluster


def test_a_ring_and_a_sum_over_two_hosts(cluster: Cluster) -> None:
    script, compiler = "openmpiscript", "mpicc.openmpi"
    program = (ROOT / "tests" / "cases" / "mpi" / "ring.c").read_text()
    cluster.put("submit", HOME, {"ring.c": program, "job.sub": JOB.format(script=script)}, uid=ALICE)
    cluster.put("submit", HOME, {script: (ROOT / "deploy" / "libexec" / script).read_text()}, uid=ALICE, mode=0o755)
    cluster.tool("submit", compiler, "ring.c", "-o", "ring", user="alice", cwd=HOME, check=True)
    said = cluster.tool("submit", "condor_submit", "-terse", "job.sub", user="alice", cwd=HOME, check=True)
    job = said.partition(" ")[0]
    (done,) = cluster.until(lambda: cluster.ads("condor_history", job, host="submit"), "the end of the job")
    out, errors = (cluster.tool("submit", "cat", f"{HOME}/{script}.{what}.0", check=True) for what in ("out", "err"))
    assert done.eval_int("ExitCode", -1) == 0, errors

    total = RANKS * (RANKS - 1) // 2
    ranks = [line.partition(" on ") for line in out.splitlines() if line.startswith("rank ")]
    assert sorted(rank for rank, _, _ in ranks) == [f"rank {rank} of {RANKS}" for rank in range(RANKS)]
    assert sorted(host.partition(":")[0] for _, _, host in ranks) == ["execute1"] * CPUS + ["execute2"] * CPUS
    assert f"ring {total}\n" in out
    assert out.count(f"sum {total}\n") == RANKS
