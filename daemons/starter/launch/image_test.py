"""Whether a Singularity image runs: its test right before the job, and what its launcher has left after it.

The test has the job's account and its variables. An image that fails sends the job back to the queue with the reason:
the machine may be at fault as well as the image. The startd hears of it, and tries the program again.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from typing import Final

from daemons.host.account import Account, acting_as
from daemons.host.helpers import HelperSpawner
from daemons.host.programs import ProgramError, run_program
from daemons.starter.launch.context import Context
from daemons.starter.report.result import ActivationResult
from pool.base.errors import PeerError
from pool.base.ids import is_number
from pool.containers.engine import knob
from pool.containers.singularity import complaint_of
from pool.execute.exit import Hold
from pool.execute.plan import RunPlan
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.starter import ImageTrouble

TIMEOUT_S: Final = 30.0
SENT_BACK: Final = -1000
"""The subcode that says that the job is not to be held for it."""


async def tested(context: Context, activation: str, plan: RunPlan, account: Account) -> ActivationResult | None:
    """None where there is nothing to test, or all is well; else what becomes of the activation."""
    if not plan.test:
        return None
    said = knob(context.settings.docker, "SINGULARITY_TEST_TIMEOUT")
    timeout_s = float(said) if is_number(said) else TIMEOUT_S
    try:
        end = await run_program(
            HelperSpawner(context.processes, account),
            plan.test,
            environment=plan.environment,
            directory=plan.directory,
            timeout_s=timeout_s,
        )
    except ProgramError as error:
        return await _failed(context, activation, plan, str(error))
    if end.timed_out:
        return await _failed(context, activation, plan, f"it took more than {timeout_s:g} s")
    if end.status:
        return await _failed(context, activation, plan, complaint_of(f"{end.stderr}\n{end.stdout}") or f"it {end}")
    return None


async def unless_unlaunched(
    context: Context, activation: str, plan: RunPlan, account: Account, result: ActivationResult
) -> ActivationResult:
    """The result; another where the image's program has ended without the mark that says that the job's has begun."""
    if not plan.mark or result.ending is not Ending.EXITED or is_marked(plan, account):
        return result
    reason = "The image did not run: its program has ended without starting the job's"
    await _tell_startd(context, activation, reason)
    return ActivationResult(Ending.FAILED, reason=reason)


def is_marked(plan: RunPlan, account: Account) -> bool:
    """Whether the launcher has been there: seen with the account's rights, for the sandbox is the account's."""
    with acting_as(account):
        return os.path.lexists(plan.mark)


def unmark(plan: RunPlan, account: Account) -> None:
    """Forget the mark of an earlier run of the program in this sandbox."""
    if plan.mark:
        with acting_as(account), suppress(OSError):
            os.unlink(plan.mark)


async def _failed(context: Context, activation: str, plan: RunPlan, why: str) -> ActivationResult:
    context.log.always("The test of the job's image has failed", command=shlex.join(plan.test), said=why)
    await _tell_startd(context, activation, why)
    return ActivationResult.held(Hold(f"Singularity test failed: {why}", HoldCode.SINGULARITY_TEST_FAILED, SENT_BACK))


async def _tell_startd(context: Context, activation: str, reason: str) -> None:
    with suppress(PeerError):
        await context.startd.notify(ImageTrouble(activation=activation, reason=reason))
