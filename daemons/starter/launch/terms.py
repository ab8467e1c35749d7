"""What is unusual about how one job runs on this machine: how nice, on which cpus, apart from whom, tracked by what.

Decided for each job just before it starts; what is taken for it (cpus, a group id) is given back when it has ended.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from daemons.base.log import Log
from daemons.host import namespaces
from daemons.host.account import Account
from daemons.host.child_settings import StarterSettings
from daemons.host.gpus import others_devices
from daemons.host.namespaces import IsolationError
from daemons.host.tokens import Taken, take
from daemons.host.tracking import NOBODY_ELSE, Tracking
from pool.base.errors import PoolError
from pool.classad import ClassAd, expr
from pool.execute.criu import PLACE, wants_criu
from pool.execute.isolation import SEES_ALL, HomeMount, Isolation, isolation_of, private_directories
from pool.execute.plan import RunPlan
from pool.execute.remote_io import in_trees
from pool.execute.scratch import wants_encryption

NICE_MAX: Final = 19
TEMPORARY: Final = ("/tmp", "/var/tmp")


class NoTrackingGroup(PoolError):
    """All group ids of the range are in use."""


@dataclass(frozen=True)
class Terms:
    """How the job's first process is made, where that is not as usual, and how its processes are found."""

    nice: int = 0
    cpus: tuple[int, ...] = ()
    isolation: Isolation = SEES_ALL
    group_id: int = 0
    tracking: Tracking = NOBODY_ELSE


USUAL: Final = Terms()


@contextmanager
def terms_for(
    settings: StarterSettings,
    job: ClassAd,
    slot: ClassAd,
    plan: RunPlan,
    account: Account,
    sandbox: str,
    log: Log,
    homes: tuple[HomeMount, ...] = (),
) -> Iterator[Terms]:
    """This job's terms; what they take of the machine is the job's inside the `with`.

    `homes`: directories at home that are served for it.
    """
    taken: list[Taken] = []
    try:
        group_id = _group_id(settings, taken)
        yield Terms(
            nice=min(NICE_MAX, plan.nice + renice(settings.nice, job)),
            cpus=_cpus(settings, job, slot, taken, log),
            isolation=replace(
                _isolation(settings, job, slot, plan, sandbox, log),
                sandbox=sandbox,
                homes=homes,
                place=PLACE if wants_criu(job) else "",
            ),
            group_id=group_id,
            tracking=_tracking(settings, account, group_id, log),
        )
    finally:
        for token in taken:
            token.give_back()


def renice(expression: str, job: ClassAd) -> int:
    """JOB_RENICE_INCREMENT for this job, from 0 to 19."""
    text = expression.strip()
    if text in ("", "0"):
        return 0
    value = expr(text).eval(job)
    return max(0, min(NICE_MAX, int(value))) if isinstance(value, int | float) else 0


# ---- tracking


def _group_id(settings: StarterSettings, taken: list[Taken]) -> int:
    if not settings.tracking_gids or os.geteuid() != 0:
        return 0
    low, high = settings.tracking_gids
    if not 0 < low <= high:
        raise NoTrackingGroup(
            f"USE_GID_PROCESS_TRACKING is true, and from MIN_TRACKING_GID = {low} to MAX_TRACKING_GID = {high} "
            "there are no group ids for jobs"
        )
    token = take(os.path.join(settings.run_dir, "tracking_gids"), range(low, high + 1), 1)
    if token is None:
        raise NoTrackingGroup(
            f"No more tracking GIDs are left between MIN_TRACKING_GID = {low} and MAX_TRACKING_GID = {high}; "
            "every running job needs one"
        )
    taken.append(token)
    return token.numbers[0]


def _tracking(settings: StarterSettings, account: Account, group_id: int, log: Log) -> Tracking:
    dedicated = bool(
        settings.dedicated_accounts and account.switches and re.fullmatch(settings.dedicated_accounts, account.name)
    )
    if dedicated:
        log.always(f'Tracking process family by login "{account.name}"')
    if group_id:
        log.always(f"Tracking process family by group id {group_id}")
    if settings.tree_version:
        log.full("Tracking process family by control group", group=settings.group)
    elif not dedicated and not group_id:
        log.full("Tracking process family by parents, and by marks in the environment")
    return Tracking(account.uid if dedicated else 0, group_id) if dedicated or group_id else NOBODY_ELSE


# ---- cpus


def _cpus(settings: StarterSettings, job: ClassAd, slot: ClassAd, taken: list[Taken], log: Log) -> tuple[int, ...]:
    allowed = sorted(os.sched_getaffinity(0))
    if settings.assign_cpus and expr(settings.assign_cpus).eval(job) is True:
        wanted = max(1, slot.eval_int("Cpus") or 1)
        token = take(os.path.join(settings.run_dir, "cpus"), allowed, wanted)
        if token is None:
            log.always("The job is not bound to cpus: there are too few that no other job has", cpus=wanted)
            return ()
        taken.append(token)
        return token.numbers
    fixed = tuple(cpu for cpu in settings.cpu_affinity if cpu in allowed)
    if settings.cpu_affinity and not fixed:
        log.always("The job is not bound to cpus: this machine has none of the slot's", cpus=settings.cpu_affinity)
    return fixed


# ---- namespaces


def _isolation(
    settings: StarterSettings, job: ClassAd, slot: ClassAd, plan: RunPlan, sandbox: str, log: Log
) -> Isolation:
    criu = wants_criu(job)
    if not (settings.job_namespaces or settings.pid_namespaces or settings.offline or criu):
        return SEES_ALL
    if not namespaces.can_isolate():
        if settings.offline:
            raise IsolationError("the job was to have no network (NO_JOB_NETWORKING), which takes root's rights")
        if settings.pid_namespaces:
            log.always("USE_PID_NAMESPACES has no effect: it takes root's rights")
        return SEES_ALL
    wanted: Sequence[str] = ()
    if settings.job_namespaces:
        wanted = private_directories(settings.mount_under_scratch, job, slot)
        if settings.scratch and wants_encryption(job, everywhere=settings.encrypt_all):
            wanted = [*wanted, *TEMPORARY]  # what the job writes there is encrypted with the rest
    isolation, left = isolation_of(
        sandbox,
        execute=settings.execute if settings.job_namespaces else "",
        wanted=wanted,
        used=[path for path in (plan.directory, *map(posixpath.dirname, _files(plan))) if not in_trees(path, job)],
        shared_memory=settings.private_shared_memory and settings.job_namespaces,
        processes=settings.pid_namespaces or criu,
        hidden=others_devices(slot) if settings.hides_gpus and settings.job_namespaces else (),
    )
    for directory in left:
        log.full("The job shares a directory of MOUNT_UNDER_SCRATCH: what it works with is there", directory=directory)
    return replace(isolation, offline=settings.offline)


def _files(plan: RunPlan) -> list[str]:
    words = [plan.program, *plan.arguments[:1]] if plan.wrapped else [plan.program]
    return [path for path in (*words, plan.stdin, plan.stdout, plan.stderr) if posixpath.isabs(path)]
