"""The dedicated scheduler: parallel jobs gather slots until each of their nodes has one, one job after the other.

One job gathers at a time, in the order in which jobs wait; the slots that are for this schedd's parallel jobs serve no
other schedd's. So two jobs never wait for slots that the other holds. A job that has not all of them within
UNUSED_CLAIM_TIMEOUT gives back what it has, waits a while, and the next one has its turn.

Source: HTCondor manual, admin-manual/ap-policy-configuration ("Dedicated Scheduling"), UNUSED_CLAIM_TIMEOUT.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.faults import fault
from daemons.schedd.claims.kept import KeptSlots
from daemons.schedd.claims.next_job import note_begin
from daemons.schedd.core.core import whole
from daemons.schedd.execution.gang import Gang
from pool.jobs import late_macros
from pool.jobs.claims.events import JobGiven, Unneeded
from pool.jobs.vocabulary.nodes import SCHEDULING_GROUP, hosts, is_gang, size_of, wants_one_group, within
from pool.jobs.waiting.groups import WaitingGroup, urgency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from pool.classad import ClassAd
    from pool.jobs.queue.cluster import Job
    from protocol.messages.offers import OfferedMatch


ROUND_FAILURES: Final = 3
"""A job for which no group of machines has slots enough rests as one whose start has failed so often."""


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
        self._granted: set[Claim] = set()
        queue = gangs.claims.core.queue
        self._sizes = {job: size_of(queue.ad(job)) for job in procs}
        self._group = OneGroup() if wants_one_group(queue.ad(procs[0])) else None
        self._timer = trio.CancelScope()

    @property
    def size(self) -> int:
        """How many nodes the job has."""
        return sum(self._sizes.values())

    def missing(self, job: Job) -> int:
        """How many slots the proc still has to be offered."""
        return self._sizes[job] - sum(one is job for one in self._slots.values())

    def wants(self, group: WaitingGroup) -> int:
        """How many slots it wants as one of this group."""
        return sum(self.missing(job) for job in self.procs if job.group is group)

    def proc_for(self, match: OfferedMatch) -> Job | None:
        """Which proc this slot was found for."""
        for job in self.procs:
            group = self._gangs.claims.core.waiting.group_of(job)
            if group is not None and (group.submitter, group.autocluster) == (match.submitter, match.autocluster):
                return job
        return None

    def takes(self, slot: ClassAd) -> bool:
        """Whether the slot is of the group of machines that all nodes are to be in, if they are."""
        return self._group is None or self._group.takes(slot)

    def narrowed(self, ad: ClassAd) -> ClassAd:
        """The proc as it asks for slots."""
        return ad if self._group is None else within(ad, self._group.name, self._group.tried)

    def rejected(self) -> None:
        """There is no slot more for it now: where it is to be in one group of machines, another has to be tried."""
        if self._group is not None and self._group.name is not None:
            core, has = self._gangs.claims.core, len(self._slots)
            core.log.full(f"Group {self._group.name} has {has} of {self.size} slots for job {self.procs[0].id}")
            self._group.give_up()
            for claim in sorted(self._slots, key=lambda claim: claim.public):
                self.lost(claim)
                self._gangs.claims.happens(claim, Unneeded())
            core.work_changed(True)
        elif self._group is not None and self._group.tried:  # none is left: from the first again, after a rest
            self.give_up()
            self._gangs.claims.core.cool_down(self.procs[0], ROUND_FAILURES)

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
        """The slot is there; with the last of them the job begins."""
        self._granted.add(claim)
        if len(self._granted) == self.size:
            procs = {job: [claim for claim, of in self._slots.items() if of is job] for job in self.procs}
            self._let_go()
            self._gangs.begin(procs)

    def lost(self, claim: Claim) -> None:
        """The slot was refused, or is gone: another has to be found."""
        job = self._slots.pop(claim)
        self._granted.discard(claim)
        job.busy = False
        self._gangs.claims.core.settle(job)

    def give_up(self) -> None:
        """The job does not want to run, or its time is over: all that it has is given back, in one order."""
        for claim in sorted(self._let_go(), key=lambda claim: claim.public):
            self._gangs.claims.happens(claim, Unneeded())
        for job in self.procs:
            self._gangs.claims.core.settle(job)

    def _let_go(self) -> list[Claim]:
        claims = list(self._slots)
        self._slots.clear()
        self._granted.clear()
        self._timer.cancel()
        for job in self.procs:
            job.busy = False
        self._gangs.over(self)
        return claims

    async def until_late(self, most_s: float) -> None:
        """Give up when that time is over."""
        with self._timer:
            await trio.sleep(most_s)
            core, job = self._gangs.claims.core, self.procs[0]
            has = len(self._granted)
            core.log.always(f"Job {job.id} has {has} of {self.size} slots, and gives them back")
            self.give_up()
            core.cool_down(job, 1 + has)


class Gangs:
    """Which parallel job gathers slots."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self.kept = KeptSlots(claims, self)
        self._gathering: Gathering | None = None

    # ---- what waits

    @property
    def is_wanting(self) -> bool:
        """Whether anything waits that slots are asked for."""
        for group in self.claims.core.waiting.groups():
            job, gathering = group.first(), self._gathering
            if job is None:
                continue
            if not is_gang(job.cluster.ad) or (_is_ready(job) if gathering is None else gathering.wants(group)):
                return True
        return False

    def _next(self) -> Job | None:
        """The parallel job that gathers next."""
        groups = [group for group in self.claims.core.waiting.groups() if (job := group.first()) and is_ready_gang(job)]
        return max(groups, key=urgency).first() if groups else None

    def use_kept(self) -> None:
        """Let the job that gathers, or does so next, have what is kept and fits."""
        gathering = self._gathering
        if self.claims.is_full:
            return
        if gathering is None:
            job = self._next()
            if job is None or not any(self.kept.fitting(one, 1) for one in whole(job)):
                return
            gathering = self._gathering = self._begin_to_gather(job)
        for job in gathering.procs:
            if job.group is None:  # it has all, or has to rest
                continue
            for claim in self.kept.fitting(job, gathering.missing(job)):
                if not gathering.takes(claim.slot_ad):
                    continue
                self.kept.discard(claim)
                gathering.add(claim, job)
                gathering.granted(claim)

    def wanted(self, groups: Sequence[WaitingGroup]) -> dict[WaitingGroup, int]:
        """How many slots each of these groups wants, in the order in which they are served."""
        wanted: dict[WaitingGroup, int] = {}
        gathering = self._gathering
        for group in groups:
            job = group.first()
            if job is None or not is_gang(job.cluster.ad):
                wanted[group] = group.count
                continue
            if gathering is None and _is_ready(job):
                gathering = Gathering(self, whole(job))  # as it would be; it begins with the first slot
            if gathering is not None and (count := gathering.wants(group)):
                wanted[group] = count
        return wanted

    def narrowed(self, group: WaitingGroup, ad: ClassAd) -> ClassAd:
        """What is asked for in the name of this group, whose jobs are like this one."""
        gathering = self._gathering
        return gathering.narrowed(ad) if gathering is not None and gathering.wants(group) else ad

    def rejected(self, submitter: str, autocluster: int) -> None:
        """A negotiator has no slots, or no more, for jobs of this kind."""
        gathering = self._gathering
        groups = [job.group for job in gathering.procs if isinstance(job.group, WaitingGroup)] if gathering else []
        if gathering and any((one.submitter, one.autocluster) == (submitter, autocluster) for one in groups):
            gathering.rejected()

    def take(self, match: OfferedMatch, job: Job, pool: str, slice: str) -> bool:
        """Use a match for the job that gathers, or for this one where none does; False if it is of no use to it."""
        gathering = self._gathering
        if pool or (gathering is None and not _is_ready(job)):
            return False
        candidate = gathering or Gathering(self, whole(job))
        proc = candidate.proc_for(match)
        if proc is None or not candidate.takes(match.slot_ad):
            return False
        if gathering is None:
            gathering = self._gathering = self._begin_to_gather(proc)
        claim = self.claims.reserve(match, proc, pool, slice)
        gathering.add(claim, proc)
        fault("schedd.match_taken")
        self.claims.core.tasks.start(self._request, gathering, claim, proc, failed=lambda _: gathering.give_up())
        return True

    def _begin_to_gather(self, job: Job) -> Gathering:
        core = self.claims.core
        gathering = Gathering(self, whole(job))
        core.requested |= dict.fromkeys(gathering.procs, gathering.give_up)
        core.tasks.start(gathering.until_late, core.settings.unused_claim_s or math.inf)
        return gathering

    async def _request(self, gathering: Gathering, claim: Claim, proc: Job) -> None:
        refused = await self.claims.ask_for(claim, proc)
        if refused:
            self.claims.refused(claim, proc, refused)
        elif gathering.holds(claim):
            gathering.granted(claim)
        else:
            self.claims.happens(claim, Unneeded())

    def lost(self, claim: Claim) -> None:
        """The claim is over; where it was one that a job gathers, another has to be found."""
        self.kept.discard(claim)
        if self._gathering is not None and self._gathering.holds(claim):
            self._gathering.lost(claim)

    def over(self, gathering: Gathering) -> None:
        """The job gathers no longer."""
        for job in gathering.procs:
            self.claims.core.requested.pop(job, None)
        if self._gathering is gathering:
            self._gathering = None
        self.claims.core.work_changed(True)

    # ---- running

    def begin(self, procs: Mapping[Job, Sequence[Claim]]) -> None:
        """Begin all nodes of the job, if it still wants to run, as part of the current transaction."""
        core, members = self.claims.core, [claim for claims in procs.values() for claim in claims]
        for job in procs:
            core.settle(job, tell=False)
        gang = None
        if all(job.group is not None for job in procs) and not self.claims.stopping:
            for job in procs:
                core.waiting.discard(job)
            gang = self._nodes(procs, members)
        if gang is None:
            for claim in members:
                self.claims.happens(claim, Unneeded())
        else:
            gang.go()

    def _nodes(self, procs: Mapping[Job, Sequence[Claim]], members: Sequence[Claim]) -> Gang | None:
        core = self.claims.core
        try:
            expanded = {
                claim: late_macros.expand(core.queue.ad(job), claim.slot_ad)
                for job, claims in procs.items()
                for claim in claims
            }
        except late_macros.CannotExpand as error:
            core.hold(next(iter(procs)), error.message, 0)
            return None
        for job in procs:
            core.queue.set_busy(job, True)
        gang = self.claims.new_gang(next(iter(procs)))
        for node, claim in enumerate(members):
            self._give(gang, claim, node, expanded[claim])
        names = [claim.slot_name for claim in members]
        for job, claims in procs.items():
            note_begin(core, job, claims[0], expanded[claims[0]])
            core.queue.change(job, hosts([claim.slot_name for claim in claims], names))
        return gang

    def _give(self, gang: Gang, claim: Claim, node: int, expanded: dict[str, object]) -> None:
        """The claim runs this node."""
        core = self.claims.core
        self.claims.renew_tickets(claim)
        self.claims.serve_node(claim, node)
        activation = f"{core.start.world.rng.getrandbits(64):016x}"
        claim.shadow = gang.add(claim, activation, expanded)
        self.claims.happens(claim, JobGiven(activation))
        core.queue.claim_works(claim.work())


def is_ready_gang(job: Job) -> bool:
    """Whether it is a parallel job that may gather."""
    return is_gang(job.cluster.ad) and _is_ready(job)


def _is_ready(job: Job) -> bool:
    """Whether all procs of the job wait for slots."""
    return all(one.group is not None for one in whole(job))
