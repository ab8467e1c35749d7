"""The queue at size: submits, totals, tables, policy, memory, restart. One schedd with nothing to run jobs on.

`QUEUE_PROCS` and `QUEUE_SIZE` in the environment scale the suite down on a small or busy machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import psutil
import trio

from benchmarks.measure import Figure, cpu_seconds, pss_bytes
from benchmarks.pool_run import Bench, bench
from daemons.schedd.core.core import Core
from daemons.schedd.queue.policy_timer import PolicyTimer
from pool.classad import ClassAd
from pool.config import Config, load_config
from pool.jobs import policy
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.pack import pack
from pool.jobs.queue.store import commit, open_queue
from pool.jobs.vocabulary.priority import Priority
from pool.jobs.vocabulary.states import JobStatus
from pool.submit import read_submit

PROCS: Final = int(os.environ.get("QUEUE_PROCS", "100000"))
SIZE: Final = int(os.environ.get("QUEUE_SIZE", "1000000"))
CLUSTER: Final = 10_000
KNOBS: Final = {
    "DAEMON_LIST": "MASTER, COLLECTOR, SCHEDD",
    "MAX_JOBS_PER_OWNER": "10000000",
    "MAX_JOBS_PER_SUBMISSION": "10000000",
}
TEXT: Final = (
    "executable = /bin/true\narguments = $(Process)\noutput = out.$(Process)\nperiodic_remove = NumJobStarts > 5\n"
)
MB: Final = 1e6


def figures() -> Iterator[Figure]:
    """The queue's figures."""
    with bench(KNOBS) as pool:
        yield from _submits(pool)
        yield from _questions(pool)
        yield from _factory(pool)
    yield from _policy()
    yield from _restart()


def _schedd(pool: Bench) -> int:
    return pool.pid_of("schedd")


def _submits(pool: Bench) -> Iterator[Figure]:
    before, memory, began = cpu_seconds(pool.root), _memory(pool), time.perf_counter()
    pool.submit(f"{TEXT}log = {pool.home}/log\nqueue {PROCS}\n", cwd=pool.home)
    took, cpu = time.perf_counter() - began, cpu_seconds(pool.root) - before
    how = f"condor_submit of {PROCS} procs in one cluster, each with arguments and output of its own, one log"
    yield Figure("submit", PROCS / took, "jobs/s", how, ">= 40000")
    yield Figure("submit, CPU of the daemons", cpu / PROCS * 1e6, "us/job", how, "< 110")
    yield Figure("memory of the queue", (_memory(pool) - memory) / PROCS * 10_000 / MB, "MB/10k jobs", how, "<= 5.8")


def _memory(pool: Bench) -> int:
    return pss_bytes([psutil.Process(_schedd(pool))])


def _questions(pool: Bench) -> Iterator[Figure]:
    for name, argv, aim in (
        ("condor_q -totals", ("condor_q", "-allusers", "-totals"), "< 0.07"),
        ("condor_q", ("condor_q", "-allusers"), "< 1.5"),
        ("condor_q -nobatch", ("condor_q", "-allusers", "-nobatch"), ""),
    ):
        times = []
        for _ in range(3):
            began = time.perf_counter()
            pool.tool(*argv)
            times.append(time.perf_counter() - began)
        yield Figure(name, min(times), "s", f"over {PROCS} idle jobs; best of {len(times)}", aim)


def _factory(pool: Bench) -> Iterator[Figure]:
    memory, began = _memory(pool), time.perf_counter()
    pool.submit(f"{TEXT}max_materialize = 100\nqueue {SIZE}\n", cwd=pool.home)
    took = time.perf_counter() - began
    how = f"a cluster of {SIZE} procs with max_materialize = 100"
    yield Figure("submit of jobs that are made later", took, "s", how)
    yield Figure("memory of jobs that are made later", (_memory(pool) - memory) / MB, "MB", how)


def _policy() -> Iterator[Figure]:
    """Evaluations of the periodic policy of each job: one of each, and the round that the schedd's timer makes."""
    queue = _filled(PROCS)
    jobs = list(queue.jobs())
    began = time.process_time()
    for job in jobs:
        policy.periodic(queue.ad(job), job.status, 0.0, policy.SystemPolicy())
    took = time.process_time() - began
    how = f"periodic_remove of {PROCS} idle jobs, whose ads are made for it"
    yield Figure("periodic policy, job by job", took / PROCS * 1e6, "us/job", how)
    settings = SimpleNamespace(system=policy.SystemPolicy())
    start = SimpleNamespace(world=SimpleNamespace(cpu=time.process_time))
    core = SimpleNamespace(queue=queue, now=lambda: 0.0, settings=settings, start=start)
    began = time.process_time()
    trio.run(PolicyTimer(cast(Core, core)).round)
    took = time.process_time() - began
    how = "the same by the schedd's timer, which asks one job for all of a page that look alike"
    yield Figure("periodic policy", took / PROCS * 1e6, "us/job", how)


def _filled(count: int) -> JobQueue:
    """A queue with this many idle jobs, a cluster for each CLUSTER of them."""
    queue = JobQueue("ap")
    plan = read_submit(TEXT + "skip_filechecks = true\nqueue 1\n", config=_config(), cwd="/tmp", user="nobody")
    for first in range(0, count, CLUSTER):
        ad = plan.cluster_ad.copy()
        number = queue.new_id()
        ad["ClusterId"], ad["Owner"], ad["User"], ad["JobStatus"], ad["QDate"] = number, "nobody", "nobody@here", 1, 1
        cluster = Cluster(number, ad, user="nobody@here", owner="nobody")
        jobs = []
        for proc in range(min(CLUSTER, count - first)):
            own = ClassAd({"Args": f"{proc}", "Out": f"out.{proc}"})
            jobs.append(Job(cluster, proc, JobStatus.IDLE, Priority(), pack(own)))
        queue.add(cluster, jobs)
    return queue


def _config() -> Config:
    return load_config([], environ={}, overrides={"FULL_HOSTNAME": "here"})


def _restart() -> Iterator[Figure]:
    """The start of a schedd whose queue is full."""
    with bench(KNOBS, start=False) as pool:
        spool = Path(pool.directory, "spool")
        spool.mkdir(exist_ok=True)
        connection = open_queue(spool / "job_queue.sqlite")
        commit(connection, _filled(SIZE).take()[0])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        began = time.perf_counter()
        pool.start()
        pool.until(lambda: f"{SIZE} jobs" in pool.tool("condor_q", "-allusers", "-totals", check=False), "the queue")
        took = time.perf_counter() - began
        how = f"a pool whose queue has {SIZE} idle jobs, from its start to the answer of condor_q -totals"
        yield Figure("restart with a full queue", took, "s", how, "< 20")
        yield Figure("memory of a full queue", _memory(pool) / SIZE * 10_000 / MB, "MB/10k jobs", how, "<= 5.8")
