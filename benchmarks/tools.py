"""What a user waits for: the start of each tool, questions to a long history, condor_q beside a busy queue.

`HISTORY_SIZE` in the environment scales the history down on a small or busy machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure, p50, p99
from benchmarks.pool_run import Bench, bench
from minipool.cli.entry.names import POOL_VERBS, TOOLS
from pool.classad import ClassAd
from pool.jobs.queue.pack import pack
from pool.jobs.queue.store import open_queue

HISTORY: Final = int(os.environ.get("HISTORY_SIZE", "1000000"))
PER_CLUSTER: Final = 1000
ROUNDS: Final = 15
QUEUED: Final = 10_000
QUESTIONS: Final = 100
KNOBS: Final = {
    "DAEMON_LIST": "MASTER, COLLECTOR, SCHEDD",
    "MAX_HISTORY_LOG": "10 Gb",
    "MAX_JOBS_PER_OWNER": "100000000",
}


def figures() -> Iterator[Figure]:
    """The suite."""
    yield from _start_up()
    with bench(KNOBS, start=False) as pool:
        _fill_history(pool)
        pool.start()
        yield from _history(pool)
        yield from _questions(pool)


def _start_up() -> Iterator[Figure]:
    """Each tool from its exec to its end, asked for help: interpreter, imports, its option table."""
    times, cpu = {}, {}
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for verb in (*TOOLS, *POOL_VERBS):
        program = [str(Path(sys.executable).parent / "pool"), verb, "-help"]
        runs = [_once(program, compiled) for _ in range(ROUNDS + 1)][1:]  # the first run compiles
        times[verb], cpu[verb] = p50([wall for wall, _ in runs]), p50([used for _, used in runs])
    how = f"`pool VERB -help`, median of {ROUNDS}"
    for verb, taken in times.items():
        name = f"condor_{verb}" if verb in TOOLS else f"pool {verb}"
        yield Figure(f"start-up of {name}", taken, "ms", f"{how}; {cpu[verb]:.0f} ms of CPU", "< 80")
    slowest = max(times, key=lambda verb: times[verb])
    yield Figure("start-up of the slowest tool", times[slowest], "ms", f"{how}; it is {slowest}", "< 80")
    yield Figure("CPU of condor_q's start-up", cpu["q"], "ms", f"{how}; hardly depends on what else runs")
    slowest = max(cpu, key=lambda verb: cpu[verb])
    yield Figure("CPU of the slowest tool's start-up", cpu[slowest], "ms", f"{how}; it is {slowest}")
    bare = [_once([sys.executable, "-c", "pass"], compiled) for _ in range(ROUNDS + 1)]
    how = f"`python -c pass`, median of {ROUNDS}, {p50([used for _, used in bare]):.0f} ms of CPU"
    yield Figure("start-up of a bare interpreter, to compare", p50([wall for wall, _ in bare[1:]]), "ms", how)


def _once(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Milliseconds from exec to end, and of CPU."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, check=False)
    wall = (time.perf_counter() - began) * 1000
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def _fill_history(pool: Bench) -> None:
    """Jobs that were never in the queue, as rows that look as if they had been."""
    spool = Path(pool.directory, "spool")
    spool.mkdir(exist_ok=True)
    connection = open_queue(spool / "job_queue.sqlite")
    shared = {
        "Cmd": "/bin/true", "Owner": "ann", "User": "ann@here", "QDate": 1_700_000_000, "JobUniverse": 5,
        "RequestCpus": 1, "RequestMemory": 128, "Iwd": "/home/ann", "UserLog": "log", "Err": "/dev/null",
    }  # fmt: skip
    connection.execute("BEGIN")
    for number in range(1, HISTORY // PER_CLUSTER + 1):
        owner = "bob" if number % 100 == 0 else "ann"
        text = pack(ClassAd({**shared, "ClusterId": number, "Owner": owner, "User": f"{owner}@here"})).text
        connection.execute("INSERT INTO clusters VALUES (?, 0, ?, ?, ?, ?)", (number, f"{owner}@here", owner, 1, text))
        rows = []
        for proc in range(PER_CLUSTER):
            at = 1_700_000_000 + number * 10
            own = {
                "Args": f"{proc}", "Out": f"out.{proc}", "ExitCode": proc % 3, "ExitBySignal": False,
                "CompletionDate": at, "JobStartDate": at - 9, "RemoteHost": f"slot1_{proc % 64}@node{proc % 100}",
                "RemoteWallClockTime": 9.0, "RemoteUserCpu": 1.5, "NumJobStarts": 1, "ImageSize": 4000 + proc,
                "BytesSent": 0.0, "BytesRecvd": 1024.0, "NumShadowStarts": 1, "EnteredCurrentStatus": at,
            }  # fmt: skip
            rows.append((number, proc, owner, 4, float(at), pack(ClassAd(own)).text))
        connection.executemany(
            "INSERT INTO history (cluster, proc, owner, status, left_at, ad) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def _history(pool: Bench) -> Iterator[Figure]:
    last = HISTORY // PER_CLUSTER
    for name, argv, rounds, aim in (
        ("condor_history CLUSTER.PROC", ("7.77",), 3, "< 0.2"),
        ("condor_history CLUSTER", ("7",), 3, "< 0.5"),
        ("condor_history -limit 100", ("-limit", "100"), 3, "< 0.2"),
        ("condor_history OWNER -limit 100", ("bob", "-limit", "100"), 3, "< 1"),
        ("condor_history OWNER of nobody's jobs", ("nobody",), 3, "< 0.2"),
        ("condor_history -since, 1,500 jobs ago", ("-since", f"{last - 1}.{PER_CLUSTER // 2}"), 3, "< 1"),
        ("condor_history -constraint -scanlimit", ("-constraint", "ExitCode == 2", "-scanlimit", "10000"), 3, "< 2"),
        ("condor_history -constraint over all", ("-constraint", "ExitCode == 5", "-af", "ClusterId"), 1, ""),
    ):
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            program = Path(sys.executable).with_name("condor_history")
            subprocess.run([program, *argv], env=pool.env(), stdout=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - began)
        yield Figure(name, min(times), "s", f"over {HISTORY} finished jobs; best of {len(times)}", aim)


def _questions(pool: Bench) -> Iterator[Figure]:
    """condor_q of one job, again and again, while the schedd takes jobs."""
    text = f"executable = /bin/true\nqueue {QUEUED}\n"
    pool.submit(text, cwd=pool.home)
    done = threading.Event()

    def submit() -> None:
        while not done.is_set():
            pool.submit(text, cwd=pool.home)
            done.wait(0.2)

    busy = threading.Thread(target=submit)
    busy.start()
    times = []
    try:
        for at in range(QUESTIONS):
            began = time.perf_counter()
            pool.tool("condor_q", f"{HISTORY // PER_CLUSTER + 1}.{at}", "-af", "JobStatus")
            times.append((time.perf_counter() - began) * 1000)
    finally:
        done.set()
        busy.join()
    how = f"condor_q of one job, {QUESTIONS} times, while {QUEUED} jobs at a time are submitted"
    yield Figure("condor_q beside submits, median", p50(times), "ms", how)
    yield Figure("condor_q beside submits, p99", p99(times), "ms", how, "< 500")
