"""Slots that a parallel job has had, kept for its user's next one, which then begins without a negotiation.

They are kept for UNUSED_CLAIM_TIMEOUT, and only while nothing waits here that they do not serve: a job of the same
user that fits takes one, the parallel job that gathers takes as many as it needs, and the rest is given back as soon as
this schedd would ask a negotiator for slots.

Source: HTCondor manual, UNUSED_CLAIM_TIMEOUT.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import trio

from daemons.schedd.claims.next_job import serves
from pool.jobs.claims.events import Unneeded
from protocol.rpc.deadlines import LongWait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.claims.gangs import Gangs
    from daemons.schedd.core.claim import Claim
    from pool.jobs.queue.cluster import Job


class KeptSlots:
    """The slots that are kept, in the order in which they were."""

    def __init__(self, claims: Claims, gangs: Gangs) -> None:
        self._claims, self._gangs = claims, gangs
        self._kept: dict[Claim, None] = {}

    def keep(self, claims: Sequence[Claim], keep_s: float | None) -> None:
        """Keep these, which a job has left, as long as it said, or else the configuration; 0 in that is for ever."""
        if keep_s is None:
            keep_s = self._claims.core.settings.unused_claim_s or math.inf
        self._kept |= dict.fromkeys(claims)
        self._look()
        self._claims.core.tasks.start(self._watch, claims, keep_s)

    async def _watch(self, claims: Sequence[Claim], keep_s: float) -> None:
        """Use them, or give them back."""
        with LongWait(keep_s):
            while any(claim in self._kept for claim in claims):
                news = trio.Event()
                self._claims.idle.add(news)
                try:
                    self._look()
                    await news.wait()
                finally:
                    self._claims.idle.discard(news)
        self._give_back(claims)

    def discard(self, claim: Claim) -> None:
        """It serves a job, or there is no such claim any more."""
        self._kept.pop(claim, None)

    def fitting(self, job: Job, most: int) -> list[Claim]:
        """So many of those that may run the job."""
        core = self._claims.core
        fit = (claim for claim in self._kept if claim.life.may_have_job and serves(core, claim, job))
        return list(islice(fit, most))

    def _look(self) -> None:
        """Something may wait: use what serves it, and keep nothing from what is still missing."""
        for claim in list(self._kept):
            shadow = self._claims.next(claim)
            if shadow is not None:
                self.discard(claim)
                self._claims.carry_on(claim, shadow.job, shadow)
        self._gangs.use_kept()
        if self._gangs.is_wanting or self._claims.stopping:
            self._give_back(list(self._kept))

    def _give_back(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            if claim in self._kept:
                self.discard(claim)
                self._claims.happens(claim, Unneeded())
