"""Places at which a test may have a process killed: `fault("schedd.after_submit_commit")`.

The knob FAULT_POINTS lists them (`name`, or `name:3` for the third time the point is passed). The process that passes
a listed point is gone as if by `kill -9`; a marker in RUN keeps the point from firing again, so that the daemon which
the master starts anew goes on. Without the knob a call costs one look into an empty dict.

A file beside the marker, with `.do` at the end of its name, may hold another word for what happens: `stop` stops the
process (SIGSTOP; its number is in the marker), so that the test can do something else to it or to others just then;
`cut` cuts its connections through file agents' sockets, as a network would that breaks.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pool.base.ids import is_number

AGENTS: Final = "/agents/"
"""In the path of each file agent's socket."""

_armed: dict[str, int] = {}
_markers: Path | None = None


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _cut() -> None:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            sock = socket.socket(fileno=os.dup(descriptor))
        except OSError:  # the descriptor that listed them is closed
            continue
        with sock:
            try:
                if sock.family == socket.AF_UNIX and AGENTS in f"{sock.getsockname()} {sock.getpeername()}":
                    sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it listens, or is cut already


_kill: Callable[[], None] = _kill_self


def arm(points: str | None, run_dir: str | os.PathLike[str], *, kill: Callable[[], None] = _kill_self) -> None:
    """Set the points of this process, in the words of FAULT_POINTS; an empty text disarms all."""
    global _markers, _kill
    _armed.clear()
    _markers, _kill = Path(run_dir) / "faults", kill
    for word in (points or "").replace(",", " ").split():
        name, _, times = word.partition(":")
        _armed[name] = int(times) if is_number(times) else 1


def fault(name: str) -> None:
    """Die here, if this point is armed, its time has come, and it has not fired before in this pool."""
    if name not in _armed:
        return
    _armed[name] -= 1
    if _armed[name] <= 0 and _mark(name):
        _ACTIONS.get(_wanted(name), lambda: _kill())()


def _mark(name: str) -> bool:
    """Claim the point's only shot; durable before the process goes."""
    assert _markers is not None
    try:
        _markers.mkdir(exist_ok=True)
        # O_EXCL decides between processes that pass the point at the same time.
        descriptor = os.open(_markers / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        os.close(descriptor)
    except FileExistsError:
        return False
    except OSError:  # a starter as another user, for example: better no fault than one again and again
        return False
    return True


def _wanted(name: str) -> str:
    assert _markers is not None
    try:
        return (_markers / f"{name}.do").read_text().strip()
    except OSError:
        return ""


_ACTIONS: Final[dict[str, Callable[[], None]]] = {"stop": _stop, "cut": _cut}
