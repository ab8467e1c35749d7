"""Getting a job's input: who moves it, and how long an agent that sends nothing is tried again."""

from __future__ import annotations

import os
from typing import Final

import trio

from daemons.base.log import Log
from daemons.host.account import Account
from daemons.host.url_mover import UrlMover, UrlSettings
from daemons.starter.files.inputs import Inputs
from daemons.starter.files.transfer import Transfer
from daemons.starter.launch.context import Context
from daemons.starter.report.result import HoldJob
from daemons.starter.watch.disk import Disk
from daemons.starter.watch.figures import Figures
from pool.base.errors import PeerError
from pool.classad import ClassAd, expr
from pool.classad.values.truth import is_true
from pool.execute.plan import RunPlan
from protocol.messages.starter import RunJob

INPUT_PATIENCE_S: Final = 20.0
"""How long an agent that sends nothing is tried again; what has come is kept meanwhile."""
INPUT_PAUSE_S: Final = 1.0


def transfer_for(
    context: Context, request: RunJob, job: ClassAd, sandbox: str, account: Account, plan: RunPlan, figures: Figures
) -> Transfer:
    """With whom the job's files move, and how."""
    settings = context.settings
    urls = UrlMover(
        job,
        sandbox,
        account,
        context.processes,
        {**os.environ, **plan.environment},
        UrlSettings(
            settings.url_plugins,
            settings.plugin_query_s,
            settings.plugin_lifetime_s,
            settings.signs_urls,
            _jobs_plugins(settings.refuses_jobs_plugins, request.slot_ad, job),
        ),
        context.log,
        context.plugins,
    )
    return Transfer(request, sandbox, account, settings.slot, context.agent, context.log, urls, figures.moved)


def _jobs_plugins(expression: str, slot: ClassAd, job: ClassAd) -> str:
    """Whether plug-ins that the job brings are used."""
    text = expression.strip()
    value = expr(text).eval(slot, job) if text else False
    if value is not True and value == 2:
        return "ignored"
    return "refused" if is_true(value) else "allowed"


async def fetch_input(transfer: Transfer, figures: Figures, disk: Disk, log: Log) -> None:
    """Have the input in the sandbox; Held or PeerError when it does not come."""
    inputs = Inputs(transfer)
    patient_until, progress = trio.current_time() + INPUT_PATIENCE_S, 0
    while True:
        try:
            figures.moved["BytesRecvd"] = float(await inputs.fetch())
            return
        except HoldJob as error:
            figures.measure_disk()
            raise HoldJob(disk.instead_of(error.hold, figures.usage)) from None
        except PeerError as error:
            # Patience begins anew with each byte that comes: a large file over a bad line still gets here.
            if inputs.progress > progress:
                patient_until, progress = trio.current_time() + INPUT_PATIENCE_S, inputs.progress
            if trio.current_time() > patient_until:
                raise
            log.always("Input did not come; trying again", error=str(error))
        await trio.sleep(INPUT_PAUSE_S)
