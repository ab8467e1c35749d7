"""A job's program as a process of this machine, from its limits to its first moment."""

from __future__ import annotations

import trio

from daemons.starter.account import Account
from daemons.starter.body import BareBody
from daemons.starter.context import Context
from daemons.starter.launch import LaunchError, Stage, launch
from daemons.starter.result import Result
from daemons.starter.terms import Terms
from pool.execute.cgroup import Limits
from pool.execute.plan import Plan
from protocol.messages.schedd import Ending


async def start_bare(context: Context, plan: Plan, account: Account, terms: Terms, limits: Limits) -> BareBody | Result:
    """The running program; or what becomes of the activation, when it does not get to run."""
    if context.group.works:
        for problem in context.group.prepare(limits):
            context.log.always("A limit could not be set", limit=problem)
    context.processes.tracking = terms.tracking
    started = launch(plan, account, context.spawner, terms)
    watched = context.processes.watch(started.pid)
    context.processes.are_with(started.first)
    try:
        await started.begun()
    except trio.Cancelled:  # told to leave while it waits for a pipe that nobody opens
        with trio.CancelScope(shield=True):
            await context.processes.end_all(context.group)
        raise
    except LaunchError as error:
        await context.processes.end_all(context.group)
        hold = error.hold()
        if hold is None or (plan.wrapped and error.stage is Stage.EXECUTE):  # the machine's program, not the job's
            return Result(Ending.FAILED, reason=f"Failed to execute '{plan.program}': {error}")
        return Result.held(hold)
    return BareBody(watched, context.processes, context.group)
