"""A whole pool on this machine, measured from outside: start, latency, throughput, memory.

As root the daemons are root's and the jobs are an ordinary account's (`nobody`); as an ordinary account everything is
its own. CPU is what all processes of the pool used, with the children that they reaped. Times are best taken on a quiet
machine; CPU per job hardly depends on what else runs there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from benchmarks.measure import Figure, cpu_seconds, p50, pss_bytes, tree
from benchmarks.pool_client import until_terminated
from protocol.messages.common import GetAd
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security
from tests.whole.real_pool import RealPool, as_account, pool_directory
from tests.whole.rest import resting_keepers

USER: Final = "nobody"
QUIET: Final = {"ALL_DEBUG": "", "MEMORY": "32000", "DISK": "100000000"}
SLOTS: Final = 16
JOBS: Final = 1000
QUEUED: Final = 10_000
ROUNDS: Final = 15
MB: Final = 1e6
DAEMONS: Final = ("master", "collector", "negotiator", "schedd", "startd")
TRUE: Final = "executable = /bin/true\nshould_transfer_files = {transfer}\nlog = {log}\n{more}queue {count}\n"
SETTLE_S: Final = 1.0
KSM: Final = Path("/sys/kernel/mm/ksm")
MERGING_SCANS: Final = 4
"""A page is merged when two looks at it have found the same, and another page that has stayed the same as well."""
MERGING_S: Final = 900.0
GIVE_UP_S: Final = 120.0


class Bench(RealPool):
    """A pool under measurement, with a directory in which its user may write."""

    @property
    def home(self) -> Path:
        """The submitting user's directory."""
        home = self.directory / "home"
        if not home.exists():
            home.mkdir()
            home.chmod(0o777)
        return home

    @property
    def root(self) -> int:
        """The master's process."""
        assert self.master is not None
        return self.master.pid

    def daemons(self) -> list[psutil.Process]:
        """All processes of the pool that are not jobs."""
        return [process for process in tree(self.root) if _is_ours(process)]

    def jobs_file(self, name: str, *, count: int, transfer: bool, more: str = "") -> tuple[str, Path]:
        """A submit description of /bin/true, and its log."""
        log = self.home / f"{name}.log"
        return TRUE.format(transfer="YES" if transfer else "NO", log=log, more=more, count=count), log


def _is_ours(process: psutil.Process) -> bool:
    try:
        return "daemons" in " ".join(process.cmdline()) or process.name().startswith(("condor_", "python"))
    except psutil.Error:
        return False


@contextmanager
def bench(settings: Mapping[str, str], *, start: bool = True) -> Iterator[Bench]:
    """A pool for the time of the block."""
    with pool_directory() as directory:
        pool = Bench(directory, {**QUIET, **settings}, USER)
        try:
            if start:
                pool.start()
            yield pool
            pool.stop()
        finally:
            pool.kill()


def figures() -> Iterator[Figure]:
    """Every figure of docs/performance.md."""
    yield from _cold_start()
    with bench({"NUM_CPUS": str(SLOTS)}) as pool:
        yield from _latency(pool)
        yield _condor_q(pool)
        yield from _idle_memory(pool)
        yield from _running_memory(pool)
        yield from _throughput(pool, "no transfer", transfer=False, aims=(">= 120", "<= 12"))
        yield from _loop_lag(pool)
        yield from _throughput(pool, "file transfer", transfer=True, aims=(">= 80", "<= 16"))
    with bench({"NUM_CPUS": "1", "START": "False"}) as pool:
        yield from _big_queue(pool)


# ---- one job


def _cold_start(rounds: int = 3) -> Iterator[Figure]:
    times = []
    for _ in range(rounds):
        with bench({"NUM_CPUS": "2"}, start=False) as pool:
            description, log = pool.jobs_file("first", count=1, transfer=False)
            began = time.perf_counter()
            pool.start()
            pool.submit(description)
            until_terminated(log)
            times.append(time.perf_counter() - began)
    how = f"exec of a master in an empty directory, condor_submit once ready, to the end in the log; best of {rounds}"
    yield Figure("cold start to the first finished job", min(times), "s", how, "< 1.5")


def _latency(pool: Bench) -> Iterator[Figure]:
    for way, name, how, aim in (
        ("api", "an API call", "submit on an open connection", "< 30"),
        ("condor_submit", "condor_submit", "exec of condor_submit", "< 120"),
    ):
        command = [sys.executable, "-m", "benchmarks.pool_client", str(pool.directory), str(pool.home)]
        said = subprocess.run(
            [*command, str(ROUNDS + 3), way],
            check=True,
            capture_output=True,
            text=True,
            env={**pool.env(), "PYTHONPATH": os.getcwd()},
            **as_account(USER),
        )
        times = [float(line) * 1e3 for line in said.stdout.split()[3:]]
        how = f"{how} to Terminated in the log, pool idle; p50 of {len(times)}, best {min(times):.0f}"
        yield Figure(f"latency of one /bin/true by {name}", p50(times), "ms", how, aim)


def _condor_q(pool: Bench) -> Figure:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        pool.tool("condor_q")
        times.append((time.perf_counter() - began) * 1e3)
    how = f"exec to exit, queue empty; p50 of {ROUNDS}, best {min(times):.0f}"
    return Figure("condor_q, cold", p50(times), "ms", how, "< 80")


