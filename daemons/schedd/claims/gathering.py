"""The slots that one parallel job gathers, until each of its nodes has one or its time is over.

Source: HTCondor manual, UNUSED_CLAIM_TIMEOUT, and "Grouping Dedicated Nodes into Parallel Scheduling Groups".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from daemons.schedd.claims.lending import Lending
from daemons.schedd.claims.next_job import serves
from pool.jobs.vocabulary.hold_codes import VacateCode
from pool.jobs.vocabulary.nodes import SCHEDULING_GROUP, size_of, wants_one_group, within
from pool.jobs.waiting.dedicated import DedicatedRules, Lacks, RunningNode, is_possible, who_leaves
from pool.jobs.waiting.groups import WaitingGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemons.schedd.claims.gangs import Gangs
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.execution.gang import Gang
    from pool.classad import ClassAd
    from pool.jobs.queue.cluster import Job

ROUND_FAILURES: Final = 3
"""A job for which no group of machines has slots enough rests as one whose start has failed so often."""
SETTLE_S: Final = 5.0
"""How long slots that were left may take on their way: given back, published, and matched."""


class OneGroup:
    """In which ParallelSchedulingGroup a job gathers: that of its first slot, until there are no more in it."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.tried: set[str] = set()
        """Those that had too few."""

    def takes(self, slot: ClassAd) -> bool:
        """Whether a slot is in it, or may be the first."""
        group = slot.eval_str(SCHEDULING_GROUP)
        return group is not None and group == (self.name or group) and group not in self.tried

    def give_up(self) -> None:
        """It has too few."""
        if self.name is not None:
            self.tried.add(self.name)
        self.name = None


