"""A process that has imported what others need, and forks them: executed, each would import it again.

It is one for each process of tests, starts when the first fork is wanted, and ends with our end of a pair of sockets.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PACKET_BYTES_MAX = 1 << 20
SLOWER = float(os.environ.get("TESTS_SLOWER", "1"))
"""How many times as long as on a usual machine all may take: on an emulated one."""
PATIENCE_S = 90.0 * SLOWER
ROOT = str(Path(__file__).parents[1])
PROGRAM = "import sys; sys.path.append(sys.argv[2]); import {0}; {0}.be_warm()"
"""The directory of the tests comes last: what is under test is what is installed."""


class WarmProcess:
    """The side of the tests."""

    def __init__(self, module: str) -> None:
        """`module` is the name of one whose `be_warm()` ends with `serve_orders`."""
        self._module = module
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PACKET_BYTES_MAX)
        self._ours.settimeout(PATIENCE_S)
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, order: bytes, env: Mapping[str, str], descriptors: Sequence[int] = ()) -> tuple[bytes, list[int]]:
        """What it answers, with the descriptors that come with that; it starts with `env`."""
        if self._process is None:
            self._start(env)
        socket.send_fds(self._ours, [order], descriptors)
        answer, received, _, _ = socket.recv_fds(self._ours, PACKET_BYTES_MAX, 1)
        return answer, received

    def _start(self, env: Mapping[str, str]) -> None:
        with self._theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM.format(self._module), str(self._theirs.fileno()), ROOT],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._theirs.fileno()],
                env={**env, "OPENBLAS_NUM_THREADS": "1"},
            )

    def close(self) -> None:
        """End it; what it has forked runs on."""
        self._ours.close()
        self._theirs.close()
        if self._process is not None:
            self._process.wait(PATIENCE_S)


def serve_orders(serve: Callable[[bytes, list[int]], tuple[bytes, list[socket.socket]]]) -> None:
    """Be the process: give each order with its descriptors to `serve`, and send back what that returns, until nobody asks."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    orders.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, PACKET_BYTES_MAX, 1)
        if not order:
            return
        answer, sent = serve(order, descriptors)
        socket.send_fds(orders, [answer], [each.fileno() for each in sent])
        for each in sent:
            each.close()
