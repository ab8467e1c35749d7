"""What a user's condor_q takes while somebody else floods the daemons: quiet, and under each flood.

The pool is root's, the floods are one account's and the questions another's; as an ordinary account all are its own,
and then nothing is bounded for the flood. A flood's process is the last to get a core (nice 19): what is measured is
how the daemons share themselves out, not how the kernel shares the machine. The last figure is what a program of that
kind costs that does not touch the pool at all.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from benchmarks.measure import Figure, p50, p99
from benchmarks.pool_run import USER, Bench, bench
from tests.attacks.flood import flood
from tests.whole.real_pool import as_account

ATTACKER: Final = "games"
JOBS: Final = 20_000
CALLS: Final = 150
TOOLS: Final = 25
AIM: Final = 2.0

ASK: Final = """
import sys, time
from protocol.rpc.blocking import connect
from protocol.messages.schedd import CountJobs
from protocol.security.credentials import Security
times = []
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    with connect(sys.argv[1], Security()) as peer:
        peer.call(CountJobs())
    times.append(time.perf_counter() - began)
    time.sleep(0.005)
print(*times)
"""


def figures() -> Iterator[Figure]:
    """Latencies quiet, then the ratio under each flood."""
    with bench({"NUM_CPUS": "1", "START": "False"}) as pool:
        pool.tool("condor_submit", cwd=pool.home, text=f"executable = /bin/true\nqueue {JOBS}\n")
        quiet = _Taken(pool)
        for name, times, unit in (("API call", quiet.calls, 1e3), ("condor_q", quiet.tools, 1e3)):
            how = f"quiet, {len(times)} times, {JOBS} jobs in the queue"
            yield Figure(f"{name}, p50", p50(times) * unit, "ms", how)
            yield Figure(f"{name}, p99", p99(times) * unit, "ms", how)
        for what, start in _floods(pool).items():
            with start():
                taken = _Taken(pool)
            yield from _ratios(what, taken, quiet)


def _ratios(what: str, taken: _Taken, quiet: _Taken) -> Iterator[Figure]:
    for name, times, before in (("API call", taken.calls, quiet.calls), ("condor_q", taken.tools, quiet.tools)):
        for label, point in (("p50", p50), ("p99", p99)):
            how = f"{point(times) * 1e3:.2f} ms; quiet {point(before) * 1e3:.2f} ms"
            aim = f"<= {AIM:g}" if what != "a busy program" else ""
            yield Figure(f"{name} under {what}, {label}", point(times) / point(before), "x", how, aim)


def _floods(pool: Bench) -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """How each flood is started."""
    schedd = pool.run_dir / "schedd.sock"
    port = (pool.run_dir / "schedd.address").read_text().splitlines()[0]

    def one(kind: str, where: object, count: int) -> Callable[[], AbstractContextManager[None]]:
        return lambda: flood(kind, where, count=count, account=ATTACKER, nice=19)

    return {
        "silent connections": one("silent", schedd, 3000),
        "strangers at the port": one("mute_port", port, 3000),
        "strangers for the schedd": one("prefaced", port, 3000),
        "idle connections": one("idle", schedd, 1500),
        "TLS handshakes": one("handshakes", port, 20),
        "connections that come and go": one("visits", schedd, 1),
        "long messages": one("frames", schedd, 4),
        "queries of the whole queue": one("queries", schedd, 100),
        "dear constraints": one("bombs", schedd, 20),
        "small calls": one("calls", schedd, 20),
        "submits": one("submits", schedd, 4),
        "a busy program": one("busy", schedd, 1),
    }


class _Taken:
    """How long a user's questions took."""

    def __init__(self, pool: Bench) -> None:
        argv = [sys.executable, "-c", ASK, str(pool.run_dir / "schedd.sock"), str(CALLS)]
        said = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300, **as_account(USER))
        self.calls = [float(word) for word in said.stdout.split()]
        self.tools = []
        for _ in range(TOOLS):
            began = time.perf_counter()
            pool.tool("condor_q", "-totals")
            self.tools.append(time.perf_counter() - began)
