"""How long a daemon computes at one go, while somebody else waits to be answered.

What is measured is the processor time that the daemon's event loop uses while a ping is under way, not the time of day:
so it is the same on a busy machine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.messages.common import Ping
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security
from tests.whole.real_pool import RealPool

HELD_MAX_S = 1.0
"""Two of the pieces of 50 ms, one before the ping is read and one before it is answered, and what else is done on a
machine that is several times slower than most. Bombs take seconds."""


def loop_s(pid: int) -> float:
    """What the main thread of a process has used of the processor."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory_mib(pid: int) -> float:
    """What a process has in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def nobody_held(pool: RealPool, daemon: str, *, grows_mib: float = 60) -> Iterator[None]:
    """Ping the daemon as long as the block lasts: it must answer between the pieces of an attack, and not grow."""
    pid, over = pool.pid_of(daemon), threading.Event()
    used: list[float] = []

    def ping() -> None:
        with connect(str(pool.run_dir / f"{daemon}.sock"), Security()) as peer:
            while not used or not over.wait(0.005):  # also a block that is over at once has its ping
                before = loop_s(pid)
                try:
                    peer.call(Ping(), timeout=60)
                finally:
                    used.append(loop_s(pid) - before)

    before = memory_mib(pid)
    pinger = threading.Thread(target=ping)
    pinger.start()
    try:
        yield
    finally:
        over.set()
        pinger.join()
    assert used, f"the {daemon} answered no ping"
    assert max(used) < HELD_MAX_S, f"the {daemon} computed {max(used):.2f} s at one go"
    assert memory_mib(pid) - before < grows_mib
