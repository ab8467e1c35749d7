"""Places at which a test may have a process killed: `fault("schedd.after_submit_commit")`.

The knob FAULT_POINTS lists them (`name`, or `name:3` for the third time the point is passed). The process that passes
a listed point is gone as if by `kill -9`; a marker in RUN keeps the point from firing again, so that the daemon which
the master starts anew goes on. Without the knob a call costs one look into an empty dict.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

_armed: dict[str, int] = {}
_markers: Path | None = None


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_kill: Callable[[], None] = _kill_self


def arm(points: str | None, run_dir: str | os.PathLike[str], *, kill: Callable[[], None] = _kill_self) -> None:
    """Set the points of this process, in the words of FAULT_POINTS; an empty text disarms all."""
    global _markers, _kill
    _armed.clear()
    _markers, _kill = Path(run_dir) / "faults", kill
    for word in (points or "").replace(",", " ").split():
        name, _, times = word.partition(":")
        _armed[name] = int(times) if times.isdigit() else 1


def fault(name: str) -> None:
    """Die here, if this point is armed, its time has come, and it has not fired before in this pool."""
    if name not in _armed:
        return
    _armed[name] -= 1
    if _armed[name] <= 0 and _mark(name):
        del _armed[name]
        _kill()


def _mark(name: str) -> bool:
    """Claim the point's only shot; durable before the process goes."""
    assert _markers is not None
    try:
        _markers.mkdir(exist_ok=True, mode=0o777)
        os.close(os.open(_markers / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return False
    except OSError:  # a starter as another user, for example: better no fault than one again and again
        return False
    return True
