"""What a schedd takes up at its start: events that logs may lack, slots that it still holds, jobs that may still run.

All other jobs wait for slots, page by page, so that a million of them is a matter of seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import trio

from daemons.schedd.claims import Claims
from daemons.schedd.core import Core, is_local
from pool.classad import ClassAd
from pool.ids import JobId
from pool.jobs import run, store
from pool.jobs.job_queue import Job
from pool.jobs.pack import unpack
from pool.jobs.run import End, Ending
from pool.jobs.states import EXECUTING, JobStatus
from pool.jobs.waiting import ALIKE_MAX

_UNDER_WAY: Final = frozenset({*EXECUTING, JobStatus.REMOVED})


async def take_up(core: Core, claims: Claims, connection: sqlite3.Connection) -> None:
    """Go on where the last schedd was."""
    pending = store.read_events(connection)
    if pending:
        core.queue.next_event = pending[-1].seq + 1
        core.deliver(pending, check=True)
    for row in store.read_claims(connection):
        job = None
        if row.cluster is not None and row.proc is not None:
            job = core.queue.get(JobId(row.cluster, row.proc))
        claims.recover(row, unpack(row.slot_ad), job)
    for page in core.queue.pages(ALIKE_MAX):
        _settle(core, page)
        await trio.lowlevel.checkpoint()
    core.writer.soon()
    core.log.always(f"The queue has {len(core.queue)} jobs.", running=len(core.shadow_of))


def _settle(core: Core, page: Sequence[Job]) -> None:
    """Let these jobs of a cluster go on."""
    if _UNDER_WAY.isdisjoint([job.status for job in page]):
        core.settle_new(page)
        return
    for job in page:
        if job not in core.shadow_of:
            _take_up_job(core, job)
        core.settle(job)


def _take_up_job(core: Core, job: Job) -> None:
    """A job that was on its way and has no slot any more."""
    if job.status in EXECUTING and is_local(job.cluster):
        gone = End(Ending.EVICTED, ClassAd(), "The schedd was restarted", core.now())
        changes, _ = run.ended(core.queue.ad(job), job.status, gone, None, core.now(), core.settings.system)
        core.apply(job, changes)
    elif job.status in EXECUTING:
        core.apply(job, run.not_started(core.queue.ad(job)))
    elif job.status is JobStatus.REMOVED:
        core.over(job)
