"""Machines for parallel jobs: the policies of docs/parallel-jobs.md, and nodes that such a machine puts out. Real daemons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs import pages
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_parallel import ALL, COUNT, STAY, events, submit, until_all_run, until_free

pytestmark = pytest.mark.slow

DEDICATED = """POLLING_INTERVAL = 1
SCHEDD_NAME = here@$(FULL_HOSTNAME)
DedicatedScheduler = "DedicatedScheduler@$(SCHEDD_NAME)"
"""
DESKTOP = """START = WantsDesktop =?= True
PREEMPT = Activity == "Busy" && time() - EnteredCurrentActivity > 1
RANK = 0
"""
"""A machine whose owner lets some jobs run for a second."""
GROUPS = """SLOT_TYPE_1 = cpus=2, memory=40%
SLOT_TYPE_1_PARTITIONABLE = True
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_2 = cpus=3, memory=40%
SLOT_TYPE_2_PARTITIONABLE = True
NUM_SLOTS_TYPE_2 = 1
SLOT1_ParallelSchedulingGroup = "small"
SLOT2_ParallelSchedulingGroup = "large"
"""
SINGLE = "executable = /bin/sleep\narguments = {seconds}\nrequest_memory = 16\nlog = job.log\n{more}\nqueue {count}\n"
ENDS = ("", '+ParallelShutdownPolicy = "WAIT_FOR_NODE0"', ALL)
"""Each way in which a job may say when it is done, and none."""
POLICIES = {block.name: block.text for block in pages.blocks("parallel-jobs.md", {}) if block.kind == "policy"}


@contextmanager
def dedicated(config: str) -> Iterator[RealPool]:
    """A host with five cpus and this policy."""
    with real_pool(start=False, NUM_CPUS="5") as pool:
        (pool.directory / "config").write_text(DEDICATED + config)
        pool.start()
        yield pool


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """One that puts a node out, once, if the job says which."""
    with dedicated("PREEMPT = TARGET.FirstLeft =?= TARGET.Node && TARGET.NumJobStarts =?= 0\n") as pool:
        yield pool


def single(pool: RealPool, place: Path, count: int = 1, more: str = "", seconds: int = 600) -> int:
    return pool.submit(SINGLE.format(count=count, more=more, seconds=seconds), cwd=place)


def told(place: Path) -> list[str]:
    """The events of the job as a whole."""
    return [number for number in events(place) if number not in ("014", "015")]


@pytest.mark.parametrize("policy", ENDS, ids=["none", "node 0", "all"])
@pytest.mark.parametrize("node", [0, 1])
def test_a_node_that_its_machine_puts_out_restarts_all(pool: RealPool, policy: str, node: int) -> None:
    place = pool.place("out")
    script = f"until test -e {place}/go; do sleep 0.1; done; {COUNT}"
    cluster = submit(pool, place, 3, script, f"{policy}\n+FirstLeft = {node}")
    pool.until(lambda: "004" in events(place), "the job to be evicted")
    pool.until(lambda: told(place)[-1] == "001", "all nodes to run again")
    (place / "go").touch()
    (job,) = pool.until_done(cluster)
    # A slow machine may put the node out before the start of all of them counts, and then once more.
    assert (job.eval_int("JobRunCount", 0) >= 2, job.eval_int("ExitCode")) == (True, 0)
    assert told(place)[-3:] == ["004", "001", "005"]
    until_free(pool)


@pytest.mark.parametrize("policy", ENDS, ids=["none", "node 0", "all"])
@pytest.mark.parametrize("tool", ["condor_vacate", "condor_vacate_job"])
def test_a_job_of_which_one_slot_or_all_are_vacated_restarts(pool: RealPool, policy: str, tool: str) -> None:
    place = pool.place("vacated")
    cluster = submit(pool, place, 3, STAY, policy)
    slots = until_all_run(pool, place, cluster).eval_str("AllRemoteHosts", "").split(",")
    user, pool.user = pool.user, None
    pool.tool(tool, slots[1] if tool == "condor_vacate" else str(cluster))
    pool.user = user
    job = until_all_run(pool, place, cluster, starts=2)
    assert (job.eval_int("JobRunCount"), job.eval_int("NumJobStarts")) == (2, 2)
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    until_free(pool)
    assert told(place) == ["000", "001", "004", "001", "004", "009"]


def test_a_machine_that_runs_parallel_jobs_alone() -> None:
    with dedicated(POLICIES["alone"]) as pool:
        waits = single(pool, pool.place("waits"))
        place = pool.place("gang")
        (job,) = pool.until_done(submit(pool, place, 3, COUNT, ALL))
        assert job.eval_int("ExitCode") == 0
        until_free(pool)
        assert pool.statuses(waits) == [1]


def test_a_machine_that_runs_others_until_a_parallel_job_comes() -> None:
    with dedicated(POLICIES["both"]) as pool:
        others, place = pool.place("others"), pool.place("gang")
        cluster = single(pool, others, 5)
        pool.until_status(cluster, 2, count=5)
        gang = submit(pool, place, 3, STAY)
        until_all_run(pool, place, gang)
        assert sorted(pool.statuses(cluster) or ()) == [1, 1, 1, 2, 2]
        pool.tool("condor_rm", str(gang))
        pool.until_status(cluster, 2, count=5)
        assert events(others).count("004") == 3
        assert "004" not in events(place)[:-2]


def test_all_nodes_are_in_one_group_of_machines_if_the_job_says_so() -> None:
    with dedicated(GROUPS) as pool:
        place, one = pool.place("group"), "+WantParallelSchedulingGroups = True"
        assert sorted({ad.eval_str("ParallelSchedulingGroup", "") for ad in pool.slots()}) == ["large", "small"]
        waits = submit(pool, place, 4, COUNT, f"{one}\nlog = waits.log")
        for _ in range(3):
            (job,) = pool.until_done(submit(pool, place, 3, COUNT, one))
            hosts = job.eval_str("AllRemoteHosts", "").split(",")
            assert [host.partition("_")[0] for host in hosts] == ["slot2"] * 3
        assert pool.statuses(waits) == [1]
        pool.until_done(submit(pool, place, 4, COUNT))
        pool.tool("condor_rm", str(waits))
        until_free(pool)


def test_a_desktop_lets_parallel_jobs_alone() -> None:
    with dedicated(DESKTOP + POLICIES["desktop"]) as pool:
        other, place = pool.place("other"), pool.place("gang")
        guest = single(pool, other, more="+WantsDesktop = True")
        pool.until(lambda: "004" in events(other), "the guest to be put out")
        pool.tool("condor_rm", str(guest))
        pool.until_done(submit(pool, place, 3, f"sleep 3; {COUNT}", ALL))
        assert told(place) == ["000", "001", "005"]
