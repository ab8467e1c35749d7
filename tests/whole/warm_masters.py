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

from tests.warm_process import WarmProcess, serve_orders

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

    def __init__(self, pid: int, masters: WarmMasters) -> None:
        self.pid, self._masters = pid, masters
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, once it has ended."""
        if self.returncode is None:
            self.returncode = self._masters.collect(self.pid)
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


class WarmMasters:
    """The process that forks them."""

    def __init__(self) -> None:
        self._process = WarmProcess(__name__)
        self._usual = _circumstances(os.environ)

    def start(self, words: Sequence[str], env: Mapping[str, str], errors: int) -> WarmMaster | None:
        """A master with these words and this environment, whose output goes to the descriptor; None if it is to be
        executed, for it would not find what it finds then."""
        if _circumstances(env) != self._usual:
            return None
        order = {"words": list(words), "environ": dict(env), "directory": os.getcwd()}
        answer, _ = self._process.ask(json.dumps(order).encode(), {**env, MARK: BLANK}, [errors])
        return WarmMaster(json.loads(answer), self)

    def collect(self, pid: int) -> int | None:
        """The exit status of a master that it has forked, once that has ended."""
        answer, _ = self._process.ask(json.dumps({"collect": pid}).encode(), os.environ)
        status: int | None = json.loads(answer)
        return status

    def close(self) -> None:
        """End the process; masters that run on are not its."""
        self._process.close()


_warm: WarmMasters | None = None


@contextmanager
def warm_masters() -> Iterator[None]:
    """Have the process for the time of the block; not where what masters execute is measured."""
    global _warm
    if "COVERAGE_FILE" in os.environ:
        yield
        return
    _warm = WarmMasters()
    try:
        yield
    finally:
        _warm.close()
        _warm = None


def masters() -> WarmMasters | None:
    """The process that forks masters, where there is one."""
    return _warm


# ---- in the process


def _serve(packet: bytes, descriptors: list[int]) -> tuple[bytes, list[socket.socket]]:
    """Fork a master, or say how one that was forked has ended."""
    order = json.loads(packet)
    if "collect" in order:
        pid, status = os.waitpid(order["collect"], os.WNOHANG)
        said = os.waitstatus_to_exitcode(status) if pid else None
    elif (said := os.fork()) == 0:
        _be_master(order, descriptors[0])
    for fd in descriptors:
        os.close(fd)
    return json.dumps(said).encode(), []


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


def be_warm() -> None:
    """Be the process."""
    from daemons.master import process  # noqa: F401 (what every master imports)
    from daemons.process import zygote

    zygote.load("daemons.master.born:child_main")
    serve_orders(_serve)
