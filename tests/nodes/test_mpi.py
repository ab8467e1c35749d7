"""Open MPI and MPICH over two hosts and three that are containers, by the scripts that come with the pool: a ring, and a sum of all ranks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.nodes.image import MPI_BASES, ROOT

if TYPE_CHECKING:
    from tests.nodes.cluster import Cluster

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(900)]

HOME, ALICE = "/home/alice", 1000
CPUS, HOSTS = 2, 3
COMPILERS = {"openmpiscript": "mpicc.openmpi", "mp2script": "mpicc.mpich"}
JOB = f"""universe = parallel
executable = {{script}}
arguments = ring
transfer_input_files = ring
should_transfer_files = yes
machine_count = {{nodes}}
request_cpus = {CPUS}
request_memory = 64
output = out.$(Node)
error = err.$(Node)
log = log
queue
"""


@pytest.fixture(scope="module", params=COMPILERS)
def mpi(request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, str]]:
    """An access point, and three execute nodes for its parallel jobs, with an MPI; its script. No user has a key for ssh."""
    from tests.nodes.cluster import new_cluster  # the container engine's client is for these tests alone

    base = MPI_BASES[request.param]
    docker = shutil.which("docker") or "docker"
    if subprocess.run([docker, "image", "inspect", base], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no image {base}: deploy/containers/engine mpi makes it")
    with new_cluster(base) as cluster:
        knobs = {"NUM_CPUS": str(CPUS), "MEMORY": "1024", "DedicatedScheduler": '"DedicatedScheduler@submit"'}
        cluster.start(execute=HOSTS, knobs=knobs)
        program = (ROOT / "tests" / "cases" / "mpi" / "ring.c").read_text()
        script = (ROOT / "deploy" / "libexec" / request.param).read_text()
        cluster.put("submit", HOME, {"ring.c": program}, uid=ALICE)
        cluster.put("submit", HOME, {request.param: script}, uid=ALICE, mode=0o755)
        cluster.tool("submit", COMPILERS[request.param], "ring.c", "-o", "ring", user="alice", cwd=HOME, check=True)
        yield cluster, request.param


@pytest.mark.parametrize("nodes", [2, HOSTS])
def test_a_ring_and_a_sum_over_several_hosts(mpi: tuple[Cluster, str], nodes: int) -> None:
    cluster, script = mpi
    cluster.put("submit", HOME, {"job.sub": JOB.format(script=script, nodes=nodes)}, uid=ALICE)
    said = cluster.tool("submit", "condor_submit", "-terse", "job.sub", user="alice", cwd=HOME, check=True)
    job = said.partition(" ")[0]
    (done,) = cluster.until(lambda: cluster.ads("condor_history", job, host="submit"), "the end of the job")
    out, errors = (cluster.tool("submit", "cat", f"{HOME}/{what}.0", check=True) for what in ("out", "err"))
    assert done.eval_int("ExitCode", -1) == 0, errors

    size = CPUS * nodes
    total = size * (size - 1) // 2
    ranks = [line.partition(" on ") for line in out.splitlines() if line.startswith("rank ")]
    assert sorted(rank for rank, _, _ in ranks) == sorted(f"rank {rank} of {size}" for rank in range(size))
    hosts = [host.partition(":")[0] for _, _, host in ranks]
    assert {hosts.count(host) for host in hosts} == {CPUS}
    assert len(set(hosts)) == nodes
    assert f"ring {total}\n" in out
    assert out.count(f"sum {total}\n") == size
