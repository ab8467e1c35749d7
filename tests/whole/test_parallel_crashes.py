"""kill -9 of schedd, startd and starters at each step of a parallel job: no node is left over, and none runs twice (P2, P4).

A pool for each: the point fires the second time that it is passed, when one of the job's three nodes is past it; they
are of two procs. And jobs that gather too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_parallel import ALL, COUNT, PARALLEL, claimed, claimed_so_far, events, kept, until_free

pytestmark = pytest.mark.slow

POINTS = (
    "schedd.match_taken:2",
    "schedd.claim_requested:2",
    "schedd.claim_granted:2",
    "schedd.activated:2",
    "schedd.job_executing:2",
    "schedd.job_ended_received:2",
    "schedd.final_committed",
    "schedd.event_marked",
    "startd.claim_granted:2",
    "startd.starter_forked:2",
    "starter.sandbox_made",
    "starter.input_done",
    "starter.job_started",
    "starter.job_exited",
    "starter.reported",
)
RECONNECTED = ("022", "023")
FURTHER = "queue\nmachine_count = 2\nrequest_memory = 48"
ALONE = "exec 9> {place}/lock.$_CONDOR_PROCNO; flock -n 9 || touch {place}/twice; sleep 0.3; " + COUNT
"""The kernel lets go of the lock with the last process of the node."""


@contextmanager
def pool_of(**knobs: str) -> Iterator[RealPool]:
    """A host with four cpus for parallel jobs, from which they put nobody out."""
    with real_pool(
        NUM_CPUS=4,
        SCHEDD_NAME="here@$(FULL_HOSTNAME)",
        DedicatedScheduler='"DedicatedScheduler@$(SCHEDD_NAME)"',
        **knobs,
    ) as pool:
        yield pool


def describe(nodes: int, script: str, more: str = "") -> str:
    return PARALLEL.format(nodes=nodes, script=script, more=more)


@pytest.mark.parametrize("point", POINTS)
def test_a_death_leaves_no_node_over_and_runs_none_twice(point: str) -> None:
    with pool_of(FAULT_POINTS=point, MASTER_BACKOFF_CEILING="1") as pool:
        place = pool.place("home")
        place.chmod(0o777)
        before = pool.pid_of("schedd")
        more = f"{ALL}\nhold = true\n{FURTHER}"
        cluster = pool.submit(describe(1, ALONE.format(place=place), more), cwd=place)
        pool.tool("condor_release", str(cluster), check=False)  # the schedd may die before it has answered
        marker = pool.run_dir / "faults" / point.partition(":")[0]
        pool.until(marker.exists, f"{point} to fire")
        if point.startswith("schedd"):
            pool.until(lambda: pool.pid_of("schedd") not in (0, before), "another schedd")
            pool.tool("condor_release", str(cluster), check=False)  # what was not answered is no promise
        assert [job.eval_int("ExitCode") for job in pool.until_done(cluster)] == [0, 0]
        assert [(place / f"o.{node}").read_text() for node in range(3)] == [f"{node} of 3\n" for node in range(3)]
        assert not (place / "twice").exists()
        assert events(place).count("005") == 1
        assert [number for number in events(place) if number not in RECONNECTED][-4:] == ["015", "015", "015", "005"]
        until_free(pool)


def test_a_job_of_one_slot_in_one_that_was_a_nodes_is_taken_up_as_such() -> None:
    with pool_of(UNUSED_CLAIM_TIMEOUT="2") as pool:
        place = pool.place("passing")
        pool.until_done(pool.submit(describe(2, COUNT, f"{ALL}\nkeep_claim_idle = 600"), cwd=place))
        pool.until(lambda: kept(pool) == 2, "two slots to be kept")
        claims = claimed_so_far(pool)
        singles = pool.submit("executable = /bin/sleep\narguments = 600\nrequest_memory = 16\nqueue 2\n", cwd=place)
        pool.until_status(singles, 2, count=2)
        assert claimed_so_far(pool) == claims
        pool.restart_of("schedd")
        assert [job.eval_int("JobStatus") for job in pool.until_status(singles, 2, count=2)] == [2, 2]
        pool.tool("condor_rm", str(singles))
        pool.until_gone(singles)
        until_free(pool)
        pool.until_done(pool.submit(describe(2, COUNT, ALL).replace("keep_claim_idle = 0\n", ""), cwd=place))
        until_free(pool)


def test_who_gathers_too_long_gives_its_slots_to_the_next() -> None:
    with pool_of(UNUSED_CLAIM_TIMEOUT="2") as pool:
        single, large, small = (pool.place(name) for name in ("single", "large", "small"))
        stays = pool.submit("executable = /bin/sleep\narguments = 600\nrequest_memory = 16\nqueue 2\n", cwd=single)
        pool.until(lambda: claimed(pool) == 2, "two slots to be in use")
        waits = pool.submit(describe(3, COUNT, ALL), cwd=large)
        pool.until(lambda: gave_back(pool) == [f"{waits}.0 has 2 of 3"], "the large job to give up")
        pool.until_done(pool.submit(describe(2, COUNT, ALL), cwd=small))
        pool.tool("condor_rm", str(stays))
        (job,) = pool.until_done(waits)
        assert job.eval_int("NumJobStarts") == 1
        until_free(pool)


def test_who_gathers_lets_the_next_pass_where_turns_are_not_kept() -> None:
    with pool_of(DEDICATED_SCHEDULER_USE_FIFO="False") as pool:
        single, large, small = (pool.place(name) for name in ("single", "large", "small"))
        stays = pool.submit("executable = /bin/sleep\narguments = 600\nrequest_memory = 16\nqueue 2\n", cwd=single)
        pool.until(lambda: claimed(pool) == 2, "two slots to be in use")
        waits = pool.submit(describe(3, COUNT, ALL), cwd=large)
        pool.until(lambda: "lacks slots, and lets others pass" in schedd_log(pool), "the large job to let others pass")
        pool.until_done(pool.submit(describe(2, COUNT, ALL), cwd=small))
        assert pool.statuses(waits) == [1]
        pool.tool("condor_rm", str(stays))
        pool.until_done(waits)
        until_free(pool)


def gave_back(pool: RealPool) -> list[str]:
    """What was said of those that gave back slots, the first time."""
    return re.findall(r"Job (\S+ has \d of \d) slots, and gives them back", schedd_log(pool))[:1]


def schedd_log(pool: RealPool) -> str:
    return Path(pool.directory / "log" / "SchedLog").read_text()


def test_the_death_of_the_startd_restarts_all() -> None:
    with pool_of() as pool:
        place = pool.place("startd")
        script = "test $_CONDOR_PROCNO = 1 || test -e {place}/go || exec sleep 600; " + COUNT
        cluster = pool.submit(describe(3, script.format(place=place), ALL), cwd=place)
        pool.until(lambda: events(place).count("001") == 1, "all nodes to run")
        (place / "go").touch()
        pool.restart_of("startd")
        (job,) = pool.until_done(cluster)
        assert (job.eval_int("ExitCode"), job.eval_int("NumJobStarts")) == (0, 2)
        assert events(place).count("005") == 1
        until_free(pool)
