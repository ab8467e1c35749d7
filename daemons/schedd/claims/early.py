"""The first job of a claim, told with the request for it: a starter can have it as soon as the claim is granted.

What is told is what does not depend on the slot that is granted: which execution it will be, and where its files are.
The execution begins here with the grant, as any other, and its starter runs nothing before it hears that it may; with
that it is told how the job's ad is by then. Where the grant brings up something else (the job is gone, needs its files
after all, or has to wait) that execution never begins, and the starter is refused it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemons.schedd.claims.next_job import has_macros, new_activation
from daemons.schedd.execution.activation import wants_files
from protocol.messages.startd import EarlyOrder

if TYPE_CHECKING:
    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.files.agents import Agents
    from pool.jobs.queue.cluster import Job


def early_order(claims: Claims, agents: Agents, claim: Claim, job: Job) -> EarlyOrder | None:
    """What a claim's startd can be told of the job already; None when it has to wait for the grant."""
    core, ad = claims.core, claims.core.queue.ad(job)
    if has_macros(claims, job):  # what becomes of `$$(Attr)`, the slot has to say
        return None
    # A starter does not wait for long.
    if ad.eval_bool("SkipIfDataflow", False) or "NextJobStartDelay" in ad or not core.executions.start_at_once:
        return None
    address, ticket = "", ""
    if wants_files(ad, claim.slot_ad):
        address, ticket = agents.address_of(job.cluster.owner), claim.files_ticket.secret
        if not address:
            return None
        address = core.agent_address(address, local=claims.startd(claim.startd).is_local)
    return EarlyOrder(activation=new_activation(core), job_id=job.id, agent_address=address, agent_ticket=ticket)


def still_right(claims: Claims, claim: Claim, job: Job, early: EarlyOrder) -> bool:
    """Whether what the startd was told is so, now that the slot is known."""
    core = claims.core
    needs_files = wants_files(core.queue.ad(job), claim.slot_ad)
    return needs_files == bool(early.agent_address) and core.executions.start_at_once
