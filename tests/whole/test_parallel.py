"""Jobs of the parallel universe: all nodes or none, one end for all of them, and nothing left over. Real daemons."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

PARALLEL = """universe = parallel
executable = /bin/sh
transfer_executable = false
request_memory = 16
keep_claim_idle = 0
log = job.log
machine_count = {nodes}
arguments = "-c '{script}'"
output = o.$(Node)
{more}
queue
"""
ALL = '+ParallelShutdownPolicy = "WAIT_FOR_ALL"'
STAY = "exec sleep 600"
CONTACT = """
test $_CONDOR_PROCNO = 0 || exec sleep 600
ssh=$_CONDOR_BIN/condor_ssh
$ssh 2 'echo $_CONDOR_PROCNO' to out '; echo to error >&2; exit 7'
echo status $?
$ssh 1 'kill -9 $$'
echo status $?
$ssh 3 true
echo status $?
"""
COUNT = "echo $_CONDOR_PROCNO of $_CONDOR_NPROCS"
LARGER = """
request_memory = 48
machine_count = 2
output = larger.$(Node)
"""
"""A further proc: two nodes that need more memory."""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """A host with four cpus in one partitionable slot, which is for this schedd's parallel jobs before all others."""
    with real_pool(
        NUM_CPUS=4,
        SCHEDD_NAME="here@$(FULL_HOSTNAME)",
        DedicatedScheduler='"DedicatedScheduler@$(SCHEDD_NAME)"',
        RANK="Scheduler =?= $(DedicatedScheduler)",
    ) as pool:
        yield pool


def submit(pool: RealPool, place: Path, nodes: int, script: str, more: str = "") -> int:
    return pool.submit(PARALLEL.format(nodes=nodes, script=script, more=more), cwd=place)


def events(place: Path) -> list[str]:
    """The numbers of the events in the job's log, without those that tell how large it is or how its files move."""
    found = re.findall(r"^(\d\d\d) \(", (place / "job.log").read_text(), re.MULTILINE)
    return [number for number in found if number not in ("006", "040")]


def until_all_run(pool: RealPool, place: Path, cluster: int, starts: int = 1) -> ClassAd:
    pool.until(lambda: events(place).count("001") == starts, f"all nodes to run, in start {starts}")
    (job,) = pool.jobs(str(cluster))
    return job


def claimed(pool: RealPool) -> int:
    return sum(ad.eval_str("State") == "Claimed" for ad in pool.slots())


def until_free(pool: RealPool) -> None:
    pool.until(lambda: not claimed(pool), "all slots to be given back")


def starters(pool: RealPool, place: Path) -> list[int]:
    """The starters of the pool's jobs, in the order of their slots' names."""
    text = (pool.directory / "log" / "StartLog").read_text()
    found = re.findall(r"(slot1_\d): started job \S+ pid=(\d+)", text)
    return [int(pid) for _, pid in found[-3:]]


def test_each_node_knows_its_place_and_the_log_tells_of_all(pool: RealPool) -> None:
    place = pool.place("count")
    (job,) = pool.until_done(submit(pool, place, 3, COUNT, f'{ALL}\n+Given = "$$(Cpus) cpus"'))
    assert [(place / f"o.{node}").read_text() for node in range(3)] == [f"{node} of 3\n" for node in range(3)]
    assert events(place) == ["000", "014", "014", "014", "001", "015", "015", "015", "005"]
    assert "Job executing on host: MPI_job\n" in (place / "job.log").read_text()
    shown = {name: job.eval(name) for name in ("JobUniverse", "MinHosts", "MaxHosts", "OrigMaxHosts", "CurrentHosts")}
    assert shown == {"JobUniverse": 11, "MinHosts": 3, "MaxHosts": 3, "OrigMaxHosts": 3, "CurrentHosts": 0}
    assert job.eval_str("MATCH_EXP_Given") == "1 cpus"
    assert len(set(job.eval_str("AllRemoteHosts", "").split(","))) == 3
    assert job.eval_str("Scheduler", "").startswith("DedicatedScheduler@here@")


