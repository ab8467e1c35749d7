"""Which job a claim runs next, and the beginning of its execution.

A claim takes one job of its autocluster after another without a new negotiation, or the one that was wished for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from daemons.schedd.claim import Claim
from daemons.schedd.shadow import Shadow
from pool.classad import ClassAd
from pool.jobs import late_macros, run
from pool.jobs.autocluster import is_timeless
from pool.jobs.job_queue import Job

if TYPE_CHECKING:
    from daemons.schedd.claims import Claims
    from daemons.schedd.run_now import Wish


def next_job(claims: Claims, claim: Claim, like: Job) -> Shadow | None:
    """Begin the next job of the same autocluster, if there is one and the claim may run it."""
    core = claims.core
    if claim.wish is not None:
        return _wished(claims, claim, claim.wish)
    while claim.reusable and not claim.gone and not claims.stopping:
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


def _wished(claims: Claims, claim: Claim, wish: Wish) -> Shadow | None:
    """Begin the job that was to have this slot; where it is to have several, `work` sees to it."""
    if not wish.is_for_one:
        return None
    claim.wish = None
    if not claim.reusable or claim.gone or claims.stopping or wish.job.group is None:
        return None
    claims.core.waiting.discard(wish.job)
    return begin(claims, claim, wish.job)


def begin(claims: Claims, claim: Claim, job: Job) -> Shadow | None:
    """Make an execution of the job under the claim, as part of the current transaction; None when it was held."""
    core = claims.core
    ad = core.queue.ad(job)
    try:
        expanded = late_macros.expand(ad, claim.slot_ad) if _has_macros(job) else {}
    except late_macros.CannotExpand as error:
        core.hold(job, error.message, 0)
        return None
    activation = f"{core.start.world.rng.getrandbits(64):016x}"
    shadow = Shadow(core, claims, claim, job, activation, expanded)
    claims.renew_tickets(claim)
    core.queue.set_busy(job, True)
    core.shadows[activation] = core.shadow_of[job] = claim.shadow = shadow
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
    core = claims.core
    with trio.move_on_after(keep_s):
        while claim.reusable and not claim.gone and not claims.stopping:
            following = next_job(claims, claim, like)
            if following is not None:
                return following
            news = trio.Event()
            core.idle_claims.add(news)
            try:
                await news.wait()
            finally:
                core.idle_claims.discard(news)
    return None


def _has_macros(job: Job) -> bool:
    """Whether the job, or its cluster, may have `$$(...)` to expand."""
    cluster = job.cluster
    if cluster.macros is None:
        cluster.macros = late_macros.has_macros(cluster.ad)
    return cluster.macros or "$$(" in job.packed
