"""What a schedd takes up at its start: events that logs may lack, slots that it still holds, jobs that may still run.

All other jobs wait for slots, page by page, so that a million of them is a matter of seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import trio

from daemons.schedd.claims.claims import Claims
from daemons.schedd.core.core import Core, is_local
from daemons.schedd.core.delivery import Delivery
from pool.base.errors import SubmitError
from pool.base.ids import JobId
from pool.classad import UNDEFINED, ClassAd
from pool.jobs import conclusion, run
from pool.jobs.accounting_groups import ACCOUNTING, GROUP
from pool.jobs.changes import End
from pool.jobs.queue import store
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.pack import read_packed
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.states import EXECUTING, JobStatus
from pool.jobs.waiting.groups import ALIKE_MAX

_UNDER_WAY: Final = frozenset({*EXECUTING, JobStatus.REMOVED})


async def take_up(core: Core, claims: Claims, delivery: Delivery, connection: sqlite3.Connection) -> None:
    """Go on where the last schedd was."""
    pending = store.read_events(connection)
    if pending:
        core.queue.next_event = pending[-1].seq + 1
        delivery.put(pending, check=True)
    for row in store.read_claims(connection):
        job = None
        if row.cluster is not None and row.proc is not None:
            job = core.queue.get(JobId(row.cluster, row.proc))
        claims.recover(row, read_packed(row.slot_ad).unpack(), job)
    for gang in list(core.executions.gangs.values()):
        gang.go()
    for cluster in list(core.queue.clusters.values()):
        _charge_as_allowed(core, cluster)
    for page in core.queue.pages(ALIKE_MAX):
        await _settle(core, page)
        await trio.lowlevel.checkpoint()
    core.log.always(f"The queue has {len(core.queue)} jobs.", running=len(core.executions.shadow_of))


def _charge_as_allowed(core: Core, cluster: Cluster) -> None:
    """Jobs that charge somebody whom their user may not charge, or not any more, are charged to their user."""
    queue, nothing = core.queue, dict.fromkeys(ACCOUNTING, UNDEFINED)
    if not _may_charge(core, cluster, cluster.ad):
        queue.change_cluster(cluster, nothing)
        core.log.always(f"Jobs of cluster {cluster.id} are charged to their user, who may not charge others.")
    if cluster.charges_severally:
        for job in list(cluster.jobs.values()):
            if not _may_charge(core, cluster, queue.ad(job)):
                queue.change(job, nothing)


def _may_charge(core: Core, cluster: Cluster, ad: ClassAd) -> bool:
    if GROUP not in ad:
        return True
    try:
        core.settings.charging.settle(ad.flat(), owner=cluster.owner, user=cluster.user)
    except SubmitError:
        return False
    return True


async def _settle(core: Core, page: Sequence[Job]) -> None:
    """Let these jobs of a cluster go on."""
    if _UNDER_WAY.isdisjoint([job.status for job in page]):
        await core.settle_new(page)
        return
    for job in page:
        if core.executions.of(job) is None:
            _take_up_job(core, job)
        core.settle(job)


def _take_up_job(core: Core, job: Job) -> None:
    """A job that was on its way and has no slot any more."""
    if job.status in EXECUTING and is_local(job.cluster):
        gone = End(Ending.EVICTED, ClassAd(), "The schedd was restarted", core.now())
        changes, _ = conclusion.ended(core.queue.ad(job), job.status, gone, None, core.now(), core.settings.system)
        core.apply(job, changes)
    elif job.status in EXECUTING:
        core.apply(job, run.not_started())
    elif job.status is JobStatus.REMOVED:
        core.over(job)