def test_the_end_of_node_0_ends_all(pool: RealPool) -> None:
    place = pool.place("head")
    (job,) = pool.until_done(submit(pool, place, 3, "test $_CONDOR_PROCNO = 0 && exit 7; exec sleep 600"))
    assert (job.eval_int("ExitCode"), events(place)[-2:]) == (7, ["015", "005"])
    until_free(pool)


def test_nodes_of_several_queue_statements_are_one_job(pool: RealPool) -> None:
    place = pool.place("kinds")
    cluster = submit(pool, place, 1, f"{COUNT}; exit $_CONDOR_PROCNO", f"{ALL}\nqueue\n{LARGER}")
    second, first = pool.until_done(cluster)
    said = [(place / name).read_text() for name in ("o.0", "larger.1", "larger.2")]
    assert said == [f"{node} of 3\n" for node in range(3)]
    assert events(place) == ["000", "014", "014", "014", "001", "015", "015", "015", "005"]
    assert [(job.eval_int("MaxHosts"), job.eval_int("ExitCode")) for job in (first, second)] == [(1, 0), (2, 0)]
    slots = [job.eval_str("RemoteHosts", "").split(",") for job in (first, second)]
    assert first.eval_str("AllRemoteHosts", "").split(",") == [*slots[0], *slots[1]]
    assert second.eval("AllRemoteHosts") == first.eval("AllRemoteHosts")
    until_free(pool)


def kept(pool: RealPool) -> int:
    return sum((ad.eval_str("State"), ad.eval_str("Activity")) == ("Claimed", "Idle") for ad in pool.slots())


def claimed_so_far(pool: RealPool) -> int:
    """How many claims its startd has granted."""
    return (pool.directory / "log" / "StartLog").read_text().count("claimed by here@")


def test_the_next_job_of_the_user_runs_in_slots_that_the_last_one_had(pool: RealPool) -> None:
    places = [pool.place(f"kept{number}") for number in range(3)]
    pool.until_done(submit(pool, places[0], 3, COUNT, f"{ALL}\nkeep_claim_idle = 600"))
    pool.until(lambda: kept(pool) == 3, "three slots to be kept")
    claims = claimed_so_far(pool)
    pool.until_done(submit(pool, places[1], 2, COUNT, f"{ALL}\nkeep_claim_idle = 600"))
    assert claimed_so_far(pool) == claims
    pool.until(lambda: kept(pool) == 3, "all three to be kept again")
    # One that wants all four cpus, which nobody has while three are kept.
    pool.until_done(
        pool.submit("executable = /bin/true\nrequest_cpus = 4\nrequest_memory = 16\nqueue\n", cwd=places[2])
    )
    until_free(pool)


def test_what_is_done_to_one_proc_of_a_parallel_job_is_done_to_all(pool: RealPool) -> None:
    place = pool.place("procs")
    cluster = submit(pool, place, 1, STAY, f"queue\n{LARGER}")
    pool.until(lambda: events(place).count("001") == 1, "all nodes to run")
    assert [job.eval_int("CurrentHosts") for job in pool.jobs(str(cluster))] == [3, 3]
    assert pool.tool("condor_hold", f"{cluster}.1") == f"Job {cluster}.1 held\n"
    pool.until_status(cluster, 5)
    until_free(pool)
    assert [job.eval_int("JobStatus") for job in pool.jobs(str(cluster))] == [5, 5]
    pool.tool("condor_release", str(cluster))
    pool.until(lambda: events(place).count("001") == 2, "all nodes to run again")
    pool.tool("condor_vacate_job", f"{cluster}.1")
    pool.until(lambda: events(place).count("001") == 3, "all nodes to run once more")
    pool.tool("condor_rm", f"{cluster}.1")
    pool.until_gone(cluster)
    until_free(pool)
    told = [number for number in events(place) if number not in ("014", "015")]
    assert told == ["000", "001", "004", "012", "013", "001", "004", "001", "004", "009"]


