"""Whether this machine lets root have namespaces and mounts for its jobs; containers often do not. Asked at the start.

It is tried by a thread of its own, which nobody uses afterwards: it alone is in the namespaces that it makes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial

from daemons.host import namespaces
from pool.base.errors import PoolError
from pool.config import Config
from pool.execute.isolation import HOMES, MOUNTS, NETWORK, PIDS


def refused(config: Config, execute: str) -> Mapping[str, str]:
    """Of what jobs are to have, that which this machine refuses, and how it says so. Blocks."""
    wanted = {
        MOUNTS: config.bool("PER_JOB_NAMESPACES"),
        PIDS: config.bool("USE_PID_NAMESPACES"),
        HOMES: config.bool("ENABLE_REMOTE_IO"),
        NETWORK: config.bool("NO_JOB_NETWORKING"),
    }
    if not namespaces.can_isolate():
        return {NETWORK: "it takes root's rights"} if wanted[NETWORK] else {}
    found: dict[str, str] = {}
    attempts: dict[str, Callable[[], None]] = {
        MOUNTS: partial(namespaces.try_mounts, execute),
        PIDS: namespaces.try_pids,
        HOMES: partial(_try_homes, execute),
        NETWORK: namespaces.try_network,
    }
    for kind, attempt in attempts.items():
        if wanted[kind] and (problem := _told_by_a_thread(attempt)):
            found[kind] = problem
    return found


def said(refused: Mapping[str, str]) -> list[str]:
    """For the log."""
    lines = {
        MOUNTS: "Jobs have no private directories, and see each other's sandboxes: this machine refuses mounts",
        PIDS: "Jobs have no pid namespaces: this machine refuses them",
        HOMES: "Jobs cannot have their files where they are (want_remote_io): this machine refuses it",
        NETWORK: "NO_JOB_NETWORKING is true and jobs cannot be kept from the network, so that no job will run",
    }
    return [f"{lines[kind]} ({problem})" for kind, problem in refused.items()]


def _try_homes(directory: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        namespaces.try_homes(directory, device)
    finally:
        os.close(device)


def _told_by_a_thread(attempt: Callable[[], None]) -> str:
    problems: list[str] = []

    def run() -> None:
        try:
            attempt()
        except (PoolError, OSError) as error:
            problems.append(str(error))

    thread = threading.Thread(target=run, name="refusals")
    thread.start()
    # The kernel keeps namespaces by thread: when this one ends, what it made is gone, and no other was ever in it.
    thread.join()
    return problems[0] if problems else ""
