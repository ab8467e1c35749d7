"""Which job a claim runs next, and the beginning of its execution.

A claim takes one job after another without a new negotiation: of its submitter's jobs that want its slot, and that the
slot wants, always the one that goes first, whatever autocluster it is of; or the one that was wished for it. So a job
of high priority gets the next slot that suits it. One that none of them suits waits for the negotiator, while the
claims go on with what suits them.

Source: FindRunnableJob of HTCondor's schedd, with its conditions: both Requirements, the slot's Rank, and the same
concurrency limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from daemons.schedd.core.claim import Claim
from daemons.schedd.execution.shadow import Shadow
from pool.accounting.limits import NONE, limits_of
from pool.classad import ClassAd, accepts, rank
from pool.jobs import late_macros, run
from pool.jobs.claims.events import JobGiven
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.nodes import is_gang
from pool.jobs.waiting.autoclusters import is_timeless
from pool.jobs.waiting.order import Fits
from protocol.rpc.deadlines import LongWait

if TYPE_CHECKING:
    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.claims.run_now import RunNowWish
    from daemons.schedd.core.core import Core

FITS_MAX: Final = 10_000
"""Autoclusters of which a claim remembers whether they fit."""
ASKED_MAX: Final = 200
"""Autoclusters that are asked in one go; a claim that fits none of so many goes back to the negotiator."""


def next_job(claims: Claims, claim: Claim) -> Shadow | None:
    """Begin the submitter's job that goes first among those that fit the slot, if the claim may run one."""
    core = claims.core
    if claim.wish is not None:
        claims.gangs.lost(claim)  # where it was on loan, its user wants it otherwise
        return _wished(claims, claim, claim.wish)
    if (gathering := claims.gangs.holder_of(claim)) is not None:
        return gathering.lending.next(claim)
    while claim.life.may_have_job and not claims.stopping:
        job = core.waiting.first(claim.submitter, fits_in(core, claim, claim.fits, least=claim.rank))
        if job is None or claims.gangs.goes_before(claim, job):
            return None
        core.waiting.discard(job)
        shadow = begin(claims, claim, job)
        if shadow is not None:
            return shadow
    return None


def fits_in(core: Core, claim: Claim, known: dict[int, bool], *, least: float) -> Fits:
    """Whether the claim may take a job; asked again and again only where that may change, as of a job on a clock.

    `known`: of which autoclusters it is known. `least`: what the slot has to think of it.
    """
    left = ASKED_MAX

    def fits(job: Job, autocluster: int) -> bool:
        nonlocal left
        if (is_known := known.get(autocluster)) is not None:
            return is_known
        left -= 1
        if left < 0 or is_gang(job.cluster.ad):  # a gang needs more than one
            return False
        ad, slot = core.queue.ad(job), claim.slot_ad
        found = _want_each_other(core, claim, ad, slot, least)
        if len(known) < FITS_MAX and is_timeless(ad, slot) and not core.waiting.is_stale:
            known[autocluster] = found
        return found

    return fits


def serves(core: Core, claim: Claim, job: Job) -> bool:
    """Whether the claim's slot and the job want each other, and nobody has to be asked."""
    ad, slot = core.queue.ad(job), claim.slot_ad
    return core.submitter(job) == claim.submitter and _want_each_other(core, claim, ad, slot, claim.rank)


def _want_each_other(core: Core, claim: Claim, ad: ClassAd, slot: ClassAd, least: float) -> bool:
    fits = _suits(ad, slot) and _suits(slot, ad) and rank(slot, ad) >= least
    fits = fits and core.settings.flock.may_flock(ad, claim.pool)
    return fits and (limits_of(ad, slot) or NONE) == claim.limits


def _suits(ad: ClassAd, other: ClassAd) -> bool:
    """Whether it takes the other; an ad without Requirements takes all."""
    return "Requirements" not in ad or accepts(ad, other)


def _wished(claims: Claims, claim: Claim, wish: RunNowWish) -> Shadow | None:
    """Begin the job that was to have this slot; where it is to have several, `work` sees to it."""
    if not wish.is_for_one:
        return None
    claim.wish = None
    if not claim.life.may_have_job or claims.stopping or wish.job.group is None:
        return None
    claims.core.waiting.discard(wish.job)
    return begin(claims, claim, wish.job)


def begin(claims: Claims, claim: Claim, job: Job, activation: str = "") -> Shadow | None:
    """Make an execution of the job under the claim, as part of the current transaction; None when it was held.

    `activation`: what the startd was told already that it will be called.
    """
    core = claims.core
    ad = core.queue.ad(job)
    try:
        expanded = late_macros.expand(ad, claim.slot_ad) if has_macros(claims, job) else {}
    except late_macros.CannotExpand as error:
        core.hold(job, error.message, 0)
        return None
    lease_s = claims.lease_for(claim, ad)
    shadow = claims.new_shadow(claim, job, activation or new_activation(core), expanded)
    shadow.is_early = bool(activation)
    claims.renew_tickets(claim)
    core.queue.set_busy(job, True)
    claim.shadow = shadow
    claims.happens(claim, JobGiven(shadow.activation, lease_s))
    core.executions.begins(job, shadow)
    note_begin(core, job, claim, expanded)
    core.queue.claim_works(claim.work())
    return shadow


def new_activation(core: Core) -> str:
    """What an execution is called."""
    return f"{core.start.world.rng.getrandbits(64):016x}"


def note_begin(core: Core, job: Job, claim: Claim, expanded: dict[str, object]) -> None:
    """Note in the job's ad that it begins in this slot; of a parallel job, its node 0."""
    changes = run.begin(
        core.queue.ad(job),
        claim.slot_ad,
        claim.public,
        claim.startd,
        core.now(),
        machine_attrs=core.settings.machine_attrs,
        history_length=core.settings.machine_attrs_length,
        pool=claim.pool,
    )
    core.apply(job, changes)
    matched = {name: value for name, value in expanded.items() if name.startswith("MATCH_EXP_")}
    if matched:
        core.queue.change(job, matched)
    core.stats["JobsStarted"] += 1


async def keep_idle(claims: Claims, claim: Claim, keep_s: float) -> Shadow | None:
    """Hold on to the slot for a while, as its last job asked for: another that fits may be on its way.

    None also where a parallel job that gathers wants it: `Claims.work` gives it the slot.
    """
    with LongWait(keep_s):
        while claim.life.may_have_job and not claims.stopping:
            following = next_job(claims, claim)
            if following is not None or claims.gangs.wants(claim):
                return following
            news = trio.Event()
            claims.idle.add(news)
            try:
                await news.wait()
            finally:
                claims.idle.discard(news)
    return None


def has_macros(claims: Claims, job: Job) -> bool:
    """Whether the job, or its cluster, may have `$$(...)` to expand."""
    cluster = job.cluster
    if cluster.macros is None:
        cluster.macros = late_macros.has_macros(cluster.ad)
    if job.has_ad:  # its row may not say yet what was just changed
        return late_macros.has_macros(claims.core.queue.ad(job))
    return cluster.macros or job.packed.may_have_macros
