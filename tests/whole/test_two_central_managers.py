"""Two central managers with real daemons: the second takes over when the first is killed, and running jobs go on."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pool.classad import parse_longs
from tests.whole.hosts import Host, new_host

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

RUNNING = 2
TAKE_OVER_S = 60.0


class Pool:
    """Two central managers, an access point and an execute node."""

    def __init__(self, first: Host, second: Host, submit: Host, node: Host) -> None:
        self.first, self.second, self.submit, self.node = first, second, submit, node

    def factor(self, host: Host, user: str) -> str:
        """The priority factor of a user as that host's negotiator has it."""
        said = host.tool("condor_userprio", "-negotiator", "-allusers", "-long", check=False)
        mine = [ad for ad in parse_longs(said.splitlines()) if ad.eval_str("Name") == user]
        return str(mine[0]["PriorityFactor"]) if mine else ""


def free_port(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        return int(one.getsockname()[1])


@pytest.fixture
def pool() -> Iterator[Pool]:
    with ExitStack() as stack:
        names = (("central1", 2), ("central2", 3), ("submit", 4), ("execute", 5))
        first, second, submit, node = (stack.enter_context(new_host(name, f"127.0.0.{last}")) for name, last in names)
        ports = {host: free_port(host.address) for host in (first, second)}
        both = ", ".join(f"{host.address}:{port}" for host, port in ports.items())
        known = {"COLLECTOR_HOST": both, "HAD_LIST": f"{first.address}, {second.address}"}
        first.be_central({**known, "SHARED_PORT_PORT": str(ports[first])})
        second.join(first, "central", {**known, "SHARED_PORT_PORT": str(ports[second])})
        submit.join(first, "submit", {"COLLECTOR_HOST": both})
        node.join(first, "execute", {"COLLECTOR_HOST": both, "NUM_CPUS": "4"})
        for host in (first, second, submit):
            host.until(lambda host=host: {ad["Machine"] for ad in host.slots()} == {node.name}, "the node's slots")
        yield Pool(first, second, submit, node)


def terms(host: Host) -> list[int]:
    """Of the negotiators whose matches this schedd has taken, in order."""
    text = (host.directory / "log" / "SchedLog").read_text()
    return [int(term) for term in re.findall(r"Takes matches\..*term=(\d+)", text)]


def test_the_second_takes_over_within_a_minute_and_the_first_comes_back(pool: Pool, tmp_path: Path) -> None:
    first, second, submit = pool.first, pool.second, pool.submit
    home = submit.place("jobs")
    wait = f"executable = /bin/sh\narguments = \"-c 'while [ ! -e {home}/go ]; do sleep 0.1; done'\"\n"
    with submit.as_user("nobody"):
        before = submit.submit(f"{wait}log = log\nqueue\n", cwd=home)
        submit.until_status(before, RUNNING)
    user = str(submit.jobs(str(before))[0]["User"])
    first.tool("condor_userprio", "-setfactor", user, "77")
    second.until(lambda: pool.factor(second, user).startswith("77"), "the accounts at the second")

    assert first.master is not None
    dying = [first.master.pid, first.pid_of("negotiator"), first.pid_of("collector")]
    for pid in dying:
        os.kill(pid, signal.SIGKILL)
    first.kill()
    killed_at = time.monotonic()
    with submit.as_user("nobody"):
        after = submit.submit(f"{wait}log = log\nqueue\n", cwd=home)
        submit.until_status(after, RUNNING)
    took_s = time.monotonic() - killed_at
    assert took_s < TAKE_OVER_S
    assert pool.factor(second, user).startswith("77")
    ads = ("condor_status", "-negotiator", "-af", "Name")
    submit.until(lambda: submit.tool(*ads).split() == [second.name], "the second's ad alone")
    second.tool("condor_userprio", "-setfactor", user, "78")

    first.start()
    first.until(lambda: pool.factor(first, user).startswith("78"), "the accounts at the first")
    (home / "go").touch()
    for cluster in (before, after):
        submit.until_gone(cluster)
    with submit.as_user("nobody"):
        submit.until_gone(submit.submit("executable = /bin/true\nqueue\n", cwd=home))
    log = (home / "log").read_text()
    assert len(re.findall(r"^001 ", log, re.MULTILINE)) == 2  # no job has started twice
    assert re.findall(r"^(?:004|022|024) ", log, re.MULTILINE) == []  # none was evicted, or noticed anything
    found = terms(submit)
    assert (found == sorted(found), len(set(found))) == (True, 2), found
    print(f"the second had the next job running {took_s:.0f} s after the first was killed")
