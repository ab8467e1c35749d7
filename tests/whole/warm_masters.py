"""One process for each process of tests that has imported what masters need, and forks the masters of real pools.

Executed, a master takes most of a second of processor time before it does anything, the same each time. Forked, it does
from there what an executed one does: it reads the same words, forks its zygote, and shows the pool's mark in its
environment, by which all that is left of a pool is found. Pools of other accounts, and those that are started in other
circumstances than the tests, execute theirs.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

REQUEST_BYTES_MAX = 1 << 20
PATIENCE_S = 90.0
LOOK_S = 0.02
MARK = "MINIPOOL_TEST_MARK"
BLANK = "0" * 32
"""What a pool's mark takes the place of, in the memory that the kernel shows as the environment."""


READ_AT_EXEC = ("LD_", "PYTHON")
"""How variables begin that a process reads when it is executed, and not later."""


def _circumstances(env: Mapping[str, str]) -> tuple[object, ...]:
    """What a master has of whoever starts it: a forked one has it of the process that forks it."""
    read = {name: value for name, value in env.items() if name.startswith(READ_AT_EXEC) and name != "PYTHONUNBUFFERED"}
    spaces = Path("/proc/thread-self/ns")
    return (
        read,
        {name: os.readlink(spaces / name) for name in os.listdir(spaces)},
        [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")],
        os.sched_getaffinity(0),
        os.nice(0),
        os.getresuid(),
    )


class WarmMaster:
    """A master that was forked, with the part of `subprocess.Popen` that a pool uses."""

    def __init__(self, pid: int, process: WarmProcess) -> None:
        self.pid, self._process = pid, process
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, once it has ended."""
        if self.returncode is None:
            self.returncode = self._process.ask({"collect": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; TimeoutExpired when that does not come."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("master", timeout or 0.0)
            time.sleep(LOOK_S)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class WarmProcess:
    """It starts when the first master is wanted, and ends with our end of the pair."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES_MAX)
        self._ours.settimeout(PATIENCE_S)
        self._process: subprocess.Popen[bytes] | None = None
        self._usual = _circumstances(os.environ)

    def start(self, words: Sequence[str], env: Mapping[str, str], errors: int) -> WarmMaster | None:
        """A master with these words and this environment, whose output goes to the descriptor; None if it is to be
        executed, for it would not find what it finds then."""
        if _circumstances(env) != self._usual:
            return None
        if self._process is None:
            self._start(env)
        order = {"words": list(words), "environ": dict(env), "directory": os.getcwd()}
        socket.send_fds(self._ours, [json.dumps(order).encode()], [errors])
        return WarmMaster(json.loads(self._ours.recv(REQUEST_BYTES_MAX)), self)

    def ask(self, order: Mapping[str, int]) -> int | None:
        """What it answers."""
        self._ours.sendall(json.dumps(order).encode())
        said: int | None = json.loads(self._ours.recv(REQUEST_BYTES_MAX))
        return said

    def _start(self, env: Mapping[str, str]) -> None:
        with self._theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(self._theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[self._theirs.fileno()],
                env={**env, MARK: BLANK, "OPENBLAS_NUM_THREADS": "1"},
            )

    def close(self) -> None:
        """End it; masters that run on are not its."""
        self._ours.close()
        self._theirs.close()
        if self._process is not None:
            self._process.wait(PATIENCE_S)


_warm: WarmProcess | None = None


@contextmanager
def warm_masters() -> Iterator[None]:
    """Have the process for the time of the block; not where what masters execute is measured."""
    global _warm
    if "COVERAGE_FILE" in os.environ:
        yield
        return
    _warm = WarmProcess()
    try:
        yield
    finally:
        _warm.close()
        _warm = None


def warm_process() -> WarmProcess | None:
    """The process that forks masters, where there is one."""
    return _warm


# ---- in the process


def main(orders: socket.socket) -> None:
    """Fork a master for each order, and say how those ended that are asked for, until nobody asks."""
    from daemons.master import process  # noqa: F401 (what every master imports)
    from daemons.process import zygote

    orders.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    zygote.load("daemons.master.born:child_main")
    while True:
        packet, descriptors, _, _ = socket.recv_fds(orders, REQUEST_BYTES_MAX, 1)
        if not packet:
            return
        order = json.loads(packet)
        if "collect" in order:
            pid, status = os.waitpid(order["collect"], os.WNOHANG)
            said = os.waitstatus_to_exitcode(status) if pid else None
        elif (said := os.fork()) == 0:
            _be_master(order, descriptors[0])
        for fd in descriptors:
            os.close(fd)
        orders.sendall(json.dumps(said).encode())


def _be_master(order: Mapping[str, Any], errors: int) -> NoReturn:
    status = 1
    try:
        os.setsid()
        for fd in (1, 2):
            os.dup2(errors, fd)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _show_mark(order["environ"][MARK])
        os.environ.clear()
        os.environ.update(order["environ"])
        time.tzset()
        os.chdir(order["directory"])
        from daemons.__main__ import main as run

        status = run(order["words"])
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _show_mark(mark: str) -> None:
    """Put the mark into the memory that this process was executed with, which /proc shows as its environment."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    blank = f"{MARK}={BLANK}".encode()
    at = ctypes.string_at(start, end - start).index(blank)
    ctypes.memmove(start + at, f"{MARK}={mark}".encode(), len(blank))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
