"""condor_defrag over several machines, with real daemons: what jobs that need a whole machine wait for in vain beside small ones they get.

Each line of tests/cases/defrag/live.jsonl is a policy, and the `outcome` that a pool of HTCondor 25.14 had with the jobs that
are submitted here: three machines of four cores, which are `Place` one, two and three and let jobs retire for half an hour.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pool.classad import ClassAd, parse_longs
from tests.whole.flocks import configure
from tests.whole.hosts import Host, new_host
from tests.whole.real_pool import NotInTime

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

LINES: Final = (Path(__file__).parents[1] / "cases" / "defrag" / "live.jsonl").read_text().splitlines()
CASES: Final = {case["name"]: case for case in map(json.loads, LINES)}
PLACES: Final = ("one", "two", "three")
MACHINE: Final = {
    "NUM_CPUS": "4",
    "MEMORY": "4096",
    "MAXJOBRETIREMENTTIME": "1800",
    "STARTD_ATTRS": "Place, Order",
    "UPDATE_INTERVAL": "5",
}
JOB: Final = "executable = /bin/sh\nrequest_memory = 64\nrequest_disk = 1024\ntransfer_executable = false\n"
STREAM: Final = "Seconds = 2 + ($(Process) % 4)\narguments = \"-c 'sleep $INT(Seconds)'\"\nqueue 600\n"
RUNNING: Final = 2
TOLD_S: Final = 30.0


class Pool:
    """A central manager with a defragmenter, an access point, and the machines."""

    def __init__(self, central: Host, submit: Host, machines: Mapping[str, Host]) -> None:
        self.central, self.submit, self.machines = central, submit, machines
        self._home = submit.directory

    def move(self) -> None:
        """To a directory without files of jobs before."""
        self._home = self.submit.place("jobs")

    def start(self, name: str, description: str) -> int:
        """Queue jobs that log under this name."""
        with self.submit.as_user("nobody"):
            return self.submit.submit(f"{JOB}log = {name}.log\n{description}", cwd=self._home)

    def until_over(self, cluster: int) -> None:
        """Wait for the end of jobs as their user, who is told of none before his log tells of it."""
        with self.submit.as_user("nobody"):
            self.submit.until_gone(cluster)

    def go(self, name: str) -> None:
        """Let jobs end that wait for it."""
        (self._home / name).touch()

    def until_gone(self, name: str) -> str:
        """A description's arguments: wait for that."""
        return f"arguments = \"-c 'while [ ! -e {self._home}/{name} ]; do sleep 0.2; done'\"\n"

    def count(self, name: str, number: str) -> int:
        """How many events of this number are in the log."""
        return len(re.findall(rf"^{number} \(", (self._home / f"{name}.log").read_text(), re.MULTILINE))

    def ad(self) -> ClassAd | None:
        """The defragmenter's own."""
        found = [*parse_longs(self.central.tool("condor_status", "-defrag", "-long").splitlines())]
        return found[0] if found else None

    @contextmanager
    def defragmented(self, config: Mapping[str, Any]) -> Iterator[None]:
        """Within the block a defragmenter of this policy is there, which begins its figures anew."""
        file = self.central.directory / "config"
        before = file.read_text()
        state = f"$(SPOOL)/{self._home.name}"  # one of its own: it has not looked before
        policy = {"STATE_FILE": state, **config}
        configure(self.central, {f"DEFRAG_{name}": str(value) for name, value in policy.items()})
        self.central.tool("condor_on", "-daemon", "defrag")
        try:
            yield
        finally:
            self.central.tool("condor_off", "-daemon", "defrag")
            self.central.until(lambda: self.ad() is None, "the defragmenter's end")
            file.write_text(before)

    def outcome(self, *logs: str) -> dict[str, Any]:
        """What came of it, as the defragmenter's ad and the jobs' logs have it."""
        ad = self.ad()
        assert ad is not None
        drains, cancels = ad["RecentDrainsList"], ad["RecentCancelsList"]
        places = {machine.name: place for place, machine in self.machines.items()}
        return {
            "cancelled": sorted({places[one["who"].partition("@")[2]] for one in cancels}),
            "how": sorted({one["what"] for one in drains}),
            "evicted": sum(self.count(name, "004") for name in logs),
            "peak": ad["MachinesDrainingPeak"],
        }


@pytest.fixture(scope="module")
def started() -> Iterator[Pool]:
    with ExitStack() as stack:
        addresses = {name: f"127.0.0.{last}" for last, name in enumerate(("central", "submit", *PLACES), 2)}
        hosts = {name: stack.enter_context(new_host(name, address)) for name, address in addresses.items()}
        central, submit = hosts["central"], hosts["submit"]
        central.be_central({"DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, DEFRAG", "DEFRAG_INTERVAL": "2"})
        central.tool("condor_off", "-daemon", "defrag")
        submit.join(central, "submit", {})
        machines = {place: hosts[place] for place in PLACES}
        for order, (place, machine) in enumerate(machines.items()):
            machine.join(central, "execute", {**MACHINE, "Place": f'"{place}"', "Order": str(order)})
        central.until(lambda: len(central.slots()) == len(PLACES), "the slots of all machines")
        yield Pool(central, submit, machines)


