"""From a submit description to jobs in a schedd's queue: what condor_submit and the Python API share."""

from __future__ import annotations

import os
import time
from itertools import islice

from minipool.session import Session
from pool.classad import ClassAd
from pool.errors import SubmitError
from pool.hints import TYPE_CHECKING, Callable, Iterable, Iterator, Sequence
from pool.submit import SubmitPlan, SubmitWorld, read_submit
from protocol.ad_table import pack_alike
from protocol.messages.schedd import ReserveCluster, SubmitJobs

if TYPE_CHECKING:
    from protocol.blocking import BlockingPeer

PROCS_PER_CHUNK = 500
SUBMIT_S = 600.0


def run_command(command: str) -> str:
    """The output of a command that a description names (`include command`, `queue ... from CMD |`)."""
    import subprocess

    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, check=False)
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
        alike = all(ad.attrs.get("jobstatus", status) == status for ad in chunk)
        chunks.append(pack_alike(chunk, ("procid", "jobstatus") if alike else ("procid",)))
    return SubmitJobs(
        cluster_ad=plan.cluster_ad, procs=chunks, cluster=cluster, jobset=plan.job_set, hold_for_spool=spool
    )


def queue_jobs(
    peer: BlockingPeer, plan: SubmitPlan, *, limit: int | None = None, late: bool = False, spool: bool = False
) -> tuple[SubmitPlan, int, list[str]]:
    """Queue the plan's jobs: the plan as it is with the cluster's id, this id, and what the schedd warns of."""
    cluster = None
    if plan.needs_cluster_id:
        cluster = peer.call(ReserveCluster()).cluster
        plan = plan.for_cluster(cluster)
    answer = peer.call(request(plan, cluster=cluster, limit=limit, late=late, spool=spool), timeout=SUBMIT_S)
    return plan, answer.cluster, answer.warnings
