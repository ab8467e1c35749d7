"""A process's first zygote is forked off it, before it has an event loop, a thread or a key; later ones are executed.

Master, schedd and startd each need a zygote at once. Forked, it has imported everything already, and shares that
memory: a host imports its code once. The child keeps no descriptor of its parent's but the one that brings its orders.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import traceback
from collections.abc import Mapping
from typing import Final, NoReturn

import trio

from daemons.base.merging import mark_memory
from daemons.process import zygote

KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "master": {"daemon": "daemons.master.born:child_main"},
    "schedd": {"agent": zygote.KINDS["agent"], "local": zygote.KINDS["local"]},
    "startd": {name: zygote.KINDS[name] for name in ("starter", "homes")},
}
"""What the zygotes of each daemon make."""


class FirstZygote:
    """A zygote that was forked, and our end of its socket pair."""

    def __init__(self, pid: int, owner: socket.socket) -> None:
        self.pid = pid
        self.owner = owner
        self.returncode: int | None = None

    def kill(self) -> None:
        """End it."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    async def wait(self) -> None:
        """Wait for its end, and collect it."""
        try:
            pidfd = os.pidfd_open(self.pid)
            try:
                await trio.lowlevel.wait_readable(pidfd)
            finally:
                os.close(pidfd)
            _, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 (it has ended: nothing blocks)
            self.returncode = os.waitstatus_to_exitcode(status)
        except (ProcessLookupError, ChildProcessError):  # somebody else has collected it
            return


_waiting: dict[str, FirstZygote] = {}


def fork_for(daemon: str) -> None:
    """Fork the zygote that `daemon` will want, if it wants any and this process can still fork safely."""
    kinds = KINDS.get(daemon)
    # Another thread's locks would stay locked for ever in the child.
    if kinds is not None and threading.active_count() == 1:
        keep(kinds, fork_zygote(kinds))


def fork_zygote(kinds: Mapping[str, str]) -> FirstZygote:
    """A zygote for these kinds, off this process, which has one thread."""
    for entry in kinds.values():
        zygote.load(entry)  # before the fork, so that this process and its zygote share what comes of it
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gc.freeze()
    mark_memory()
    pid = os.fork()
    if pid == 0:
        _be_zygote(theirs.detach(), kinds)
    theirs.close()
    return FirstZygote(pid, ours)


def keep(kinds: Mapping[str, str], forked: FirstZygote) -> None:
    """Have a zygote ready for the first of this process that wants these kinds."""
    _waiting[_key(kinds)] = forked


def take(kinds: Mapping[str, str]) -> FirstZygote | None:
    """The zygote for these kinds that was forked for this process; once."""
    return _waiting.pop(_key(kinds), None)


def _key(kinds: Mapping[str, str]) -> str:
    return " ".join(sorted(kinds))


def _be_zygote(orders: int, kinds: Mapping[str, str]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        # All but the one: a listening socket or a log in the zygote would outlive this process.
        os.closerange(3, orders)
        os.closerange(orders + 1, os.sysconf("SC_OPEN_MAX"))
        _waiting.clear()
        code = zygote.main([str(orders), *(f"{kind}={entry}" for kind, entry in kinds.items())])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
