"""A pool of containers: 200 jobs with files, and a node that is gone half way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.nodes.cluster import EVIDENCE, Cluster

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(1800)]

JOBS = 200
LEASE_S = 20
HOME, ALICE = "/home/alice", 1000
LOST = "execute2"
DESCRIPTION = f"""executable = worker.py
arguments = $(Process)
transfer_input_files = in.$(Process)
transfer_output_files = result.$(Process)
should_transfer_files = YES
output = out.$(Process)
error = err.$(Process)
log = log
request_memory = 32
request_disk = 1024
job_lease_duration = {LEASE_S}
queue {JOBS}
"""
SUBMITTED, BEGAN, ENDED = "000", "001", "005"
RAN_NO_LONGER = {"004", "005", "009", "012", "024"}  # evicted, ended, removed, held, reconnection failed


def submit_jobs(cluster: Cluster) -> None:
    worker = (Path(__file__).parent / "worker.py").read_text()
    cluster.put("submit", HOME, {"worker.py": f"#!/usr/bin/python3\n{worker}"}, uid=ALICE, mode=0o755)
    inputs = {f"in.{number}": f"input of {number}\n" for number in range(JOBS)}
    cluster.put("submit", HOME, {**inputs, "jobs.sub": DESCRIPTION}, uid=ALICE)
    said = cluster.tool("submit", "condor_submit", "jobs.sub", user="alice", cwd=HOME, check=True)
    assert f"{JOBS} job(s) submitted to cluster 1." in said


def events(cluster: Cluster) -> list[tuple[str, int]]:
    """The event log as (code, proc)."""
    log = cluster.tool("submit", "cat", f"{HOME}/log")
    return [(code, int(proc)) for code, proc in re.findall(r"^(\d{3}) \(\d+\.(\d+)\.", log, re.MULTILINE)]


def evidence(cluster: Cluster, what: str) -> list[tuple[int, str]]:
    """(job, node) of each note of this kind, in the order of time."""
    names = [name.split(".") for name in cluster.tool("central", "ls", EVIDENCE).split()]
    found = sorted((int(name[3]), int(name[1]), name[2]) for name in names if name[0] == what and len(name) == 4)
    return [(number, host) for _, number, host in found]


def test_every_job_finishes_though_a_node_is_lost_half_way(cluster: Cluster) -> None:
    cluster.start(execute=2, knobs={"NUM_CPUS": "8", "MEMORY": "4096"})
    submit_jobs(cluster)
    cluster.until(lambda: [code for code, _ in events(cluster)].count(ENDED) >= JOBS // 2, "half of the jobs")

    cluster.put("central", EVIDENCE, {f"park.{LOST}": ""})  # whoever runs there now, or comes there, stays
    cluster.until(lambda: LOST in {host for _, host in evidence(cluster, "parked")}, "jobs on the node to lose")
    cluster.kill(LOST)
    cluster.until(lambda: not cluster.ads("condor_q", "-allusers"), "the end of all jobs", deadline_s=900)

    every_job_finished(cluster)
    none_ran_twice_at_the_same_time(cluster)
    lost = {number for number, host in evidence(cluster, "parked") if host == LOST}
    done = {ad.eval_int("ProcId", -1): ad for ad in cluster.ads("condor_history")}
    assert {str(done[number]["LastRemoteHost"]).partition("@")[2] for number in lost} == {"execute1"}
    assert {ad.eval_int("NumJobStarts") for number, ad in done.items() if number in lost} == {2}


def every_job_finished(cluster: Cluster) -> None:
    history = cluster.ads("condor_history")
    assert sorted(ad.eval_int("ProcId", -1) for ad in history) == list(range(JOBS))
    assert {(ad.eval_int("JobStatus"), ad.eval_int("ExitCode")) for ad in history} == {(4, 0)}
    files = cluster.read("submit", HOME)
    for number in range(JOBS):
        assert files[f"result.{number}"] == f"INPUT OF {number}\n"
        assert files[f"out.{number}"] == f"done {number}\n"
        assert files[f"err.{number}"] == ""
    told = events(cluster)
    for code in (SUBMITTED, ENDED):
        assert sorted(proc for found, proc in told if found == code) == list(range(JOBS))


def none_ran_twice_at_the_same_time(cluster: Cluster) -> None:
    """By the jobs' own locks, and by the order of events."""
    assert evidence(cluster, "twice") == []
    assert {number for number, _ in evidence(cluster, "did")} == set(range(JOBS))
    running: set[int] = set()
    for code, proc in events(cluster):
        if code == BEGAN:
            assert proc not in running, f"job {proc} began while it ran"
            running.add(proc)
        elif code in RAN_NO_LONGER:
            running.discard(proc)
    assert running == set()
