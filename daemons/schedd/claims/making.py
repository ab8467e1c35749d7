"""Claims as they are made: of a match that a negotiator offers, and of what an earlier life of the schedd has kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemons.schedd.core.claim import NODE_OF_CLAIM, SLICE, Claim, Pass
from pool.accounting.accounts import weight_of
from pool.accounting.limits import NONE, limits_of
from pool.ads.alike import AlikeAd
from pool.base.ids import ClaimId
from pool.classad import ClassAd, rank
from pool.jobs.claims.states import ClaimLife
from pool.jobs.claims.step import taken_up
from pool.jobs.match_exprs import exprs_of, read_exprs

if TYPE_CHECKING:
    from daemons.schedd.core.core import Core
    from pool.jobs.queue.cluster import Job
    from pool.jobs.queue.store import ClaimRow
    from protocol.messages.offers import OfferedMatch


def of_match(core: Core, match: OfferedMatch, job: Job, alive_s: float, pool: str, slice: str) -> Claim:
    """A slot that is to be asked for, for this job."""
    id, ad = ClaimId(match.claim_id), core.queue.ad(job)
    lease_s = ad.eval_float("JobLeaseDuration", 0.0)
    return Claim(
        public=id.public(),
        digest=id.digest(),
        id=id,
        startd=match.startd_address,
        submitter=match.submitter,
        owner=job.cluster.owner,
        slot=AlikeAd(match.slot_ad),
        ticket=Pass.new(),
        files_ticket=Pass.new(),
        alive_s=alive_s,
        life=ClaimLife(lease_s or core.settings.alives_missed_max * alive_s, core.now()),
        room=tuple(match.room),
        weight=weight_of(match.slot_ad),
        limits=limits_of(ad, match.slot_ad) or NONE,
        rank=rank(match.slot_ad, ad),
        exprs=read_exprs(match.exprs),
        pool=pool,
        slice=slice,
    )


def of_row(core: Core, row: ClaimRow, slot_ad: ClassAd, job: Job | None) -> Claim:
    """A claim that an earlier life of this schedd held; `job`: what it ran."""
    return Claim(
        public=row.claim,
        digest=row.digest,
        id=None,
        startd=row.startd,
        submitter=row.submitter,
        owner=row.owner,
        slot=AlikeAd(slot_ad),
        ticket=Pass(row.ticket),
        files_ticket=Pass(row.files_ticket),
        alive_s=row.alive_s,
        life=taken_up(
            row.activation, lease_s=row.lease_s, renewed_at=row.renewed_at + row.alive_s, runs=job is not None
        ),
        weight=weight_of(slot_ad),
        limits=(limits_of(core.queue.ad(job), slot_ad) or NONE) if job is not None else NONE,
        rank=rank(slot_ad, core.queue.ad(job)) if job is not None else 0.0,
        exprs=exprs_of(slot_ad),
        pool=slot_ad.eval_str("RemotePool", ""),
        slice=slot_ad.eval_str(SLICE, ""),
        node=slot_ad.eval_int(NODE_OF_CLAIM) if job is not None else None,
    )
