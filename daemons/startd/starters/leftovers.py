"""What a starter left behind, and how its startd removes it: processes, control group, sandbox.

A starter that ends in order leaves no process: it is a subreaper, and ends only when it has no child any more, so that
also a daemonized process, without the control group and the environment of its job, is gone before it. What one that
died left has other parents by now. It is looked for in the control group, and then, because there may be none, by the
job's mark in the environment of every process of the host. That costs the more the larger the host is, so it is done
for starters that died without a word, and for those of an earlier life of the startd.
"""

from __future__ import annotations

import os
from collections.abc import Set
from dataclasses import dataclass

from daemons.base.killing import kill, kill_until_gone
from daemons.base.linux import descendants, is_zombie
from daemons.host import sandbox, tree
from daemons.host.cgroup import ControlGroup
from daemons.host.container_records import ContainerRecords
from daemons.host.volumes.found import remove_volume
from pool.execute.cgroup import Trees


@dataclass(frozen=True)
class Trace:
    """Where to look. `started` is the starter's start (`tree.start_ticks`): a later process may have its number."""

    starter_pid: int
    started: int | None
    sandbox: str
    group: str = ""


def sweep(trace: Trace, trees: Trees, containers: ContainerRecords | None = None, *, search: bool = True) -> list[str]:
    """Remove everything; what could not be removed, in words. Blocks for some seconds at most.

    `search`: look at all processes of the host for those of its jobs.
    """
    group = ControlGroup(trees, trace.group)
    problems: list[str] = []
    left = _kill(trace, group, search=search)
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


def _kill(trace: Trace, group: ControlGroup, *, search: bool) -> set[int]:
    """End the starter, what is below it, in its group, or marked as its job's; who is still there."""
    mark = b"_CONDOR_SCRATCH_DIR=" + os.fsencode(trace.sandbox)
    known: set[int] = set()

    def who() -> set[int]:
        nonlocal known
        known = _living(known | group.members() | _starter(trace))
        known |= _living(set().union(*map(descendants, known)))
        if search and not known:
            known = _living(tree.marked(mark))
        return known

    def kill_all(pids: Set[int]) -> None:
        group.kill()
        kill(pids)

    return kill_until_gone(who, kill=kill_all)


def _starter(trace: Trace) -> set[int]:
    """The starter itself, should it still be there."""
    if trace.started is not None and tree.start_ticks(trace.starter_pid) == trace.started:
        return {trace.starter_pid}
    return set()


def _living(pids: set[int]) -> set[int]:
    return {pid for pid in pids if pid != os.getpid() and not is_zombie(pid)}
