"""The test of a Singularity image, right before the job that is to run in it: as the job's account, with its variables.

An image that fails sends the job back to the queue with the reason: the machine may be at fault as well as the image.
"""

from __future__ import annotations

import shlex
from typing import Final

from daemons.host.account import Account
from daemons.host.helpers import HelperSpawner
from daemons.host.programs import ProgramError, run_program
from daemons.starter.launch.context import Context
from daemons.starter.report.result import ActivationResult
from pool.base.ids import is_number
from pool.containers.engine import knob
from pool.containers.singularity import complaint_of
from pool.execute.exit import Hold
from pool.execute.plan import RunPlan
from pool.jobs.vocabulary.hold_codes import HoldCode

TIMEOUT_S: Final = 30.0
SENT_BACK: Final = -1000
"""The subcode that says that the job is not to be held for it."""


async def tested(context: Context, plan: RunPlan, account: Account) -> ActivationResult | None:
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
        return _failed(context, plan, str(error))
    if end.timed_out:
        return _failed(context, plan, f"it took more than {timeout_s:g} s")
    if end.status:
        return _failed(context, plan, complaint_of(f"{end.stderr}\n{end.stdout}") or f"it {end}")
    return None


def _failed(context: Context, plan: RunPlan, why: str) -> ActivationResult:
    context.log.always("The test of the job's image has failed", command=shlex.join(plan.test), said=why)
    return ActivationResult.held(Hold(f"Singularity test failed: {why}", HoldCode.SINGULARITY_TEST_FAILED, SENT_BACK))
