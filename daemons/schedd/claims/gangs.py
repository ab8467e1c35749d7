"""The dedicated scheduler: parallel jobs gather slots until each of their nodes has one, one job after the other.

One job gathers at a time, in the order in which jobs wait; the slots that are for this schedd's parallel jobs serve no
other schedd's. So two jobs never wait for slots that the other holds. A job that has not all of them within
UNUSED_CLAIM_TIMEOUT gives back what it has, waits a while, and the next one has its turn.

Source: HTCondor manual, admin-manual/ap-policy-configuration ("Dedicated Scheduling"), UNUSED_CLAIM_TIMEOUT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from daemons.base.faults import fault
from daemons.schedd.claims.next_job import note_begin
from daemons.schedd.execution.gang import Gang
from pool.jobs import late_macros
from pool.jobs.claims.events import JobGiven, Unneeded
from pool.jobs.vocabulary.nodes import hosts, is_gang, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from pool.jobs.queue.cluster import Job
    from pool.jobs.waiting.groups import WaitingGroup
    from protocol.messages.offers import OfferedMatch


class Gathering:
    """The slots that one job has and asks for. While more are needed it waits as other jobs do."""

    def __init__(self, gangs: Gangs, job: Job) -> None:
        self.job = job
        self._gangs = gangs
        self._slots: dict[Claim, bool] = {}
        """In the order of its nodes; whether they were granted."""
        self._size = size_of(gangs.claims.core.queue.ad(job))
        self._timer = trio.CancelScope()

    @property
    def missing(self) -> int:
        """How many slots it still has to be offered."""
        return self._size - len(self._slots)

    def holds(self, claim: Claim) -> bool:
        """Whether it waits for this slot, or has it."""
        return claim in self._slots

    def add(self, claim: Claim) -> None:
        """One more is asked for."""
        self._slots[claim] = False
        if not self.missing:
            self.job.busy = True
            self._gangs.claims.core.waiting.discard(self.job)

    def granted(self, claim: Claim) -> None:
        """The slot is there; with the last of them the job begins."""
        self._slots[claim] = True
        if self._has() == self._size:
            claims = self._let_go()
            self._gangs.begin(self.job, claims)

    def lost(self, claim: Claim) -> None:
        """The slot was refused, or is gone: another has to be found."""
        del self._slots[claim]
        self.job.busy = False
        self._gangs.claims.core.settle(self.job)

    def give_up(self) -> None:
        """The job does not want to run, or its time is over: all that it has is given back, in one order."""
        for claim in sorted(self._let_go(), key=lambda claim: claim.public):
            self._gangs.claims.happens(claim, Unneeded())

    def _let_go(self) -> list[Claim]:
        claims = list(self._slots)
        self._slots.clear()
        self._timer.cancel()
        self.job.busy = False
        self._gangs.over(self)
        return claims

    def _has(self) -> int:
        return sum(self._slots.values())

    async def until_late(self, most_s: float) -> None:
        """Give up when that time is over."""
        with self._timer:
            await trio.sleep(most_s)
            core = self._gangs.claims.core
            has = self._has()
            core.log.always(f"Job {self.job.id} has {has} of {self._size} slots, and gives them back")
            self.give_up()
            core.cool_down(self.job, 1 + has)


class Gangs:
    """Which parallel job gathers slots."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self._gathering: Gathering | None = None

    # ---- what waits

    def wanted(self, groups: Sequence[WaitingGroup]) -> dict[WaitingGroup, int]:
        """How many slots each of these groups wants, in the order in which they are served."""
        wanted: dict[WaitingGroup, int] = {}
        gathers = self._gathering is not None
        for group in groups:
            job = group.first()
            if job is None or not is_gang(job.cluster.ad):
                wanted[group] = group.count
            elif self._gathering is not None and self._gathering.job.group is group:
                wanted[group] = self._gathering.missing
            elif not gathers:
                gathers = True
                wanted[group] = size_of(self.claims.core.queue.ad(job))
        return wanted

    def take(self, match: OfferedMatch, job: Job, pool: str, slice: str) -> bool:
        """Use a match for the job that gathers, or for this one where none does; False if it is of no use to it."""
        gathering = self._gathering
        job = gathering.job if gathering is not None else job
        group = self.claims.core.waiting.group_of(job)
        if pool or group is None or (group.submitter, group.autocluster) != (match.submitter, match.autocluster):
            return False
        if gathering is None:
            gathering = self._gathering = self._begin_to_gather(job)
        claim = self.claims.reserve(match, job, pool, slice)
        gathering.add(claim)
        fault("schedd.match_taken")
        self.claims.core.tasks.start(self._request, gathering, claim, failed=lambda _: gathering.give_up())
        return True

    def _begin_to_gather(self, job: Job) -> Gathering:
        core = self.claims.core
        gathering = Gathering(self, job)
        core.requested[job] = gathering.give_up
        core.tasks.start(gathering.until_late, core.settings.unused_claim_s)
        return gathering

    async def _request(self, gathering: Gathering, claim: Claim) -> None:
        refused = await self.claims.ask_for(claim, gathering.job)
        if refused:
            self.claims.refused(claim, gathering.job, refused)
        elif gathering.holds(claim):
            gathering.granted(claim)
        else:
            self.claims.happens(claim, Unneeded())

    def lost(self, claim: Claim) -> None:
        """The claim is over; where it was one that a job gathers, another has to be found."""
        if self._gathering is not None and self._gathering.holds(claim):
            self._gathering.lost(claim)

    def over(self, gathering: Gathering) -> None:
        """The job gathers no longer."""
        self.claims.core.requested.pop(gathering.job, None)
        if self._gathering is gathering:
            self._gathering = None
        self.claims.core.work_changed(True)

    # ---- running

    def begin(self, job: Job, claims: Iterable[Claim]) -> None:
        """Begin all nodes of the job, if it still wants to run, as part of the current transaction."""
        core, members = self.claims.core, list(claims)
        core.settle(job, tell=False)
        wants = job.group is not None
        core.waiting.discard(job)
        gang = self._nodes(job, members) if wants and not self.claims.stopping else None
        if gang is None:
            for claim in members:
                self.claims.happens(claim, Unneeded())
        else:
            gang.go()

    def _nodes(self, job: Job, members: Sequence[Claim]) -> Gang | None:
        core = self.claims.core
        ad = core.queue.ad(job)
        try:
            expanded = [late_macros.expand(ad, claim.slot_ad) for claim in members]
        except late_macros.CannotExpand as error:
            core.hold(job, error.message, 0)
            return None
        core.queue.set_busy(job, True)
        gang = self.claims.new_gang(job)
        for node, claim in enumerate(members):
            self._give(gang, claim, node, expanded[node])
        note_begin(core, job, members[0], expanded[0])
        core.queue.change(job, hosts(claim.slot_name for claim in members))
        return gang

    def _give(self, gang: Gang, claim: Claim, node: int, expanded: dict[str, object]) -> None:
        """The claim runs this node."""
        core = self.claims.core
        claim.node = node
        claim.describe(claim.slot_ad)
        core.queue.put_claim(claim.row())
        activation = f"{core.start.world.rng.getrandbits(64):016x}"
        claim.shadow = gang.add(claim, activation, expanded)
        self.claims.happens(claim, JobGiven(activation))
        core.queue.claim_works(claim.work())
