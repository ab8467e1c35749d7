"""Collectors that forward to the next higher one, on hosts with a network each: machines report to the lowest, jobs are
matched at the top. Daemons are killed and networks cut on the way; what is known at the top is true again afterwards."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.whole.hosts import new_host_of
from tests.whole.networks import Network, NetworkHost, network, why_not

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

RUNNING = 2
PORT = {"SHARED_PORT_PORT": "9618"}
ADDRESSES = {name: f"10.99.0.{last}" for last, name in enumerate(("top", "middle", "leaf", "submit", "near", "far"), 2)}
SHORT_LIFE = {"CLASSAD_LIFETIME": "30", "UPDATE_INTERVAL": "8"}


class Tree:
    """A collector at the top, one in the middle and a leaf; machine `near` reports to the middle one, `far` to the leaf."""

    def __init__(self, net: Network, hosts: dict[str, NetworkHost]) -> None:
        self.net, self.hosts = net, hosts
        self.top, self.submit = hosts["top"], hosts["submit"]
        self.home = self.submit.place("jobs")

    def machines(self, at: str = "top", constraint: str = "PartitionableSlot") -> list[str]:
        """The machines that the collector of this host knows."""
        said = self.top.tool("condor_status", "-pool", f"{ADDRESSES[at]}:9618", "-const", constraint, "-af", "Machine")
        return sorted(name.partition(".")[0] for name in said.split())

    def until_known(self, at: str, machines: list[str], constraint: str = "PartitionableSlot") -> None:
        """Wait until these are all."""
        self.top.until(lambda: self.machines(at, constraint) == machines, f"{machines} at {at} ({constraint})")

    def start(self, machine: str, count: int = 1) -> int:
        """Jobs at that machine, which end when they may."""
        name = self.hosts[machine].name
        with self.submit.as_user("nobody"):
            return self.submit.submit(
                f"executable = /bin/sh\narguments = \"-c 'while [ ! -e {self.home}/$(Cluster) ]; do sleep 0.2; done'\"\n"
                f'request_memory = 64\nlog = log\nrequirements = TARGET.Machine == "{name}"\nqueue {count}\n',
                cwd=self.home,
            )

    def run_one(self, machine: str) -> None:
        """A job there, from its begin to its end."""
        cluster = self.start(machine)
        self.submit.until_status(cluster, RUNNING)
        self.end(cluster)

    def end(self, cluster: int) -> None:
        """Let jobs end."""
        (self.home / str(cluster)).touch()
        self.submit.until_gone(cluster)

    def kill(self, host: str) -> None:
        """Kill the collector of a host, which its master starts again."""
        there = self.hosts[host]
        with self.net.at(there.address):
            before = there.pid_of("collector")
            os.kill(before, signal.SIGKILL)
            there.until(lambda: there.pid_of("collector") not in (0, before), f"another collector at {host}")


@pytest.fixture
def tree() -> Iterator[Tree]:
    if why := why_not():
        pytest.skip(why)
    with ExitStack() as stack:
        net = stack.enter_context(network())
        hosts: dict[str, NetworkHost] = {}
        for name, address in ADDRESSES.items():
            net.add(address)
            hosts[name] = stack.enter_context(new_host_of(NetworkHost, name, address))
            hosts[name].network = net
        top = hosts["top"]
        top.be_central({**PORT, **SHORT_LIFE})
        for name, above in (("middle", "top"), ("leaf", "middle")):
            knobs = {"DAEMON_LIST": "MASTER, COLLECTOR", "CONDOR_VIEW_HOST": f"{ADDRESSES[above]}:9618"}
            hosts[name].join(top, "central", {**PORT, **SHORT_LIFE, **knobs})
        hosts["submit"].join(top, "submit", PORT)
        for name, below in (("near", "middle"), ("far", "leaf")):
            knobs = {"STARTD.COLLECTOR_HOST": f"{ADDRESSES[below]}:9618", "NUM_CPUS": "4"}
            hosts[name].join(top, "execute", {**PORT, **SHORT_LIFE, **knobs})
        tree = Tree(net, hosts)
        tree.until_known("top", ["far", "near"])
        yield tree


def test_what_is_known_at_the_top_is_true_again_after_whatever_happens_on_the_way(tree: Tree) -> None:
    assert (tree.machines("middle"), tree.machines("leaf")) == (["far", "near"], ["far"])
    stays = [tree.start(machine, count=2) for machine in ("near", "far")]
    for cluster in stays:
        tree.submit.until_status(cluster, RUNNING, count=2)
    tree.until_known("top", ["far", "far", "near", "near"], 'DynamicSlot && State == "Claimed"')

    for host in ("leaf", "middle", "top"):
        print("killed:", host)
        tree.kill(host)
        tree.until_known("top", ["far", "near"])
        tree.run_one("far")

    ends = tree.start("far")
    tree.submit.until_status(ends, RUNNING)
    tree.until_known("top", ["far"] * 3, 'State == "Claimed" && regexp("^far", Machine)')
    print("cut: middle from top")
    with tree.net.parted(ADDRESSES["middle"], ADDRESSES["top"]):
        tree.end(ends)
        tree.until_known("leaf", ["far"] * 2, 'State == "Claimed"')
        tree.until_known("top", [])  # their lifetime is over
    tree.until_known("top", ["far", "far", "near", "near"], 'State == "Claimed"')
    tree.run_one("near")

    print("unplugged: leaf")
    with tree.net.unplugged(ADDRESSES["leaf"]):
        tree.run_one("near")
        tree.until_known("top", ["near"])
    tree.run_one("far")
    for cluster in stays:
        tree.end(cluster)
    log = (tree.home / "log").read_text()
    assert re.findall(r"^(?:004|022|024) ", log, re.MULTILINE) == []  # no running job has noticed
    tree.until_known("top", [], "DynamicSlot")