# ---- memory


def _settle() -> str:
    """Wait until the memory is what it will be; whether the kernel has merged what is equal (KSM)."""
    if _ksm("run") != 1:
        time.sleep(SETTLE_S)
        return "KSM off"
    scans, deadline = _ksm("full_scans") + MERGING_SCANS, time.monotonic() + MERGING_S
    while _ksm("full_scans") < scans and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
    return "KSM on"


def _ksm(name: str) -> int:
    try:
        return int((KSM / name).read_text(encoding="ascii"))
    except OSError:
        return 0


def _idle_memory(pool: Bench) -> Iterator[Figure]:
    merging = _settle()
    processes = pool.daemons()
    how = f"PSS of {len(processes)} processes: master, daemons, zygotes, file agent, a spare starter; {merging}"
    yield Figure("memory of all daemons, idle", pss_bytes(processes) / MB, "MB", how, "<= 80")


def _running_memory(pool: Bench) -> Iterator[Figure]:
    """For each of many sleeping jobs: while it is new, and when its starter rests (STARTER_REST_AFTER)."""
    before = pss_bytes(pool.daemons())
    description = f"executable = /bin/sleep\narguments = 600\nshould_transfer_files = NO\nqueue {SLOTS}\n"
    cluster = pool.submit(description)
    pool.until_status(cluster, 2, count=SLOTS)
    time.sleep(SETTLE_S)
    new = pss_bytes(pool.daemons()) - before
    pool.until(lambda: len(resting_keepers(pool)) == SLOTS, "all starters to rest")
    merging = _settle()
    resting = pss_bytes(pool.daemons()) - before
    pool.tool("condor_rm", str(cluster))
    pool.until(lambda: not pool.jobs(str(cluster)), "an empty queue")
    how = f"growth of the PSS of all of the pool's processes with {SLOTS} sleeping jobs, for each job"
    yield Figure("memory for each new job", new / SLOTS / MB, "MB", f"{how}, before its starter rests")
    yield Figure("memory for each running job", resting / SLOTS / MB, "MB", f"{how}; {merging}", "<= 5")


# ---- many jobs


def _throughput(pool: Bench, what: str, *, transfer: bool, aims: tuple[str, str]) -> Iterator[Figure]:
    description, log = pool.jobs_file(f"many.{transfer}", count=JOBS, transfer=transfer)
    cpu = cpu_seconds(pool.root)
    began = time.perf_counter()
    pool.submit(description)
    _until_many_ended(log, JOBS)
    took = time.perf_counter() - began
    used = cpu_seconds(pool.root) - cpu
    how = f"{JOBS} x /bin/true on {SLOTS} slots, {what}; exec of condor_submit to the last Terminated"
    yield Figure(f"throughput, {what}", JOBS / took, "jobs/s", f"{how}, {took:.1f} s", aims[0])
    how = "CPU of all of the pool's processes and of their children, for each job of that run"
    yield Figure(f"CPU for each job, {what}", used / JOBS * 1e3, "ms", how, aims[1])


def _until_many_ended(log: Path, count: int) -> None:
    """As `until_terminated`, but without reading a large log over and over."""
    deadline, seen, place = time.monotonic() + GIVE_UP_S, 0, 0
    while seen < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{seen} of {count} jobs ended")
        time.sleep(0.02)
        if log.exists():
            with open(log, "rb") as file:
                file.seek(place)
                text = file.read()
            whole = text[: text.rfind(b"\n...\n") + 5] if b"\n...\n" in text else b""
            place += len(whole)
            seen += whole.count(b"Job terminated.")


def _loop_lag(pool: Bench) -> Iterator[Figure]:
    for name in DAEMONS:
        with connect(str(pool.run_dir / f"{name}.sock"), Security()) as peer:
            ad = peer.call(GetAd()).ad
        how = f"of the daemon's heartbeats up to the end of the run; worst {ad.eval_float('LoopLagMax', 0.0) * 1e3:.0f}"
        yield Figure(f"loop lag p99, {name}", ad.eval_float("LoopLagP99", 0.0) * 1e3, "ms", how, "< 20")


def _big_queue(pool: Bench) -> Iterator[Figure]:
    description, _ = pool.jobs_file("warm", count=1, transfer=False)
    pool.submit(description)
    schedd = psutil.Process(pool.pid_of("schedd"))
    before, cpu = pss_bytes([schedd]), _process_cpu(schedd)
    began = time.perf_counter()
    said = pool.tool("condor_submit", cwd=pool.home, text=f"executable = /bin/true\nqueue {QUEUED}\n")
    took = time.perf_counter() - began
    assert re.search(rf"{QUEUED} job\(s\) submitted", said), said
    time.sleep(SETTLE_S)
    how = f"exec to exit of condor_submit; the schedd used {_process_cpu(schedd) - cpu:.2f} s of CPU"
    yield Figure("submit of 10,000 procs", took, "s", how, "< 0.5")
    grown = (pss_bytes([schedd]) - before) / MB
    yield Figure("memory for 10,000 queued jobs", grown, "MB", "growth of the schedd's PSS by that submit", "<= 8")


def _process_cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
