"""One process for each process of tests that has imported what starters and file agents need, and forks zygotes of them.

Executed, a zygote takes half a second of processor time, four hundred times. A startd's first zygote is forked as well,
in the same way (daemons/process/first_zygote.py), and those after it are executed, here too.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from daemons.process import first_zygote
from daemons.process.first_zygote import FirstZygote
from tests.warm_process import WarmProcess, serve_orders

_warm: WarmProcess | None = None


@contextmanager
def warm_zygotes() -> Iterator[None]:
    """Have the process for the time of the block."""
    global _warm
    _warm = WarmProcess(__name__)
    try:
        yield
    finally:
        _warm.close()
        _warm = None


def have_zygote(kinds: Mapping[str, str]) -> None:
    """Have a zygote ready for the next who wants one for these kinds, with the environment that this process has now."""
    assert _warm is not None
    order = {"kinds": dict(kinds), "environ": dict(os.environ)}
    pid, descriptors = _warm.ask(json.dumps(order).encode(), os.environ)
    first_zygote.keep(kinds, FirstZygote(int(pid), socket.socket(fileno=descriptors[0])))


def _fork(request: bytes, _descriptors: list[int]) -> tuple[bytes, list[socket.socket]]:
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["environ"])
    forked = first_zygote.fork_zygote(asked["kinds"])
    return b"%d" % forked.pid, [forked.owner]


def be_warm() -> None:
    """Be the process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for zygotes
    serve_orders(_fork)
