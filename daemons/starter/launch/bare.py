"""A job's program as processes of this machine: from its limits to its first moment, and as what runs then."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import trio

from daemons.host import tree
from daemons.host.account import Account
from daemons.host.cgroup import ControlGroup
from daemons.host.processes import Processes, WatchedChild
from daemons.starter.launch.context import Context
from daemons.starter.launch.fork import LaunchError, Stage, Started, fork
from daemons.starter.launch.spawn import JobSpawner
from daemons.starter.launch.terms import USUAL, Terms
from daemons.starter.report.result import ActivationResult
from pool.classad import ClassAd
from pool.execute.cgroup import CgroupLimits
from pool.execute.exit import Exited, exited
from pool.execute.plan import RunPlan, placed_plan
from pool.execute.usage import UsageSample
from pool.jobs.vocabulary.endings import Ending

Seen = TypeVar("Seen")

END_S: Final = 30.0
"""How long a process that is not the job's program yet may take to end, when the job has to leave."""


async def start_bare(
    context: Context, plan: RunPlan, account: Account, terms: Terms, limits: CgroupLimits
) -> BareBody | ActivationResult:
    """The running program; or what becomes of the activation, when it does not get to run."""
    if context.group.works:
        for problem in context.group.prepare(limits):
            context.log.always("A limit could not be set", limit=problem)
    # Before the process is made: it can fork at once.
    context.processes.tracking = terms.tracking
    started = start_process(plan, account, context.spawner, terms)
    watched = context.processes.watch(started.pid)
    context.processes.are_with(started.first)
    try:
        await started.begun()
    except trio.Cancelled:  # told to leave while it waits for a pipe that nobody opens
        with trio.move_on_after(END_S, shield=True) as patience:
            await context.processes.end_all(context.group)
        if patience.cancelled_caught:  # the startd ends it when this starter is gone
            context.log.error("The job's process does not end", pid=started.pid, seconds=END_S)
        raise
    except LaunchError as error:
        await context.processes.end_all(context.group)
        hold = error.hold()
        if hold is None or (plan.wrapped and error.stage is Stage.EXECUTE):  # the machine's program, not the job's
            return ActivationResult(Ending.FAILED, reason=f"Failed to execute '{plan.program}': {error}")
        return ActivationResult.held(hold)
    return BareBody(watched, context.processes, context.group, is_served=bool(terms.isolation.homes))


def start_process(plan: RunPlan, account: Account, spawner: JobSpawner, terms: Terms = USUAL) -> Started:
    """Make the job's process, the quick way if that can be; OSError or IsolationError when it cannot be made.

    Not where the job's files are served: the quick way stands still until the program has been executed.
    """
    if terms.group_id:
        account = replace(account, groups=(*account.groups, terms.group_id))
    if terms.isolation.place:
        return fork(placed_plan(plan, terms.isolation.sandbox), account, spawner.group.entrances(), terms)
    if not terms.nice and not terms.isolation.homes and (spawned := spawner.spawn(plan, account, terms)) is not None:
        pid, first = spawned
        return Started(pid, plan, first)
    return fork(plan, account, spawner.group.entrances(), terms)


class BareBody:
    """Processes below the starter."""

    def __init__(
        self, watched: WatchedChild, processes: Processes, group: ControlGroup, *, is_served: bool = False
    ) -> None:
        """`is_served`: its files are served, and who looks at its processes may wait as they do (`stat_fields`)."""
        self.watched = watched
        self._processes, self._group, self._is_served = processes, group, is_served

    def signal(self, number: int) -> None:
        """To the first process."""
        try:
            os.kill(self.watched.pid, number)
        except ProcessLookupError:
            pass

    def suspend(self) -> None:
        """All processes, wherever they hide."""
        self._processes.suspend(self._group)

    def resume(self) -> None:
        """All processes."""
        self._processes.resume(self._group)

    async def sample(self) -> UsageSample:
        """By processes and control group."""
        return await self._look(partial(self._processes.sample, self._group))

    async def memory(self, limit: int) -> int:
        """How many bytes of memory it has; see `tree.memory`."""
        return await self._look(lambda: tree.memory(self._processes.living(), limit))

    async def _look(self, look: Callable[[], Seen]) -> Seen:
        if not self._is_served:
            return look()
        return await trio.to_thread.run_sync(look, abandon_on_cancel=True)

    def told(self) -> ClassAd:
        """Nothing."""
        return ClassAd()

    async def attend(self) -> None:
        """Nothing."""
        await trio.sleep_forever()

    async def end(self) -> None:
        """Returns when no process is left."""
        await self._processes.end_all(self._group)

    async def outcome(self) -> Exited:
        """By the wait status."""
        return exited(self.watched.status)
