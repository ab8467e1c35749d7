"""Which job a claim runs next, and the beginning of its execution.

A claim takes one job of its autocluster after another without a new negotiation, or the one that was wished for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from daemons.schedd.core.claim import Claim
from daemons.schedd.execution.shadow import Shadow
from pool.classad import ClassAd
from pool.jobs import late_macros, run
from pool.jobs.claims.events import JobGiven
from pool.jobs.queue.cluster import Job
from pool.jobs.waiting.autoclusters import is_timeless

if TYPE_CHECKING:
    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.claims.run_now import RunNowWish


def next_job(claims: Claims, claim: Claim, like: Job) -> Shadow | None:
    """Begin the next job of the same autocluster, if there is one and the claim may run it."""
    core = claims.core
    if claim.wish is not None:
        return _wished(claims, claim, claim.wish)
    while claim.life.may_have_job and not claims.stopping:
        number = core.autoclusters.number_of(like)
        job = core.waiting.next(claim.submitter, number)
        if job is None or not _wants(core.queue.ad(job), claim, number):
            return None
        core.waiting.discard(job)
        shadow = begin(claims, claim, job)
        if shadow is not None:
            return shadow
    return None


def _wants(job: ClassAd, claim: Claim, autocluster: int) -> bool:
    """Whether the job wants the slot now; asked again and again only where that may change, as of a job on a clock."""
    if claim.fits == autocluster:
        return True
    wants = job.eval_bool("Requirements", True, claim.slot_ad)
    if wants and is_timeless(job, claim.slot_ad):
        claim.fits = autocluster
    return wants


def _wished(claims: Claims, claim: Claim, wish: RunNowWish) -> Shadow | None:
    """Begin the job that was to have this slot; where it is to have several, `work` sees to it."""
    if not wish.is_for_one:
        return None
    claim.wish = None
    if not claim.life.may_have_job or claims.stopping or wish.job.group is None:
        return None
    claims.core.waiting.discard(wish.job)
    return begin(claims, claim, wish.job)


def begin(claims: Claims, claim: Claim, job: Job) -> Shadow | None:
    """Make an execution of the job under the claim, as part of the current transaction; None when it was held."""
    core = claims.core
    ad = core.queue.ad(job)
    try:
        expanded = late_macros.expand(ad, claim.slot_ad) if _has_macros(claims, job) else {}
    except late_macros.CannotExpand as error:
        core.hold(job, error.message, 0)
        return None
    activation = f"{core.start.world.rng.getrandbits(64):016x}"
    shadow = claims.new_shadow(claim, job, activation, expanded)
    claims.renew_tickets(claim)
    core.queue.set_busy(job, True)
    claim.shadow = shadow
    claims.happens(claim, JobGiven(activation))
    core.executions.begins(job, shadow)
    changes = run.begin(
        ad,
        claim.slot_ad,
        claim.public,
        claim.startd,
        core.now(),
        machine_attrs=core.settings.machine_attrs,
        history_length=core.settings.machine_attrs_length,
    )
    core.apply(job, changes)
    matched = {name: value for name, value in expanded.items() if name.startswith("MATCH_EXP_")}
    if matched:
        core.queue.change(job, matched)
    core.queue.claim_works(claim.work())
    core.stats["JobsStarted"] += 1
    return shadow


async def keep_idle(claims: Claims, claim: Claim, like: Job, keep_s: float) -> Shadow | None:
    """Hold on to the slot for a while, as its last job asked for: the next job like it may be on its way."""
    with trio.move_on_after(keep_s):
        while claim.life.may_have_job and not claims.stopping:
            following = next_job(claims, claim, like)
            if following is not None:
                return following
            news = trio.Event()
            claims.idle.add(news)
            try:
                await news.wait()
            finally:
                claims.idle.discard(news)
    return None


def _has_macros(claims: Claims, job: Job) -> bool:
    """Whether the job, or its cluster, may have `$$(...)` to expand."""
    cluster = job.cluster
    if cluster.macros is None:
        cluster.macros = late_macros.has_macros(cluster.ad)
    if job.has_ad:  # its row may not say yet what was just changed
        return late_macros.has_macros(claims.core.queue.ad(job))
    return cluster.macros or job.packed.may_have_macros
