"""From a submit description to jobs in a schedd's queue: what condor_submit and the Python API share."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from minipool.client.session import Session
from minipool.client.steps import Call, Connect, Now, Run, Steps, call
from pool.base.errors import SubmitError
from pool.classad import ClassAd
from pool.macros.chance import SYSTEM_CHANCE
from pool.submit import SubmitPlan, SubmitWorld, read_submit
from protocol.messages.submit import ReserveCluster, SubmitJobs
from protocol.wire.ad_table import pack_alike
from protocol.wire.message import Record

if TYPE_CHECKING:
    from protocol.rpc.blocking import BlockingPeer

PROCS_PER_CHUNK = 500
SUBMIT_S = 600.0


def run_command(command: str, directory: str | None = None) -> str:
    """The output of a command that a description names (`include command`, `queue ... from CMD |`)."""
    import subprocess

    done = subprocess.run(command, shell=True, cwd=directory, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise OSError(f"exited with status {done.returncode}")
    return done.stdout.decode(errors="surrogateescape")


def read_plan(
    session: Session,
    text: str | Iterable[str],
    *,
    file: str = "",
    extra: Sequence[str] = (),
    appended: Sequence[str] = (),
    queue: str | None = None,
    skip_checks: bool = False,
    remote: bool = False,
    read_stdin: Callable[[], str] | None = None,
    interactive: bool = False,
) -> SubmitPlan:
    """What the description asks for, read as this account in this directory; SubmitError says what is wrong where."""
    return read_submit(
        text,
        config=session.config,
        file=file,
        cwd=os.getcwd(),
        env=os.environ,
        extra=extra,
        appended=appended,
        queue_args=queue,
        now=time.time(),
        user=session.user(),
        world=SubmitWorld(run=run_command, read_stdin=read_stdin),
        skip_checks=skip_checks,
        remote=remote,
        interactive=interactive,
        chance=SYSTEM_CHANCE,
    )


def own_ads(plan: SubmitPlan) -> Iterator[ClassAd]:
    """Each job's own attributes, apart from the cluster's."""
    for ad in plan.procs():
        ad.parent = None
        yield ad


def request(
    plan: SubmitPlan,
    *,
    cluster: int | None = None,
    limit: int | None = None,
    late: bool = False,
    spool: bool = False,
) -> SubmitJobs:
    """The plan as a request. `cluster` is the id that was reserved for it; `limit` refuses larger clusters.

    `late`: the schedd makes the jobs, whether the description says so or not. `spool`: their files will follow.
    """
    if limit is not None and plan.count > limit:
        raise SubmitError(f"Number of submitted jobs would exceed {limit} (there are {plan.count})")
    # A factory's jobs are the schedd's to make, so what travels is the description and not a thousand ads
    # (max_materialize in condor_submit(1)).
    if plan.count and (late or plan.late):
        from pool.submit.recipe import recipe

        return SubmitJobs(
            cluster_ad=plan.cluster_ad,
            procs=[],
            cluster=cluster,
            jobset=plan.job_set,
            factory=recipe(plan),
            hold_for_spool=spool,
        )
    chunks = []
    ads = own_ads(plan)
    status = plan.cluster_ad.get("JobStatus")
    while chunk := list(islice(ads, PROCS_PER_CHUNK)):
        # The schedd numbers the jobs itself, and JobStatus nearly always is the cluster's: both would be a column for
        # nothing.
        alike = all(ad.attrs.get("jobstatus", status) == status for ad in chunk)
        chunks.append(pack_alike(chunk, ("procid", "jobstatus") if alike else ("procid",)))
    return SubmitJobs(
        cluster_ad=plan.cluster_ad, procs=chunks, cluster=cluster, jobset=plan.job_set, hold_for_spool=spool
    )


class Queued(Record):
    """What became of a plan: `plan` as it is with the cluster's id, and what is odd about it. No item, no job."""

    plan: SubmitPlan
    cluster: int
    jobs: int
    warnings: list[str]


def queue(
    plan: SubmitPlan,
    *,
    limit: int | None = None,
    late: bool = False,
    spool: bool = False,
    timeout: float | None = SUBMIT_S,
) -> Steps[Queued]:
    """Queue the plan's jobs; nothing is asked of the schedd for a plan without jobs. See `request` for the rest."""
    cluster = None
    if not plan.count:
        return Queued(plan=plan, cluster=0, jobs=0, warnings=[*plan.warnings, *plan.unused()])
    # Costs a call, so only where an ad mentions the id, as in `output = out.$(Cluster)`.
    if plan.needs_cluster_id:
        cluster = (yield from call(ReserveCluster(), timeout)).cluster
        plan = plan.for_cluster(cluster)
    answer = yield from call(request(plan, cluster=cluster, limit=limit, late=late, spool=spool), timeout)
    warnings = [*plan.warnings, *plan.unused(), *answer.warnings]
    return Queued(plan=plan, cluster=answer.cluster, jobs=answer.count, warnings=warnings)


def queue_over(peer: BlockingPeer, steps: Steps[Queued]) -> Queued:
    """Perform the steps of `queue` over a tool's own connection, which is not made anew when it is lost."""
    run = Run(steps)
    while run.step is not None:
        match run.step:
            case Call(request=request, timeout=timeout):
                run.answer(peer.call(request, timeout=timeout))
            case Now():
                run.answer(time.monotonic())
            case Connect():
                run.answer(None)
            case step:
                raise AssertionError(f"submitting needs no {step}")
    return run.result


def queue_text(session: Session, text: str, *, file: str) -> Queued:
    """Queue the jobs of a description that a tool has written, and tell on standard error what is odd about them."""
    with session.daemon("schedd") as peer:
        queued = queue_over(peer, queue(read_plan(session, text, file=file)))
    tell(queued.warnings)
    return queued


def tell(warnings: Iterable[str]) -> None:
    """Say on standard error what is odd about a description."""
    for warning in warnings:
        sys.stderr.write(f"WARNING: {warning}\n")
