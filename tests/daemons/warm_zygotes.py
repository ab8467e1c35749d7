"""One process for each process of tests that has imported what starters and file agents need, and forks zygotes of them.

Executed, a zygote takes half a second of processor time, four hundred times. A startd's first zygote is forked as well,
in the same way (daemons/process/first_zygote.py), and those after it are executed, here too.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from daemons.process import first_zygote
from daemons.process.first_zygote import FirstZygote

REQUEST_BYTES_MAX = 1 << 20
PATIENCE_S = 90.0


class WarmProcess:
    """It starts when the first zygote is wanted, and ends with our end of the pair."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES_MAX)
        self._ours.settimeout(PATIENCE_S)
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, kinds: Mapping[str, str]) -> FirstZygote:
        """A zygote for these kinds, with the environment that this process has now."""
        if self._process is None:
            self._start()
        self._ours.sendall(json.dumps({"kinds": dict(kinds), "environ": dict(os.environ)}).encode())
        pid, descriptors, _, _ = socket.recv_fds(self._ours, 64, 1)
        return FirstZygote(int(pid), socket.socket(fileno=descriptors[0]))

    def _start(self) -> None:
        with self._theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(self._theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._theirs.fileno()],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )

    def close(self) -> None:
        """End it; zygotes that run on are not its."""
        self._ours.close()
        self._theirs.close()
        if self._process is not None:
            self._process.wait(PATIENCE_S)


_warm: WarmProcess | None = None


@contextmanager
def warm_process() -> Iterator[None]:
    """Have one for the time of the block."""
    global _warm
    _warm = WarmProcess()
    try:
        yield
    finally:
        _warm.close()
        _warm = None


def have_zygote(kinds: Mapping[str, str]) -> None:
    """Have a zygote ready for the next who wants one for these kinds."""
    assert _warm is not None
    first_zygote.keep(kinds, _warm.fork(kinds))


def main(orders: socket.socket) -> None:
    """Fork a zygote for each request, until there is nobody to ask for one."""
    orders.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for zygotes
    while request := orders.recv(REQUEST_BYTES_MAX):
        asked = json.loads(request)
        os.environ.clear()
        os.environ.update(asked["environ"])
        forked = first_zygote.fork_zygote(asked["kinds"])
        with forked.owner as owner:
            socket.send_fds(orders, [b"%d" % forked.pid], [owner.fileno()])


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