@pytest.fixture
def pool(started: Pool) -> Iterator[Pool]:
    """All machines are idle at the begin, and no job is left at the end."""
    submit = started.submit
    submit.until(lambda: [ad.eval_int("Cpus") for ad in submit.slots()] == [4, 4, 4], "idle machines")
    started.move()
    yield started
    submit.tool("condor_rm", "-all")
    submit.until(lambda: not submit.jobs(), "the end of all jobs")


def assert_like(pool: Pool, recorded: Mapping[str, Any], *logs: str) -> None:
    """What was recorded is what came of it here; what depends on when machines were looked at was not.

    The defragmenter's ad and the logs of who has left may tell of it later than a job runs that was waited for.
    """
    with suppress(NotInTime):
        pool.central.until(lambda: seen_of(recorded, pool.outcome(*logs)) == recorded, "the outcome", deadline_s=TOLD_S)
    assert seen_of(recorded, pool.outcome(*logs)) == recorded


def seen_of(recorded: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    seen = dict(outcome)
    if seen["peak"] == 0:  # a machine that has drained between two looks was never seen to
        seen["peak"] = recorded.get("peak", 0)
    return {name: seen[name] for name in recorded}


def test_whole_machine_jobs_get_their_machines_beside_a_stream_of_small_ones(pool: Pool) -> None:
    case = CASES["small jobs end by themselves"]
    pool.start("small", STREAM)
    pool.submit.until(lambda: pool.count("small", "001") >= 12, "small jobs on all cores")
    whole = pool.start("whole", "request_cpus = 4\npriority = 10\narguments = \"-c 'sleep 1'\"\nqueue 3\n")
    seen = pool.count("small", "005")
    pool.submit.until(
        lambda: pool.count("small", "005") >= seen + 24, "small jobs that end and give their place to others"
    )
    assert pool.count("whole", "001") == 0
    with pool.defragmented(case["config"]):
        pool.until_over(whole)
        assert (pool.count("whole", "001"), pool.count("whole", "005")) == (3, 3)
        assert_like(pool, case["outcome"], "small", "whole")


def test_a_drain_is_called_off_when_enough_is_free_and_who_has_not_left_stays(pool: Pool) -> None:
    case = CASES["two cores are enough"]
    there = 'requirements = TARGET.Place == "two"\n'
    stays = pool.start("stays", f"{there}{pool.until_gone('go')}queue 2\n")
    leaves = pool.start("leaves", f"{there}{pool.until_gone('leave')}queue 2\n")
    for cluster in (stays, leaves):
        pool.submit.until_status(cluster, RUNNING, count=2)
    with pool.defragmented(case["config"]):
        machine = 'PartitionableSlot && Place == "two" && Draining'
        pool.central.until(lambda: pool.submit.tool("condor_status", "-const", machine, "-af", "Name"), "the drain")
        waits = pool.start("half", f"{there}request_cpus = 2\npriority = 10\narguments = \"-c 'exit 0'\"\nqueue\n")
        pool.go("leave")
        pool.until_over(waits)
        assert pool.submit.statuses(stays) == [RUNNING, RUNNING]
        pool.go("go")
        pool.until_over(stays)
        assert (pool.count("stays", "001"), pool.count("stays", "005")) == (2, 2)
        assert_like(pool, case["outcome"], "stays", "leaves", "half")


def test_at_once_the_machine_of_the_highest_rank_is_emptied_and_one_is_enough(pool: Pool) -> None:
    case = CASES["at once, the highest rank first"]
    small = pool.start("small", f"{pool.until_gone('go')}queue 12\n")
    pool.submit.until_status(small, RUNNING, count=12)
    costs = ("-const", "PartitionableSlot && ExpectedMachineQuickDrainingBadput > 0", "-af", "Name")
    pool.central.until(lambda: pool.submit.tool("condor_status", *costs).count("\n") == 3, "what draining would cost")
    whole = pool.start("whole", f"request_cpus = 4\npriority = 10\n{pool.until_gone('enough')}queue\n")
    with pool.defragmented(case["config"]):
        (job,) = pool.submit.until_status(whole, RUNNING)
        assert job.eval_str("RemoteHost", "").endswith(pool.machines["three"].name)
        assert_like(pool, case["outcome"], "small", "whole")
    pool.go("enough")
    pool.go("go")
    pool.submit.until_gone(small)
