"""Kills processes until none is left: some may fork while the signals go round, and what is killed takes a moment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Set
from typing import Final

from daemons.base.linux import is_zombie
from daemons.base.sync import Backoff

ROUNDS_MAX: Final = 400
PAUSE_S: Final = 0.005
FIRST_PAUSE_S: Final = 0.001
LONGEST_PAUSE_S: Final = 0.25
"""Between two rounds where a task waits: most jobs are gone at the first look, and a process in the kernel's hands is
no sooner gone for being looked at."""


def kill(pids: Iterable[int]) -> None:
    """Kill each that is still there and may be killed by this process.

    All are stopped first: a shell whose program is killed before it would go on with its next line.
    """
    meant = list(pids)
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in meant:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)


async def until_nobody_is_left(kill_round: Callable[[], Awaitable[bool]]) -> None:
    """Go on killing for however long it takes; `kill_round` kills who is left, and says whether anybody was."""
    backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    while await kill_round():
        await backoff.wait()


def kill_until_gone(
    who: Callable[[], Set[int]], *, kill: Callable[[Set[int]], object] = kill, rounds_max: int = ROUNDS_MAX
) -> set[int]:
    """Kill those whom `who` names, until it names none that lives; who is left after the last round. Blocks.

    `who` is asked anew in each round. Never this process itself, nor those that have ended and wait to be collected.
    """
    left: set[int] = set()
    for _ in range(rounds_max):
        # Zombies cannot be killed, and whoever is asked may name this process: it is the parent of them all.
        left = {pid for pid in who() if pid != os.getpid() and not is_zombie(pid)}
        if not left:
            break
        kill(left)
        time.sleep(PAUSE_S)
    return left
