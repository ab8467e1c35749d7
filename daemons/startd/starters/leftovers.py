"""What a starter that died left behind, and how its startd removes it: processes, control group, sandbox."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Final

from daemons.linux import descendants, is_zombie
from daemons.starter import sandbox, tree
from daemons.starter.cgroup import Group
from daemons.starter.container_records import ContainerRecords
from daemons.starter.scratch.leftovers import remove_volume
from pool.execute.cgroup import Trees

ROUNDS_MAX: Final = 400
PAUSE_S: Final = 0.005


@dataclass(frozen=True)
class Trace:
    """Where to look. `started` is the starter's start (`tree.start_ticks`): a later process may have its number."""

    starter_pid: int
    started: int | None
    sandbox: str
    group: str = ""


def sweep(trace: Trace, trees: Trees, containers: ContainerRecords | None = None) -> list[str]:
    """Remove everything; what could not be removed, in words. Blocks for some seconds at most."""
    group = Group(trees, trace.group)
    problems: list[str] = []
    left = _kill(trace, group)
    if left:
        problems.append(f"processes {', '.join(map(str, sorted(left)))} do not end")
    else:
        group.remove()
        if containers is not None:  # after the starter, which would take this for its job's own end
            problems += containers.remove_left(trace.starter_pid)
        problems += remove_volume(trace.sandbox)
    try:
        sandbox.remove(trace.sandbox)
    except OSError as error:
        problems.append(f"{trace.sandbox}: {error.strerror}")
    return problems


def _kill(trace: Trace, group: Group) -> set[int]:
    """End the starter, what is below it, in its group, or marked as its job's; who is still there."""
    mark = b"_CONDOR_SCRATCH_DIR=" + os.fsencode(trace.sandbox)
    left: set[int] = set()
    for _ in range(ROUNDS_MAX):
        left = _living(left | group.members() | _starter(trace))
        left |= set().union(*map(descendants, left))
        if not left and not (left := _living(tree.marked(mark))):
            break
        group.kill()
        tree.send(left, signal.SIGKILL)
        time.sleep(PAUSE_S)
    return left


def _starter(trace: Trace) -> set[int]:
    """The starter itself, should it still be there."""
    if trace.started is not None and tree.start_ticks(trace.starter_pid) == trace.started:
        return {trace.starter_pid}
    return set()


def _living(pids: set[int]) -> set[int]:
    return {pid for pid in pids if pid != os.getpid() and not is_zombie(pid)}
