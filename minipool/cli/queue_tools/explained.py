"""What the negotiator says of a job that waits: by its own matching, on all the slots that it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minipool.client.session import Session
from pool.classad import ClassAd

if TYPE_CHECKING:
    from protocol.messages.explaining import Explained


def ask(session: Session, job: ClassAd) -> Explained:
    """What it says; PoolError when none answers."""
    from protocol.messages.explaining import ExplainJob

    # SCHEDD#CLUSTER.PROC#TIME: a schedd's name may have a # of its own.
    schedd = job.eval_str("GlobalJobId", "").rpartition("#")[0].rpartition("#")[0]
    autocluster = job.eval_int("AutoClusterId", -1)
    request = ExplainJob(ad=job, submitter=submitter_of(job), autocluster=autocluster, schedd=schedd)
    with session.daemon("negotiator") as peer:
        return peer.call(request)


def submitter_of(job: ClassAd) -> str:
    """Who is charged for the job's slots, as its schedd has it."""
    user, group = job.eval_str("User", ""), job.eval_str("AccountingGroup")
    return f"{group}@{user.rpartition('@')[2]}" if group else user
