"""A parallel job over two hosts, of which one dies: its other nodes leave, and it runs again from its start. Real daemons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.hosts import DOMAIN, Hosts, four_hosts
from tests.whole.test_dedicated import ENDS, told
from tests.whole.test_parallel import PARALLEL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LEASE_S = 10
ALONE = (
    "exec 9> {place}/lock.$_CONDOR_PROCNO; flock -n 9 || touch {place}/twice; "
    "until test -e {place}/go; do sleep 0.1; done; echo $_CONDOR_PROCNO of $_CONDOR_NPROCS"
)
"""The kernel lets go of the lock with the last process of the node."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Two execute nodes of two cpus each, for the parallel jobs of one access point."""
    with four_hosts(NUM_CPUS="2", MEMORY="1024", DedicatedScheduler=f'"DedicatedScheduler@submit.{DOMAIN}"') as hosts:
        yield hosts


@pytest.mark.parametrize("policy", ENDS, ids=["none", "node 0", "all"])
@pytest.mark.parametrize("node", [0, 2])
def test_the_death_of_a_nodes_host_restarts_all(hosts: Hosts, policy: str, node: int) -> None:
    submit = hosts.submit
    place = submit.place(f"lost{node}")
    place.chmod(0o777)
    more = f"{policy}\njob_lease_duration = {LEASE_S}"
    with submit.as_user("nobody"):
        cluster = submit.submit(PARALLEL.format(nodes=3, script=ALONE.format(place=place), more=more), cwd=place)
        submit.until(lambda: "001" in told(place), "all nodes to run")
        (job,) = submit.jobs(str(cluster))
        slots = job.eval_str("AllRemoteHosts", "").split(",")
        assert len({slot.partition("@")[2] for slot in slots}) == 2
        (lost,) = (host for host in hosts.execute if host.name == slots[node].partition("@")[2])
        lost.kill()
        submit.until(lambda: "004" in told(place), "the job to be evicted")
        lost.start()
        submit.until(lambda: told(place).count("001") == 2, "all nodes to run again")
        (place / "go").touch()
        (done,) = submit.until_done(cluster)
    assert (done.eval("ExitCode"), done.eval("NumJobStarts"), done.eval("JobRunCount")) == (0, 2, 2)
    assert (place / "o.0").read_text() == "0 of 3\n"
    assert not (place / "twice").exists()
    hosts.central.until(
        lambda: not [ad for ad in hosts.central.slots() if ad.eval_str("State") == "Claimed"], "all slots to be free"
    )
