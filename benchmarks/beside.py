"""What others notice while files move: condor_q, and how long the schedd and the file agent let a newcomer wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure, p50, p99
from benchmarks.pool_run import Bench
from pool.base.errors import PoolError
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security

QUESTIONS: Final = 60
JOBS_MAX: Final = 20
PROBE_PAUSE_S: Final = 0.02
PATIENCE_S: Final = 600.0
JOB: Final = """executable = /bin/true
transfer_input_files = {sources}
transfer_output_files = {names}
should_transfer_files = YES
request_disk = 16G
log = {log}
queue {count}
"""


class Probe:
    """Says hello to a daemon, again and again: the answer takes as long as its event loop is held."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.times_ms: list[float] = []

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(PROBE_PAUSE_S):
            began = time.perf_counter()
            try:
                connect(str(self._socket), Security()).close()
            except (PoolError, OSError):
                pass  # an agent lets nobody in without a ticket, and says so
            self.times_ms.append((time.perf_counter() - began) * 1000)


def beside(pool: Bench, sources: list[Path], what: str) -> Iterator[Figure]:
    """condor_q on a quiet pool, then beside transfers in and out of these; and the loops' lag, seen from outside."""
    (agent,) = (path for path in (pool.run_dir / "agents").glob("*.sock"))
    sockets = {"schedd": pool.run_dir / "schedd.sock", "file agent": agent}
    quiet, quiet_waits = _questions(pool, sockets)
    directory = pool.home / "beside"
    directory.mkdir()
    directory.chmod(0o777)
    text = JOB.format(
        sources=", ".join(str(path) for path in sources),
        names=", ".join(path.name for path in sources),
        log=directory / "log",
        count=JOBS_MAX,
    )
    cluster = pool.submit(text, cwd=directory)
    pool.until(lambda: "Started transferring" in (directory / "log").read_text(), "files that move", deadline_s=60)
    busy, busy_waits = _questions(pool, sockets)
    moved = (directory / "log").read_text().count("Job terminated.")
    pool.tool("condor_rm", str(cluster))
    pool.until(lambda: not pool.jobs(str(cluster)), "an empty queue", deadline_s=PATIENCE_S)
    how = f"{QUESTIONS} times beside jobs that get and return {what}, {moved} of them to their end"
    yield Figure("condor_q beside transfers, p99", p99(busy), "ms", f"{how}; median {p50(busy):.0f}")
    ratio = p99(busy) / p99(quiet)
    yield Figure("condor_q beside transfers, p99 against a quiet pool", ratio, "times", f"{p99(quiet):.0f} ms", "<= 2")
    for name in sockets:
        was, now = quiet_waits[name], busy_waits[name]
        how = (
            f"connect and say hello, {len(now)} times; median {p50(now):.1f}; quiet {p50(was):.1f}, p99 {p99(was):.1f}"
        )
        yield Figure(f"greeting by the {name} beside transfers, p99", p99(now), "ms", how, "< 20")


def _questions(pool: Bench, sockets: dict[str, Path]) -> tuple[list[float], dict[str, list[float]]]:
    probes = {name: Probe(socket) for name, socket in sockets.items()}
    times = []
    with probes["schedd"], probes["file agent"]:
        for _ in range(QUESTIONS):
            began = time.perf_counter()
            pool.tool("condor_q")
            times.append((time.perf_counter() - began) * 1000)
    return times, {name: probe.times_ms for name, probe in probes.items()}
