"""A parallel job that has some of its slots: what is kept idle it has too, and who holds or removes it meanwhile. Real daemons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool
from tests.whole.rest import resting_keepers
from tests.whole.test_parallel import (
    ALL,
    COUNT,
    STAY,
    claimed,
    claimed_so_far,
    events,
    kept,
    submit,
    until_all_run,
    until_free,
)

pytestmark = pytest.mark.slow

SINGLE = """executable = /bin/sh
transfer_executable = false
should_transfer_files = no
request_memory = 16
log = job.log
arguments = "-c 'until test -e go; do sleep 0.1; done'"
{more}
queue {count}
"""
KEEPS = "keep_claim_idle = 600"
FURTHER = "queue\nmachine_count = 2\nrequest_memory = 48\nrequirements = Memory >= 48"
"""A proc more, whose two nodes differ from those of the first in what they ask for."""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """A host with three cpus in one partitionable slot whose starters soon rest, and from which parallel jobs put nobody out."""
    with real_pool(
        NUM_CPUS=3,
        STARTER_REST_AFTER=1,
        SCHEDD_NAME="here@$(FULL_HOSTNAME)",
        DedicatedScheduler='"DedicatedScheduler@$(SCHEDD_NAME)"',
    ) as pool:
        yield pool


def single(pool: RealPool, place: Path, count: int = 1, more: str = "") -> int:
    cluster = pool.submit(SINGLE.format(count=count, more=more), cwd=place)
    pool.until_status(cluster, 2, count=count)
    return cluster


def gathers(pool: RealPool, before: Path, more: str = "", alone: str = "") -> tuple[Path, int]:
    """A parallel job that has two of its three slots; a single job has the third until `go`: its place and cluster."""
    single(pool, before, more=alone)
    place = pool.place("gang")
    cluster = submit(pool, place, 1, COUNT, f"{ALL}\n{more}\n{FURTHER}")
    pool.until(lambda: claimed(pool) == 3, "the other slots to be held")
    return place, cluster


def test_slots_that_are_kept_idle_are_a_parallel_jobs_that_comes(pool: RealPool) -> None:
    before, place = pool.place("before"), pool.place("gang")
    first = single(pool, before, 3, KEEPS)
    (before / "go").touch()
    pool.until_done(first)
    pool.until(lambda: kept(pool) == 3, "three slots to be kept")
    claims = claimed_so_far(pool)
    pool.until_done(submit(pool, place, 3, COUNT, ALL))
    assert claimed_so_far(pool) == claims
    until_free(pool)


def test_a_slot_that_would_be_kept_idle_is_the_parallel_jobs_that_waits_for_it(pool: RealPool) -> None:
    before = pool.place("before")
    _, gang = gathers(pool, before, alone=KEEPS)
    claims = claimed_so_far(pool)
    (before / "go").touch()
    pool.until_done(gang)
    assert claimed_so_far(pool) == claims
    until_free(pool)


@pytest.mark.parametrize("proc", [0, 1])
def test_who_is_held_while_he_gathers_gives_all_back_and_gathers_anew_when_released(pool: RealPool, proc: int) -> None:
    before = pool.place("before")
    place, gang = gathers(pool, before)
    pool.tool("condor_hold", f"{gang}.{proc}")
    pool.until(lambda: claimed(pool) == 1, "the slots to be given back")
    assert pool.statuses(gang) == [5, 5]
    pool.tool("condor_release", f"{gang}.{proc}")
    pool.until(lambda: claimed(pool) == 3, "the slots to be held again")
    (before / "go").touch()
    assert [job.eval_int("NumJobStarts") for job in pool.until_done(gang)] == [1, 1]
    assert [(place / f"o.{node}").read_text() for node in range(3)] == [f"{node} of 3\n" for node in range(3)]
    assert [number for number in events(place) if number not in ("014", "015")] == ["000", "012", "013", "001", "005"]
    until_free(pool)


@pytest.mark.parametrize("proc", [0, 1])
def test_who_is_removed_while_he_gathers_leaves_no_slot_behind(pool: RealPool, proc: int) -> None:
    before = pool.place("before")
    place, gang = gathers(pool, before)
    pool.tool("condor_rm", f"{gang}.{proc}")
    pool.until_gone(gang)
    pool.until(lambda: claimed(pool) == 1, "the slots to be given back")
    assert events(place) == ["000", "009"]
    (before / "go").touch()
    until_free(pool)


def test_the_starters_of_nodes_stay_where_others_rest(pool: RealPool) -> None:
    place, alone = pool.place("gang"), pool.place("alone")
    gang = submit(pool, place, 2, STAY)
    until_all_run(pool, place, gang)
    single(pool, alone)
    pool.until(lambda: resting_keepers(pool), "the starter of the single job to rest")
    assert len(resting_keepers(pool)) == 1
    assert pool.tool("condor_ssh_to_job", f"{gang}.0.1", "echo $_CONDOR_PROCNO") == "1\n"
    pool.tool("condor_rm", str(gang))
    (alone / "go").touch()
    until_free(pool)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root's rights to be two users")
def test_jobs_of_two_users_that_do_not_fit_together_all_finish(pool: RealPool) -> None:
    mine, clusters = pool.user, list[int]()
    for user in ("nobody", "daemon") * 3:
        pool.user = user
        clusters.append(submit(pool, pool.place(user), 2, COUNT, f"{ALL}\nkeep_claim_idle = 1"))
    pool.user = mine
    for cluster in clusters:
        (job,) = pool.until_done(cluster)
        assert (job.eval_int("ExitCode"), job.eval_int("NumJobStarts")) == (0, 1)
    assert len({job.eval_str("Owner") for cluster in clusters for job in pool.history(str(cluster))}) == 2
    until_free(pool)