def test_two_that_do_not_fit_together_both_finish(pool: RealPool) -> None:
    places = [pool.place("one"), pool.place("other")]
    for cluster in [submit(pool, place, 3, COUNT, ALL) for place in places]:
        (job,) = pool.until_done(cluster)
        assert (job.eval_int("ExitCode"), job.eval_int("NumJobStarts")) == (0, 1)
    assert [events(place).count("001") for place in places] == [1, 1]


def test_hold_and_remove_take_all_nodes(pool: RealPool) -> None:
    place = pool.place("held")
    cluster = submit(pool, place, 3, STAY)
    assert until_all_run(pool, place, cluster).eval_int("CurrentHosts") == 3
    pool.tool("condor_hold", str(cluster))
    pool.until_status(cluster, 5)
    until_free(pool)
    pool.tool("condor_release", str(cluster))
    until_all_run(pool, place, cluster, starts=2)
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    until_free(pool)
    assert events(place)[-2:] == ["004", "009"]


def test_the_death_of_a_nodes_starter_restarts_all(pool: RealPool) -> None:
    place = pool.place("death")
    cluster = submit(pool, place, 3, STAY)
    until_all_run(pool, place, cluster)
    os.kill(starters(pool, place)[1], signal.SIGKILL)
    job = until_all_run(pool, place, cluster, starts=2)
    assert job.eval_int("JobRunCount") == 2
    pool.until(lambda: claimed(pool) == 3, "three slots to be claimed, and no more")
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    until_free(pool)


def test_a_node_runs_commands_on_another(pool: RealPool) -> None:
    place = pool.place("contact")
    (place / "contact.sh").write_text(CONTACT)
    more = "error = e.$(Node)\ntransfer_input_files = contact.sh"
    pool.until_done(submit(pool, place, 3, "exec sh contact.sh", more))
    assert (place / "o.0").read_text().splitlines() == ["2 to out", "status 7", "status 137", "status 1"]
    assert (place / "e.0").read_text().splitlines() == ["to error", "this job has no node 3"]
    until_free(pool)


def test_a_shell_in_a_node(pool: RealPool) -> None:
    place = pool.place("visit")
    cluster = submit(pool, place, 3, STAY)
    until_all_run(pool, place, cluster)
    asked = [pool.tool("condor_ssh_to_job", f"{cluster}.0.{node}", "echo $_CONDOR_PROCNO") for node in (0, 2)]
    assert asked == ["0\n", "2\n"]
    with pytest.raises(AssertionError, match=f"Job {cluster}.0 has no node 3: it has 3"):
        pool.tool("condor_ssh_to_job", f"{cluster}.0.3", "true")
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    until_free(pool)


def test_a_proc_without_a_node_is_its_first_node(pool: RealPool) -> None:
    place = pool.place("first")
    cluster = submit(pool, place, 2, f"{COUNT}; {STAY}", f"queue\n{LARGER}")
    pool.until(lambda: "001" in events(place), "all nodes to run")
    jobs = ("0", "0.1", "1", "1.3", "1.0")
    asked = [pool.tool("condor_ssh_to_job", f"{cluster}.{job}", "echo $_CONDOR_PROCNO") for job in jobs]
    assert asked == ["0\n", "1\n", "2\n", "3\n", "0\n"]
    pool.until(lambda: "2 of 4" in pool.tool("condor_tail", f"{cluster}.1"), "its first node's word")
    pool.tool("condor_rm", str(cluster))
    pool.until_gone(cluster)
    until_free(pool)


def test_a_schedd_that_is_killed_comes_back_to_all_nodes(pool: RealPool) -> None:
    place = pool.place("back")
    script = f"while ! test -e {place}/go; do sleep 0.1; done; {COUNT}"
    cluster = submit(pool, place, 3, script, ALL)
    until_all_run(pool, place, cluster)
    pool.restart_of("schedd")
    (place / "go").touch()
    (job,) = pool.until_done(cluster)
    assert (job.eval_int("NumJobStarts"), job.eval_int("JobRunCount")) == (1, 1)
    assert [(place / f"o.{node}").read_text() for node in range(3)] == [f"{node} of 3\n" for node in range(3)]
    assert [number for number in events(place) if number not in ("022", "023")].count("015") == 3
    until_free(pool)
