"""Unmodified programs of Open MPI and MPICH, as jobs of the parallel universe. Real daemons; the MPIs of the machine.

On one host, and over two that have a network and a name each, and reach each other by that network alone.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.hosts import new_host_of
from tests.whole.networks import NetworkHost, network, why_not
from tests.whole.real_pool import RealPool, real_pool

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "deploy" / "libexec"
RING = ROOT / "tests" / "cases" / "mpi" / "ring.c"
KINDS = {"openmpiscript": "mpicc.openmpi", "mp2script": "mpicc.mpich"}
JOB = """universe = parallel
executable = {script}
arguments = ring
transfer_input_files = ring
should_transfer_files = yes
machine_count = {nodes}
request_cpus = {cpus}
request_memory = 64
output = o.$(Node)
error = e.$(Node)
log = job.log
{more}
queue
"""

NEWUTS = 0x04000000
ADDRESSES = {"central": "10.98.0.2", "submit": "10.98.0.3", "execute1": "10.98.0.4", "execute2": "10.98.0.5"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """A host with four cpus for parallel jobs."""
    with real_pool(
        NUM_CPUS=4,
        SCHEDD_NAME="here@$(FULL_HOSTNAME)",
        DedicatedScheduler='"DedicatedScheduler@$(SCHEDD_NAME)"',
        RANK="Scheduler =?= $(DedicatedScheduler)",
    ) as pool:
        yield pool


class NamedHost(NetworkHost):
    """A host whose kernel calls it by its own name: what MPI takes for one machine has one."""

    def __init__(self, directory: Path, name: str, address: str) -> None:
        super().__init__(directory, name, address)
        named = f"ctypes.CDLL(None).unshare({NEWUTS}); socket.sethostname({name!r})"
        run = "runpy.run_module('daemons', run_name='__main__', alter_sys=True)"
        self.program = ("-c", f"import ctypes, runpy, socket; {named}; {run}")


@pytest.fixture
def submit() -> Iterator[NamedHost]:
    """The access point of a pool with two execute nodes."""
    if why := why_not():
        pytest.skip(why)
    with ExitStack() as stack:
        net = stack.enter_context(network())
        hosts = []
        for name, address in ADDRESSES.items():
            net.add(address)
            hosts.append(stack.enter_context(new_host_of(NamedHost, name, address)))
            hosts[-1].network = net
        central, submit, *execute = hosts
        central.be_central({"SHARED_PORT_PORT": "9618"})
        submit.join(central, "submit", {"SHARED_PORT_PORT": "9618"})
        for node in execute:
            knobs = {"NUM_CPUS": "2", "DedicatedScheduler": f'"DedicatedScheduler@{submit.name}"'}
            node.join(central, "execute", {"SHARED_PORT_PORT": "9618", **knobs})
        names = {node.name for node in execute}
        central.until(lambda: {ad["Machine"] for ad in central.slots()} == names, "the slots of both nodes")
        yield submit


def run(pool: RealPool, place: Path, script: str, nodes: int, cpus: int, more: str = "") -> ClassAd:
    """Run the ring; the job, which has ended well, with a line of each rank."""
    if shutil.which(KINDS[script]) is None:
        pytest.skip(f"there is no {KINDS[script]}")
    subprocess.run([KINDS[script], RING, "-o", place / "ring"], check=True)
    shutil.copy(SCRIPTS / script, place)
    (job,) = pool.until_done(pool.submit(JOB.format(script=script, nodes=nodes, cpus=cpus, more=more), cwd=place))
    ranks = nodes * cpus
    total = ranks * (ranks - 1) // 2
    lines = [line.partition(" on ")[0] for line in (place / "o.0").read_text().splitlines()]
    assert job.eval_int("ExitCode") == 0, (place / "e.0").read_text()
    assert sorted(lines) == [*(f"rank {rank} of {ranks}" for rank in range(ranks)), f"ring {total}"]
    assert (place / "o.0").read_text().count(f"sum {total}\n") == ranks
    return job


@pytest.mark.parametrize("script", KINDS)
@pytest.mark.parametrize(
    ("nodes", "cpus", "more"), [(3, 1, ""), (2, 2, '+ParallelShutdownPolicy = "WAIT_FOR_ALL"')], ids=["3x1", "2x2"]
)
def test_a_ring_and_a_sum_over_all_ranks(pool: RealPool, script: str, nodes: int, cpus: int, more: str) -> None:
    run(pool, pool.place(f"{script}.{nodes}"), script, nodes, cpus, more)


@pytest.mark.parametrize("script", KINDS)
def test_the_same_over_two_hosts(submit: NamedHost, script: str) -> None:
    place = submit.place(script)
    with submit.as_user("nobody"):
        run(submit, place, script, 2, 2)
    hosts = [line.partition(" on ")[2].partition(":")[0] for line in (place / "o.0").read_text().splitlines()]
    assert {host: hosts.count(host) for host in set(hosts) - {""}} == {"execute1": 2, "execute2": 2}
