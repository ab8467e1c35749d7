"""What the pool's processes say to each other for one cold job, and for each job of a stream under one claim.

All processes of a pool of one slot are tapped where they send: how often each message went as a call (which waits for
an answer) or as a notice, and the bytes of all that was sent, answers too. What tools send is not heard; what daemons
send as time passes is kept rare by the knobs. How many went from whom is in `how`.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from benchmarks.hot_spots import run_jobs
from benchmarks.measure import Figure
from benchmarks.pool_run import QUIET, SETTLE_S, USER, Bench
from protocol.rpc.connection import Connection
from protocol.rpc.envelope import REQUESTS, EnvelopeKind
from tests.whole.real_pool import pool_directory

STREAM: Final = 200
PLACE: Final = "MINIPOOL_BENCHMARK_TAP"
KINDS: Final = {EnvelopeKind.CALL: "call", EnvelopeKind.NOTICE: "notice", EnvelopeKind.STREAM: "stream"}
RARE: Final = dict.fromkeys(("UPDATE_INTERVAL", "SCHEDD_INTERVAL", "NEGOTIATOR_INTERVAL"), "3000")

Row = tuple[str, str, str]
"""Who has sent it, as what, and its tag, which begins with who it is for."""


def figures() -> Iterator[Figure]:
    """The suite."""
    with pool_directory() as directory:
        pool = TappedPool(directory, {**QUIET, **RARE, "NUM_CPUS": "1"}, USER)
        try:
            pool.start()
            run_jobs(pool, "warm", 2, transfer=False)
            yield from _told(pool, "one cold job", 1)
            yield from _told(pool, f"each of {STREAM} jobs of a claim", STREAM)
            pool.stop()
        finally:
            pool.kill()


def _told(pool: TappedPool, what: str, jobs: int) -> Iterator[Figure]:
    time.sleep(SETTLE_S)  # until all is said that the jobs before have given rise to
    pool.heard.clear()
    run_jobs(pool, what.replace(" ", "_"), jobs, transfer=False)
    time.sleep(SETTLE_S)
    counts: Mapping[Row, int] = Counter(pool.heard)
    for kind in ("call", "notice"):
        found = {f"{sender} {tag}": count for (sender, is_a, tag), count in counts.items() if is_a == kind}
        how = ", ".join(f"{name} {count / jobs:.3g}" for name, count in found.items())
        yield Figure(f"{kind}s, {what}", sum(found.values()) / jobs, "", how)
    size = sum(count for (_, is_a, _), count in counts.items() if is_a == "bytes")
    yield Figure(f"bytes sent, {what}", size / jobs, "", "calls, notices, streams and all answers")


class TappedPool(Bench):
    """A pool whose processes say what they send, into a socket that no account and no jail keeps them from."""

    program = ("-m", "benchmarks.messages")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.heard: Counter[Row] = Counter()
        self._place = f"minipool-messages-{self.mark}"
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ear.bind("\0" + self._place)
        threading.Thread(target=self._listen, args=(ear,), daemon=True).start()

    def env(self) -> dict[str, str]:
        """Where the processes find the socket."""
        return {**super().env(), PLACE: self._place}

    def _listen(self, ear: socket.socket) -> None:
        while True:
            sender, kind, tag, size = ear.recv(4096).decode().split(" ")
            self.heard[sender, kind, tag] += 1
            self.heard[sender, "bytes", ""] += int(size)


# ---- in the pool's processes


def tap(place: str) -> None:
    """Say from now on, in this process and those that it forks, what is sent."""
    mouths: dict[int, socket.socket] = {}
    send: Callable[..., None] = Connection._send

    def tapped(self: Connection, *message: object) -> None:
        before = self.pending_bytes
        send(self, *message)
        if os.getpid() not in mouths:
            mouths[os.getpid()] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with open("/proc/self/comm", encoding="ascii") as file:
            sender = file.read().strip().removeprefix("condor_")
        kind, at = message[0], 1 if message[0] == EnvelopeKind.NOTICE else 2
        tag = message[at] if kind in REQUESTS else "-"
        text = f"{sender} {KINDS.get(kind, 'other')} {tag} {self.pending_bytes - before}"
        mouths[os.getpid()].sendto(text.encode(), "\0" + place)

    Connection._send = tapped  # type: ignore[method-assign]


if __name__ == "__main__":
    from daemons.__main__ import main

    tap(os.environ[PLACE])
    sys.exit(main(sys.argv[1:]))
