"""condor_now: running jobs leave at once, and their slots go to a job that their owner wants to run first.

One slot is simply the claim's next job. Several wait, each idle, until the last of them is free; then the startd makes
one slot out of them. Whatever goes wrong on the way, the job stays idle, and the slots go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemons.schedd.core.core import Core
from daemons.schedd.core.selection import may_manage
from pool.base.errors import PoolError, UserError
from pool.jobs.claims.events import Unneeded
from pool.jobs.match_exprs import with_exprs
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.hold_codes import VacateCode
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe
from protocol.messages.schedd import RunNow
from protocol.messages.startd import CoalesceClaims
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

if TYPE_CHECKING:
    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim


@dataclass(eq=False)
class RunNowWish:
    """A job that shall have the slots of others. `coming`: the claims whose jobs have not left yet."""

    job: Job
    claims: list[Claim]
    coming: set[Claim] = field(default_factory=set)

    @property
    def is_for_one(self) -> bool:
        """Whether there is nothing to put together."""
        return len(self.claims) == 1


class RunNowHandler:
    """Takes the requests, and puts slots together."""

    def __init__(self, core: Core, claims: Claims) -> None:
        self._core = core
        self._claims = claims

    def answers(self) -> list[Answer]:
        """condor_now."""
        return [answer(RunNow, self.run)]

    async def run(self, peer: Peer, request: RunNow) -> Done:
        """Have the jobs leave and note who comes next."""
        core = self._core
        mine = may_manage(core, peer)
        job = core.queue.get(request.job)
        if job is None:
            raise UserError("no such job (now-job)")
        if not mine(job):
            raise UserError("you must own the now-job")
        if core.queue.ad(job).eval_int("JobUniverse", Universe.VANILLA) != Universe.VANILLA:
            raise UserError("the now-job must be in the vanilla universe")
        if job.status is not JobStatus.IDLE:
            raise UserError("the now-job must be idle")
        if not request.instead_of:
            raise UserError("missing vacate-job ID")
        leaving = dict.fromkeys(self._running(core.queue.get(id), mine) for id in request.instead_of)
        if job.busy or any(claim.wish is not None and claim.wish.job is job for claim in self._claims.all()):
            raise UserError("the now-job must not already be scheduled to run immediately")
        claims = [core.executions.shadow_of[one].claim for one in leaving]
        if any(claim.wish is not None for claim in claims):
            raise UserError("a vacate-job's slot is already promised to another job")
        wish = RunNowWish(job, claims, set(claims))
        for claim in claims:
            claim.wish = wish
        for one in leaving:
            core.vacate(one, f"condor_now {job.id}", VacateCode.USER_VACATE_JOB, fast=True)
        await core.writer.durable()
        return DONE

    def _running(self, job: Job | None, mine: object) -> Job:
        if job is None:
            raise UserError("no such job (vacate-job)")
        if callable(mine) and not mine(job):
            raise UserError("you must own the vacate-job")
        if self._core.queue.ad(job).eval_int("JobUniverse", Universe.VANILLA) != Universe.VANILLA:
            raise UserError("vacate-job must be in the vanilla universe")
        if job.status is not JobStatus.RUNNING:
            raise UserError("vacate-job must be running")
        if job not in self._core.executions.shadow_of:
            raise UserError("no match for vacate-job ID")
        return job


async def coalesce(claims: Claims, claim: Claim, wish: RunNowWish) -> bool:
    """The claim's job has left; the last of a wish puts the slots together. Whether the claim is looked after."""
    wish.coming.discard(claim)
    if wish.coming:
        return claim.life.is_held  # it waits for the others
    core, held = claims.core, [one for one in wish.claims if one.life.is_held]
    for one in wish.claims:
        one.wish = None
    reason = _obstacle(wish, held) or await _put_together(claims, claim, wish, held)
    if reason:
        core.log.always(f"Job {wish.job.id} does not run now: {reason}")
    for one in held:
        if one is not claim:
            claims.happens(one, Unneeded())
    return False


def _obstacle(wish: RunNowWish, held: Sequence[Claim]) -> str:
    """Why the slots cannot be put together, or shall not; empty: nothing is in the way."""
    if len(held) < len(wish.claims):
        return "not all of the slots are ours any more"
    if len({one.startd for one in held}) > 1:
        return "the slots are on different machines"
    return "the job does not wait for a slot any more" if wish.job.group is None else ""


async def _put_together(claims: Claims, claim: Claim, wish: RunNowWish, held: Sequence[Claim]) -> str:
    """One slot of all of them, where the job begins; why not, or empty."""
    core = claims.core
    # Before anything is awaited, as for a match: meanwhile no other slot shall take the job.
    core.waiting.discard(wish.job)
    wish.job.busy = True
    try:
        startd = claims.startd(claim.startd)
        ids = [await startd.id_of(one) for one in held]
        peer = await startd.peer()
        made = await peer.call(
            CoalesceClaims(
                claim_ids=ids,
                job_ad=with_exprs(core.queue.ad(wish.job).flat(), claim.exprs),
                lease_s=claim.life.lease_s,
                alive_interval_s=claim.alive_s,
            )
        )
        if made.answer.granted:
            claims.begin_coalesced(claim, wish.job, made)
        reason = made.answer.reason
    except PoolError as error:
        reason = str(error)
    if reason:
        wish.job.busy = False
        core.settle(wish.job)
    return reason
