"""Kills processes until none is left: some may fork while the signals go round, and what is killed takes a moment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Set
from typing import Final

from daemons.base.linux import is_zombie

ROUNDS_MAX: Final = 400
PAUSE_S: Final = 0.005


def kill(pids: Iterable[int]) -> None:
    """Kill each that is still there and may be killed by this process."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_until_gone(
    who: Callable[[], Set[int]], *, kill: Callable[[Set[int]], object] = kill, rounds_max: int = ROUNDS_MAX
) -> set[int]:
    """Kill those whom `who` names, until it names none that lives; who is left after the last round. Blocks.

    `who` is asked anew in each round. Never this process itself, nor those that have ended and wait to be collected.
    """
    left: set[int] = set()
    for _ in range(rounds_max):
        left = {pid for pid in who() if pid != os.getpid() and not is_zombie(pid)}
        if not left:
            break
        kill(left)
        time.sleep(PAUSE_S)
    return left
