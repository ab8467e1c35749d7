"""Floods: what one account can open and send, from a process of its own, while others want to work.

    with flood("silent", pool.run_dir / "schedd.sock", count=600):
        ...                      # the connections are open, and opened again when they are closed

Each kind is a function of this module, which runs in the process of the flood.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from protocol.address import Address
from protocol.shared_port import preface
from tests.whole.real_pool import DEADLINE_S, as_account

LIFE_S: Final = 60.0
READY: Final = "ready"


@contextmanager
def flood(kind: str, where: object, *, count: int, account: str | None) -> Iterator[None]:
    """That flood, by a process of `account`, for the time of the block."""
    command = [sys.executable, "-m", "tests.attacks.flood", kind, str(where), str(count)]
    process = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **as_account(account),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == READY, f"the flood of {kind} could not begin"
        yield
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def _hold(open_one: Callable[[], socket.socket], count: int) -> None:
    """Keep `count` connections open, each opened again once it is closed; says when all are there."""
    held: list[socket.socket] = []
    said, end = False, time.monotonic() + LIFE_S
    while time.monotonic() < end:
        while len(held) < count:
            with suppress(OSError):
                held.append(open_one())
                continue
            break  # refused: what is open has to do
        if not said:
            said = True
            print(READY, flush=True)
        held = [sock for sock in held if _is_open(sock)]
        time.sleep(0.01)


def _is_open(sock: socket.socket) -> bool:
    try:
        while sock.recv(4096, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    sock.close()
    return False


def silent(where: str, count: int) -> None:
    """Connections to a unix socket on which nothing is said."""

    def open_one() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(0.5)
        sock.connect(where)
        return sock

    _hold(open_one, count)


def mute_port(where: str, count: int) -> None:
    """TCP connections on which nothing is said."""
    address = Address.parse(where)
    _hold(lambda: socket.create_connection((address.host, address.port), timeout=0.5), count)


def prefaced(where: str, count: int) -> None:
    """TCP connections that name a daemon, and then say nothing."""
    address = Address.parse(where)

    def open_one() -> socket.socket:
        sock = socket.create_connection((address.host, address.port), timeout=0.5)
        sock.sendall(preface(address.sock))
        return sock

    _hold(open_one, count)


def idle(where: str, count: int) -> None:
    """Authenticated connections to a unix socket on which nothing more is said."""
    from protocol.blocking import BlockingPeer, connect
    from protocol.security import Security

    kept: list[BlockingPeer] = []

    def open_one() -> socket.socket:
        kept.append(connect(where, Security(), timeout=5.0))
        return socket.socket(fileno=kept[-1]._socket.detach())

    def tolerant() -> socket.socket:
        try:
            return open_one()
        except Exception as error:
            raise OSError(str(error)) from None

    _hold(tolerant, count)


KINDS: Final = {"silent": silent, "mute_port": mute_port, "prefaced": prefaced, "idle": idle}

if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
