"""The dedicated scheduler: parallel jobs gather slots until each of their nodes has one, one job after the other.

One job gathers at a time, in the order in which jobs wait; the slots that are for this schedd's parallel jobs serve no
other schedd's. So two jobs never wait for slots that the other holds. A job that has not all of them within
UNUSED_CLAIM_TIMEOUT gives back what it has, waits a while, and the next one has its turn. One for which a negotiator
has nothing has the slots that other jobs of its user leave, before later ones of those; one that no machine of ours
could run lets the others pass.

Source: HTCondor manual, admin-manual/ap-policy-configuration ("Dedicated Scheduling"), UNUSED_CLAIM_TIMEOUT.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from daemons.base.faults import fault
from daemons.schedd.claims.gathering import Gathering
from daemons.schedd.claims.kept import KeptSlots
from daemons.schedd.claims.next_job import note_begin, serves
from daemons.schedd.core.core import whole
from daemons.schedd.execution.gang import Gang
from pool.jobs import late_macros
from pool.jobs.claims.events import JobGiven, Unneeded
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.nodes import hosts, is_gang
from pool.jobs.vocabulary.priority import Priority
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.waiting.groups import WaitingGroup, urgency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.core.core import Core
    from pool.classad import ClassAd
    from pool.jobs.queue.cluster import Job
    from protocol.messages.offers import OfferedMatch


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
            if not is_gang(job.cluster.ad) or (self._is_ready(job) if gathering is None else gathering.wants(group)):
                return True
        return False

    def _next(self) -> Job | None:
        """The parallel job that gathers next."""
        waiting = self.claims.core.waiting.groups()
        groups = [
            group for group in waiting if (job := group.first()) and is_gang(job.cluster.ad) and self._is_ready(job)
        ]
        return max(groups, key=urgency).first() if groups else None

    def _is_ready(self, job: Job) -> bool:
        """Whether all procs of the parallel job wait for slots, and it for nothing else."""
        return all(one.group is not None for one in whole(job)) and not self._is_behind_spooled(job)

    def _is_behind_spooled(self, job: Job) -> bool:
        """Whether it has to wait for an earlier one whose files are still on their way."""
        core = self.claims.core
        if not core.settings.dedicated.waits_for_files:
            return False
        earlier = (cluster for cluster in core.queue.gangs.values() if cluster.id < job.cluster.id)
        return any(is_spooling(core, one) for cluster in earlier for one in cluster.jobs.values())

    def has_left(self, job: Job) -> None:
        """It may have been one for whose files others wait."""
        if is_gang(job.cluster.ad) and self.claims.core.settings.dedicated.waits_for_files:
            self.claims.core.work_changed(True)

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
        self._yield_to_more_urgent()
        gathering = self._gathering
        for group in groups:
            job = group.first()
            if job is None or not is_gang(job.cluster.ad):
                wanted[group] = group.count
                continue
            if gathering is None and self._is_ready(job):
                gathering = Gathering(self, whole(job))  # as it would be; it begins with the first slot
            if gathering is not None and (count := gathering.wants(group)):
                wanted[group] = count
        return wanted

    def _yield_to_more_urgent(self) -> None:
        """One that has no slot yet, and for which nobody leaves, lets one pass that is before it."""
        gathering = self._gathering
        if gathering is not None and gathering.is_empty and self._next() not in gathering.procs:
            gathering.give_up()

    def narrowed(self, group: WaitingGroup, ad: ClassAd) -> ClassAd:
        """What is asked for in the name of this group, whose jobs are like this one."""
        gathering = self._gathering
        return gathering.narrowed(ad) if gathering is not None and gathering.wants(group) else ad

    def rejected(self, submitter: str, autocluster: int) -> None:
        """A negotiator has no slots, or no more, for jobs of this kind."""
        gathering, job = self._gathering, self._next() if self._gathering is None else None
        if job is not None and Gathering(self, whole(job)).proc_for(submitter, autocluster) is not None:
            gathering = self._gathering = self._begin_to_gather(job)  # it has none yet, and is first to get one
        if gathering is not None and gathering.proc_for(submitter, autocluster) is not None:
            gathering.rejected()

    def take(self, match: OfferedMatch, job: Job, pool: str, slice: str) -> bool:
        """Use a match for the job that gathers, or for this one where none does; False if it is of no use to it."""
        gathering = self._gathering
        if pool or (gathering is None and not self._is_ready(job)):
            return False
        candidate = gathering or Gathering(self, whole(job))
        proc = candidate.proc_for(match.submitter, match.autocluster)
        if proc is None or not candidate.takes(match.slot_ad):
            return False
        if gathering is None:
            gathering = self._gathering = self._begin_to_gather(proc)
        claim = self.claims.reserve(match, proc, pool, slice)
        gathering.add(claim, proc)
        fault("schedd.match_taken")
        self.claims.core.tasks.start(self._request, gathering, claim, proc, failed=lambda _: gathering.give_up())
        return True

    # ---- slots that other jobs of the same user leave

    def goes_before(self, claim: Claim, job: Job) -> bool:
        """Whether the job that gathers shall have this slot, and not `job`."""
        proc = self._gathering.proc_of(claim) if self._gathering is not None else None
        return proc is not None and _place(proc) > _place(job)

    def expect(self, claims: Sequence[Claim]) -> None:
        """A parallel job is about to leave these: the next gathers, if any of them suits it."""
        if self._gathering is None and not self.claims.is_full and (job := self._next()) is not None:
            core = self.claims.core
            if any(serves(core, claim, proc) for claim in claims for proc in whole(job)):
                self._gathering = self._begin_to_gather(job)

    def wants(self, claim: Claim) -> bool:
        """Whether a parallel job has use for a slot that is kept for its user: it gathers then."""
        self.expect([claim])
        return self._use_of(claim) is not None

    def holder_of(self, claim: Claim) -> Gathering | None:
        """The job that gathers, where the slot is one of its."""
        gathering = self._gathering
        return gathering if gathering is not None and gathering.holds(claim) else None

    def takes(self, claim: Claim) -> bool:
        """Whether the job that gathers has use for a slot that we hold and that runs nothing; then it has it."""
        if (holder := self.holder_of(claim)) is not None:  # it was on loan
            return holder.is_back(claim)
        gathering, proc = self._gathering, self._use_of(claim)
        if gathering is None or proc is None:
            return False
        gathering.add(claim, proc)
        gathering.granted(claim)
        return True

    def _use_of(self, claim: Claim) -> Job | None:
        """Which proc of the job that gathers may have the slot."""
        gathering = self._gathering
        return None if gathering is None or self.claims.is_full else gathering.proc_of(claim)

    def _begin_to_gather(self, job: Job) -> Gathering:
        core = self.claims.core
        gathering = Gathering(self, whole(job))
        core.requested |= dict.fromkeys(gathering.procs, gathering.give_up)
        core.tasks.start(gathering.until_late, core.settings.unused_claim_s or math.inf)
        core.tasks.start(gathering.lending.run)
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
        if (holder := self.holder_of(claim)) is not None:
            holder.lost(claim)

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
        lease_s = self.claims.lease_for(claim, core.queue.ad(claim.shadow.job))
        self.claims.happens(claim, JobGiven(activation, lease_s))
        core.queue.claim_works(claim.work())


def is_spooling(core: Core, job: Job) -> bool:
    """Whether the job's input is still on its way here."""
    if job.status is not JobStatus.HELD:
        return False
    return core.queue.ad(job).eval_int("HoldReasonCode", 0) == HoldCode.SPOOLING_INPUT


def _place(job: Job) -> tuple[Priority, int, int]:
    """Of two jobs of one user that wait, that with the greater is the first."""
    assert isinstance(job.group, WaitingGroup)
    return job.group.priority, -job.cluster.id, -job.proc
