"""Central managers and access points whose daemons are killed and whose networks are cut, in an order that is drawn:
running jobs notice nothing, others run soon, and never do two negotiate at once, as the logs of all say."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.whole.hosts import new_host_of
from tests.whole.leads import SETTINGS, complaints, led, taken
from tests.whole.networks import Network, NetworkHost, network, why_not

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

RUNNING = 2
SEED = int(os.environ.get("POOL_FAULTS_SEED", "20"))
CENTRAL = ("10.99.0.2", "10.99.0.3")
OTHERS = {"submit1": "10.99.0.4", "submit2": "10.99.0.5", "execute": "10.99.0.6"}
KNOBS = {
    **SETTINGS,
    "SHARED_PORT_PORT": "9618",
    "HAD_CONNECTION_TIMEOUT": "2",
    "HAD_LIST": ", ".join(CENTRAL),
    "COLLECTOR_HOST": ", ".join(f"{address}:9618" for address in CENTRAL),
}


class Pool:
    """Two central managers, two access points and an execute node, each with a network of its own."""

    def __init__(self, net: Network, hosts: dict[str, NetworkHost]) -> None:
        self.net, self.drawn = net, random.Random(SEED)
        self.central = [hosts["central1"], hosts["central2"]]
        self.submit = [hosts["submit1"], hosts["submit2"]]
        self.node = hosts["execute"]

    def leader(self) -> NetworkHost:
        """The central manager that has led last."""
        return max(self.central, key=lambda host: max(led(log_of(host, "Negotiator")), default=0))

    def standby(self) -> NetworkHost:
        """The other one."""
        return next(host for host in self.central if host is not self.leader())

    def complaints(self) -> list[str]:
        """What the checker says of all logs."""
        # First those of the schedds: whoever leads in a term that is in them has said so before.
        schedds = {host.name: log_of(host, "Sched") for host in self.submit}
        return complaints({host.name: log_of(host, "Negotiator") for host in self.central}, schedds)


def log_of(host: NetworkHost, subsystem: str) -> str:
    path = host.directory / "log" / f"{subsystem}Log"
    return path.read_text() if path.exists() else ""


@pytest.fixture
def pool() -> Iterator[Pool]:
    if why := why_not():
        pytest.skip(why)
    with ExitStack() as stack:
        net = stack.enter_context(network())
        hosts: dict[str, NetworkHost] = {}
        for name, address in {"central1": CENTRAL[0], "central2": CENTRAL[1], **OTHERS}.items():
            net.add(address)
            host = hosts[name] = stack.enter_context(new_host_of(NetworkHost, name, address))
            host.network = net
        first = hosts["central1"]
        first.be_central(KNOBS)
        hosts["central2"].join(first, "central", KNOBS)
        other = {name: value for name, value in KNOBS.items() if name != "HAD_LIST"}
        for name, duty in (("submit1", "submit"), ("submit2", "submit"), ("execute", "execute")):
            hosts[name].join(first, duty, {**other, "NUM_CPUS": "4"})
        yield Pool(net, hosts)


def start_job(host: NetworkHost, description: str, home: Path) -> int:
    with host.as_user("nobody"):
        return host.submit(description, cwd=home)


def run_a_job(host: NetworkHost, home: Path) -> None:
    """A job that takes a negotiation."""
    before = len(taken(log_of(host, "Sched")))
    host.until_gone(start_job(host, "executable = /bin/true\nqueue\n", home))
    assert len(taken(log_of(host, "Sched"))) > before


def kill(host: NetworkHost, daemon: str) -> AbstractContextManager[None]:
    """The master starts another at once."""
    os.kill(host.until(lambda: host.pid_of(daemon), f"a {daemon} to kill"), signal.SIGKILL)
    return nullcontext()


def kill_schedds(pool: Pool, how_many: int) -> AbstractContextManager[None]:
    """Returns when their masters have them up again."""
    for host in pool.drawn.sample(pool.submit, how_many):
        host.restart_of("schedd")
    return nullcontext()


@contextmanager
def both(first: Callable[[], AbstractContextManager[None]], then: Callable[[], object]) -> Iterator[None]:
    """The second happens while the first lasts."""
    with first():
        then()
        yield


def faults(pool: Pool) -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """What goes wrong, each for the time of a block."""
    parted, one, all_of = (
        partial(pool.net.parted, *CENTRAL),
        partial(kill_schedds, pool, 1),
        partial(kill_schedds, pool, 2),
    )
    return {
        "a schedd": one,
        "both schedds, as the two do not see each other": lambda: both(parted, all_of),
        "the leader's negotiator and both schedds": lambda: both(lambda: kill(pool.leader(), "negotiator"), all_of),
        "a schedd, as nobody reaches the leader": lambda: both(lambda: pool.net.unplugged(pool.leader().address), one),
        "the leader's negotiator": lambda: kill(pool.leader(), "negotiator"),
        "the two do not see each other": parted,
        "the leader's collector": lambda: kill(pool.leader(), "collector"),
        "the standby's negotiator": lambda: kill(pool.standby(), "negotiator"),
        "nobody reaches the leader": lambda: pool.net.unplugged(pool.leader().address),
        "the standby's collector": lambda: kill(pool.standby(), "collector"),
    }


def test_whatever_dies_or_is_cut_off_never_do_two_negotiate_at_once(pool: Pool) -> None:
    submit = pool.submit[0]
    homes = {host.name: host.place("jobs") for host in pool.submit}
    home = homes[submit.name]
    wait = f"executable = /bin/sh\narguments = \"-c 'while [ ! -e {home}/go ]; do sleep 0.2; done'\"\n"
    long = start_job(submit, f"{wait}log = log\nqueue 2\n", home)
    submit.until_status(long, RUNNING, count=2)
    print(f"drawn with POOL_FAULTS_SEED={SEED}")
    drawn = list(faults(pool).items())
    pool.drawn.shuffle(drawn)
    for what, happens in drawn:
        print(what)
        with happens():
            for host in pool.submit:
                run_a_job(host, homes[host.name])
        assert pool.complaints() == [], what
    (home / "go").touch()
    submit.until_gone(long)
    log = (home / "log").read_text()
    assert len(re.findall(r"^001 ", log, re.MULTILINE)) == 2  # none has started twice
    assert re.findall(r"^(?:004|022|024) ", log, re.MULTILINE) == []  # none was evicted, or noticed anything
    assert len({host.name for host in pool.central if led(log_of(host, "Negotiator"))}) == 2
