"""What the negotiator says of a job that waits: by its own matching, on all the slots that it knows."""

from __future__ import annotations

from collections.abc import Sequence
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
    found = []
    for name, address in session.negotiators():
        with session.connect(address) as peer:
            found.append((name, peer.call(request)))
    return found[0][1] if len(found) == 1 else _together(found)


def _together(found: Sequence[tuple[str, Explained]]) -> Explained:
    """What several say, each of its slice of the slots: how the job fares in the best, and all reasons by name."""
    from protocol.messages.explaining import Explained

    def fares(said: Explained) -> tuple[int, ...]:
        analysis = said.analysis
        return analysis.takers, analysis.willing, analysis.if_drained, analysis.slots

    best = max((said for _, said in found), key=fares)
    reasons = [f"{name or 'negotiator'}: {reason}" for name, said in found for reason in said.reasons]
    return Explained(analysis=best.analysis, reasons=reasons)


def submitter_of(job: ClassAd) -> str:
    """Who is charged for the job's slots, as its schedd has it."""
    user, group = job.eval_str("User", ""), job.eval_str("AccountingGroup")
    return f"{group}@{user.rpartition('@')[2]}" if group else user