class Gathering:
    """The slots that one job has and asks for. While more are needed it waits as other jobs do.

    `procs`: all of the job; each waits with those that look like it to slots.
    """

    def __init__(self, gangs: Gangs, procs: Sequence[Job]) -> None:
        self.procs = procs
        self._gangs = gangs
        self._slots: dict[Claim, Job] = {}
        """For which proc each is, in the order of its nodes."""
        queue = gangs.claims.core.queue
        self._sizes = {job: size_of(queue.ad(job)) for job in procs}
        self._group = OneGroup() if wants_one_group(queue.ad(procs[0])) else None
        self._timer = trio.CancelScope()
        self._awaits_others = False
        """Whether running jobs leave for it."""
        self.lending = Lending(gangs.claims, procs[0], self._may_lend)
        """Those that were granted."""

    @property
    def size(self) -> int:
        """How many nodes the job has."""
        return sum(self._sizes.values())

    @property
    def is_empty(self) -> bool:
        """Whether it has no slot, and none is about to be left for it."""
        return not self._slots and not self._awaits_others

    def missing(self, job: Job) -> int:
        """How many slots the proc still has to be offered."""
        return self._sizes[job] - sum(one is job for one in self._slots.values())

    def wants(self, group: WaitingGroup) -> int:
        """How many slots it wants as one of this group."""
        return sum(self.missing(job) for job in self.procs if job.group is group)

    def proc_for(self, submitter: str, autocluster: int) -> Job | None:
        """Which proc a negotiator knows as one of these."""
        for job in self.procs:
            group = self._gangs.claims.core.waiting.group_of(job)
            if group is not None and (group.submitter, group.autocluster) == (submitter, autocluster):
                return job
        return None

    def proc_of(self, claim: Claim) -> Job | None:
        """Which proc still lacks a slot, and may have this one."""
        core = self._gangs.claims.core
        if not claim.life.may_have_job or not self.takes(claim.slot_ad):
            return None
        lacking = (job for job in self.procs if job.group is not None and self.missing(job) > 0)
        return next((job for job in lacking if serves(core, claim, job)), None)

    def takes(self, slot: ClassAd) -> bool:
        """Whether the slot is of the group of machines that all nodes are to be in, if they are."""
        return self._group is None or self._group.takes(slot)

    def narrowed(self, ad: ClassAd) -> ClassAd:
        """The proc as it asks for slots."""
        return ad if self._group is None else within(ad, self._group.name, self._group.tried)

    # ---- a negotiator has none more for it

    def rejected(self) -> None:
        """There is no slot more for it now."""
        core, rules = self._gangs.claims.core, self._gangs.claims.core.settings.dedicated
        if self._group is not None:
            self._group_rejected(self._group)
        elif self._awaits_others or self._put_out(rules):
            return
        elif self._slots and not rules.is_fifo:
            core.log.full(f"Job {self.procs[0].id} lacks slots, and lets others pass.", has=len(self._slots))
            self._rest(1 + len(self._slots))
        elif not self._slots and not self._is_possible():
            self.give_up()
            self._gangs.claims.passed(self.procs[0], "no machine that is known here suits it, so others may pass")

    def _group_rejected(self, group: OneGroup) -> None:
        """Where all are to be in one group of machines, another has to be tried."""
        core, has = self._gangs.claims.core, len(self._slots)
        if group.name is not None:
            core.log.full(f"Group {group.name} has {has} of {self.size} slots for job {self.procs[0].id}")
            group.give_up()
            for claim in sorted(self._slots, key=lambda claim: claim.public):
                self.lending.give_back(claim)
                self.lost(claim)
            core.work_changed(True)
        elif group.tried or not self._is_possible():  # none is left: from the first again, after a rest
            self._rest(ROUND_FAILURES)

    def _rest(self, failures: int) -> None:
        """Give all back, and let the next have its turn."""
        self.give_up()
        self._gangs.claims.core.cool_down(self.procs[0], failures)

    def _is_possible(self) -> bool:
        """Whether machines of which this schedd has slots would do, were they free: it is one to wait for."""
        claims = self._gangs.claims
        return is_possible([claims.core.queue.ad(job) for job in self.procs], [one.slot_ad for one in claims.all()])

    def _put_out(self, rules: DedicatedRules) -> bool:
        """Have running parallel jobs leave for it, where the configuration says so and it gets all that it lacks."""
        core = self._gangs.claims.core
        running = dict.fromkeys(core.executions.gangs.values())
        nodes = [
            RunningNode(gang, core.queue.ad(shadow.job), shadow.claim.slot_ad)
            for gang in running
            for shadow in gang.shadows()
        ]
        lacks = [Lacks(core.queue.ad(job), self.missing(job)) for job in self.procs if self.missing(job)]
        leaving = who_leaves(rules, lacks, nodes)
        for gang in leaving:
            core.log.always(f"Job {gang.job.id} leaves its slots to job {self.procs[0].id}")
            reason = f"Preempted for parallel job {self.procs[0].id} (SCHEDD_PREEMPTION_REQUIREMENTS)"
            core.vacate(gang.job, reason, VacateCode.SCHEDD_VACATE)
        if leaving:
            self._awaits_others = True
            core.tasks.start(self._see_out, leaving)
        return bool(leaving)

    async def _see_out(self, leaving: Sequence[Gang]) -> None:
        """Nobody else has to leave before what these have left has had time to get here."""
        for gang in leaving:
            await gang.over.wait()
        await trio.sleep(SETTLE_S)
        self._awaits_others = False
        self._gangs.claims.core.work_changed(True)

    # ---- the slots that it has

    def holds(self, claim: Claim) -> bool:
        """Whether it waits for this slot, or has it."""
        return claim in self._slots

    def add(self, claim: Claim, job: Job) -> None:
        """One more is asked for."""
        self._slots[claim] = job
        if self._group is not None:
            self._group.name = claim.slot_ad.eval_str(SCHEDULING_GROUP)
        if not self.missing(job):
            job.busy = True
            self._gangs.claims.core.waiting.discard(job)

    def granted(self, claim: Claim) -> None:
        """The slot is there, or back; with the last of them the job begins."""
        self.lending.add(claim)
        if len(self.lending.idle) == self.size:
            procs = {job: [claim for claim, of in self._slots.items() if of is job] for job in self.procs}
            self._let_go()
            self._gangs.begin(procs)
        elif len(self.lending) == self.size:
            self.lending.recall()

    def is_back(self, claim: Claim) -> bool:
        """The job to which the slot was lent has left it: whether it is still of use."""
        if not claim.life.may_have_job:
            self.lost(claim)
            return False
        self.granted(claim)
        return True

    def lost(self, claim: Claim) -> None:
        """The slot was refused, or is gone: another has to be found."""
        job = self._slots.pop(claim)
        self.lending.discard(claim)
        job.busy = False
        self._gangs.claims.core.settle(job)

    def give_up(self) -> None:
        """The job does not want to run, or its time is over: all that it has is given back, in one order."""
        for claim in sorted(self._let_go(), key=lambda claim: claim.public):
            self.lending.give_back(claim)
        for job in self.procs:
            self._gangs.claims.core.settle(job)

    def _let_go(self) -> list[Claim]:
        claims = list(self._slots)
        self._slots.clear()
        self.lending.over()
        self._timer.cancel()
        for job in self.procs:
            job.busy = False
        self._gangs.over(self)
        return claims

    def _may_lend(self) -> bool:
        """Whether more slots are still to come, and that may take a while."""
        return len(self.lending) < self.size and not self._awaits_others

    async def until_late(self, most_s: float) -> None:
        """Give up when that time is over; one that has no slot yet, and might, has nothing to give back."""
        with self._timer:
            await trio.sleep(most_s)
            if not self._slots and self._is_possible():
                self._gangs.claims.core.tasks.start(self.until_late, most_s)
                return
            core, job = self._gangs.claims.core, self.procs[0]
            has = len(self.lending)
            core.log.always(f"Job {job.id} has {has} of {self.size} slots, and gives them back")
            self._rest(1 + has)
