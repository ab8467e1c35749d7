"""What the slots do that a parallel job has gathered while it waits for the others: they run its user's other jobs.

A slot that has waited for a moment is lent: it runs jobs of the same user that fit, one after the other, though its
RANK may think less of them. With the last slot of the parallel job they are killed, and wait for their next start; so
it never waits for them longer than it takes to end them. Where it gives its slots up, a job stays in the one that it
has, unless its machine prefers what the slot was claimed for: then it leaves, too, for the startd knows the claim as
one that others must not push aside.

Source: HTCondor manual, "Parallel Jobs and the Dedicated Scheduler": dedicated machines can run serial jobs, and
prefer parallel ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from daemons.schedd.claims.next_job import begin, fits_in
from pool.classad import rank
from pool.jobs.claims.events import Unneeded
from pool.jobs.vocabulary.hold_codes import VacateCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.execution.shadow import Shadow
    from pool.jobs.queue.cluster import Job

LEND_AFTER_S: Final = 2.0
"""How long a slot waits for the others before it is lent: those that are free come at about the same time."""


class Lending:
    """The slots that were granted to a job that gathers: those that are `idle`, and those that are `lent`.

    `job`: for which they are. `may_lend`: whether more of them are still to come.
    """

    def __init__(self, claims: Claims, job: Job, may_lend: Callable[[], bool]) -> None:
        self._claims, self._job, self._may_lend = claims, job, may_lend
        self.idle: dict[Claim, float] = {}
        """Since when each has been."""
        self.lent: set[Claim] = set()
        self._fits: dict[Claim, dict[int, bool]] = {}
        """Which autoclusters may have a slot on loan."""
        self._news = trio.Event()
        self._scope = trio.CancelScope()

    def __len__(self) -> int:
        return len(self.idle) + len(self.lent)

    def add(self, claim: Claim) -> None:
        """The slot is granted, or back."""
        self.lent.discard(claim)
        self.idle[claim] = trio.current_time()
        self._news.set()

    def discard(self, claim: Claim) -> None:
        """The slot is lost."""
        self.idle.pop(claim, None)
        self.lent.discard(claim)
        self._fits.pop(claim, None)

    def over(self) -> None:
        """The job has no use for them, or uses them itself from now on."""
        self._scope.cancel()

    async def run(self) -> None:
        """Lend what is idle, as long as the job gathers."""
        with self._scope:
            while True:
                self._news = trio.Event()
                self._claims.idle.add(self._news)
                try:
                    with trio.move_on_at(self._look()):
                        await self._news.wait()
                finally:
                    self._claims.idle.discard(self._news)

    def _look(self) -> float:
        """Lend what has waited long enough; when there is more."""
        now, due = trio.current_time(), math.inf
        for claim, since in list(self.idle.items()):
            if since + LEND_AFTER_S > now:
                due = min(due, since + LEND_AFTER_S)
            elif (shadow := self.next(claim)) is not None:
                self._claims.carry_on(claim, shadow.job, shadow)
        return due

    def next(self, claim: Claim) -> Shadow | None:
        """Begin what a slot runs until the job has all, as part of the current transaction."""
        claims, waiting = self._claims, self._claims.core.waiting
        fits = fits_in(claims.core, claim, self._fits.setdefault(claim, {}), least=-math.inf)
        # One more must be able to run besides, or the job would get no more slots.
        while self._may_lend() and claim.life.may_have_job and claims.room > 1:
            job = waiting.first(claim.submitter, fits)
            if job is None:
                return None
            waiting.discard(job)
            shadow = begin(claims, claim, job)
            if shadow is not None:
                self.idle.pop(claim, None)
                self.lent.add(claim)
                return shadow
        return None

    def recall(self) -> None:
        """The job has all of its slots: who is in them has to leave at once."""
        for claim in self.lent:
            if claim.shadow is not None:  # else it is just on its way back
                reason = f"Parallel job {self._job.id} has got all of its slots, of which this one was on loan"
                self._claims.core.vacate(claim.shadow.job, reason, VacateCode.SCHEDD_VACATE, fast=True)

    def give_back(self, claim: Claim) -> None:
        """The job does not want the slot any more; what is lent is given back when the other job has left it."""
        core, shadow = self._claims.core, claim.shadow
        if claim not in self.lent:
            self._claims.happens(claim, Unneeded())
        elif shadow is not None and rank(claim.slot_ad, core.queue.ad(shadow.job)) < claim.rank:
            reason = f"Parallel job {self._job.id} gives back its slots, of which this one was on loan"
            core.vacate(shadow.job, reason, VacateCode.SCHEDD_VACATE)
